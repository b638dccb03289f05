"""Steering: alpha is changed during training as a person would in the mixer, and the target too.

A network that was only ever shown its own alpha need not listen to it. Here, in a share of the
crops, alpha is multiplied by random gains, and the target is what the image should then be:
only as much of the correction as the gains leave of the dilations that are at work. No attention
means no change. Not for: what alpha should be by itself (losses).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from napari_kpac.training.losses import alpha_targets

Floats = npt.NDArray[np.float32]

KINDS = ("alike", "dilations", "mutes", "patches")
"""Gains that are all alike; one for each dilation; mutes of single branches; a mask alone."""
ZERO_SHARE = 0.2
"""Share of the gains that are all alike and 0."""
MASKED_SHARE = 0.4
"""Share of the other kinds that have a mask as well."""
MAX_PATCH_SHARE = 0.6
"""Of the side of a crop."""


class Steering(NamedTuple):
    """The gains of one crop."""

    gains: Floats
    """(blocks, dilations) in 0..1."""
    mask: Floats
    """(H, W) in 0..1; multiplies the gains."""


def draw_steering(
    rng: np.random.Generator, shape: tuple[int, int], size: int, *, share: float, known: bool
) -> Steering:
    """Draw the gains of a crop of ``size`` pixels a side; all are 1 but in a share of the crops.

    Where the radius of the blur is not known, the gains are all alike, since nobody can say what
    each dilation contributes. Their shape is (blocks, dilations).
    """
    gains, mask = np.ones(shape, np.float32), np.ones((size, size), np.float32)
    if rng.uniform() >= share:
        return Steering(gains, mask)
    kind = KINDS[int(rng.integers(len(KINDS)))] if known else "alike"
    if kind == "alike":
        gains *= np.float32(0 if rng.uniform() < ZERO_SHARE else rng.uniform())
    elif kind == "dilations":
        gains[:] = rng.uniform(size=shape[1])
    elif kind == "mutes":
        gains[:] = rng.integers(2, size=shape)
    if kind == "patches" or (known and rng.uniform() < MASKED_SHARE):
        mask = _patches(rng, size)
    return Steering(gains, mask)


def strength(gains: Tensor, mask: Tensor, radius: Tensor) -> Tensor:
    """Return how much of the correction gains leave at each pixel, (B, 1, H, W) in 0..1.

    Every dilation carries a share of the correction: its alpha target at the true radius over
    the sum of all. Where the radius is NaN the gains are all alike, and the strength is theirs.
    Gains are (B, blocks, dilations), masks and radii in pixels (B, H, W).
    """
    alike = gains.mean(dim=1)[:, :, None, None]
    wanted = alpha_targets(radius.nan_to_num(1.0)[:, None], gains.shape[2])
    shares = wanted / wanted.sum(dim=1, keepdim=True)
    left = (shares * alike).sum(dim=1, keepdim=True)
    left = torch.where(radius.isnan()[:, None], alike.mean(dim=1, keepdim=True), left)
    return left * mask[:, None]


def steered_target(blurred: Tensor, sharp: Tensor, left: Tensor) -> Tensor:
    """Return the target of images (B, 3, H, W) for a strength (B, 1, H, W)."""
    return blurred + left * (sharp - blurred)


def coarse(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """Return masks (B, H, W) at the resolution of alpha, (B, 1, h, w)."""
    return adaptive_avg_pool2d(mask[:, None], size)


def as_alpha_sees(mask: Tensor, cell: int) -> Tensor:
    """Return masks (B, H, W) as smooth as alpha can follow them, with cells of ``cell`` pixels."""
    height, width = mask.shape[-2:]
    small = coarse(mask, (height // cell, width // cell))
    smooth: Tensor = interpolate(small, size=(height, width), mode="bilinear", align_corners=False)
    return smooth[:, 0]


def _patches(rng: np.random.Generator, size: int) -> Floats:
    """Draw rectangles, either switched off on a field that is on, or the other way round."""
    inverted = bool(rng.integers(2))
    mask = np.ones((size, size), np.float32)
    for _ in range(int(rng.integers(1, 5))):
        height, width = (rng.uniform(0.1, MAX_PATCH_SHARE, 2) * size).astype(int) + 1
        top, left = (int(rng.integers(size - side + 1)) for side in (height, width))
        value = 0.0 if rng.uniform() < 0.5 else rng.uniform()
        mask[top : top + height, left : left + width] = value
    return 1 - mask if inverted else mask
