"""Batches of crops, each a function of the seed and its number alone.

So a run goes on exactly where it stopped, and any number of processes share a batch without
exchanging data. Not for: where pairs come from (datasets).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, interpolate

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import select_options
from napari_kpac.core.progress import Steps, finish
from napari_kpac.core.units import spread_radius
from napari_kpac.datasets.folders import FilePairs, open_pairs_steps
from napari_kpac.datasets.matching import read_splits
from napari_kpac.datasets.options import Augmentation, DataOptions
from napari_kpac.datasets.pairs import Floats, Pair, augment, check_aligned
from napari_kpac.datasets.photographs import (
    PLAIN,
    Blurring,
    find_photos,
    open_photographs,
    photos_of_split,
)
from napari_kpac.training.losses import steered_target, strength
from napari_kpac.training.options import SHARES, TrainKind, TrainOptions

TRAINING, VALIDATION, REAL, STEERING, NOISE = range(5)
"""Streams of random numbers."""
VALIDATED_RADII_PX = (0.7, 16.0)
STEERING_KINDS = ("alike", "dilations", "mutes", "patches")
"""Gains that are all alike; one for each dilation; mutes of single branches; a mask alone."""
ZERO_SHARE = 0.35
"""Share of the gains that are all alike and 0."""
MASKED_SHARE = 0.4
"""Share of the other kinds that have a mask as well."""
MAX_PATCH_SHARE = 0.6
"""Of the side of a crop."""

T = TypeVar("T")
Crop = Callable[[np.random.Generator, TrainOptions], Pair]
NumberedCrop = Callable[[np.random.Generator, TrainOptions, int], Pair]


@dataclass(frozen=True)
class Examples:
    """Crops as the network wants them: (B, 3, H, W) in [-1, 1]."""

    blurred: Tensor
    sharp: Tensor
    views: tuple[Tensor, Tensor] | None
    radius: Tensor
    """(B, H, W), magnitudes in pixels; NaN in crops whose radius is not known."""
    gains: Tensor | None = None
    """(B, blocks, dilations): what alpha is multiplied by; None where it stays as it is."""
    mask: Tensor | None = None
    """(B, H, W) in 0..1: multiplies the gains."""

    def target(self) -> Tensor:
        """Return what the network should make of the crops, with the gains that they have."""
        if self.gains is None or self.mask is None:
            return self.sharp
        left = strength(self.gains, self.mask, self.radius)
        return steered_target(self.blurred, self.sharp, left)

    def to(self, device: torch.device) -> Examples:
        """Move to a device, in the layout in which convolutions are fast."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device).contiguous(memory_format=torch.channels_last)

        return Examples(
            moved(self.blurred),
            moved(self.sharp),
            self.views and (moved(self.views[0]), moved(self.views[1])),
            self.radius.to(device),
            None if self.gains is None else self.gains.to(device),
            None if self.mask is None else self.mask.to(device),
        )


@dataclass(frozen=True)
class Data:
    """The two parts of a dataset, as sources of crops."""

    train: Crop
    validation: NumberedCrop
    about: str
    """What the data is, for the model's card."""
    skipped: dict[str, str]
    """Files that cannot be used, and why."""
    real: NumberedCrop | None = None
    """Pairs kept for validation, where pairs are mixed into synthetic data."""

    def batch(
        self,
        options: TrainOptions,
        step: int,
        rank: int = 0,
        world: int = 1,
        *,
        attention: tuple[int, int] = (0, 0),
    ) -> Examples:
        """Make the share of one process of a step's batch.

        Options are those of the phase, the step is counted from the beginning of the run;
        ``attention`` are the blocks and dilations of the network that have alphas to steer.
        """
        share = options.batch_size // world
        first = (0 if options.fixed_batch else step) * options.batch_size + rank * share
        numbers = range(first, first + share)
        examples = collate([self._crop(options, number) for number in numbers])
        if options.steering and all(attention):
            return _steered(examples, options, numbers, attention)
        return examples

    def held_out(self, options: TrainOptions, index: int) -> Examples:
        """Make one of the crops for validation."""
        if options.fixed_batch:
            return collate([self._crop(options, index % options.batch_size)])
        rng = np.random.default_rng((options.seed, VALIDATION, index))
        return collate([self.validation(rng, options, index)])

    def held_out_real(self, options: TrainOptions, index: int) -> Examples | None:
        """Make one of the crops of real pairs for validation; None where there are none."""
        if self.real is None:
            return None
        rng = np.random.default_rng((options.seed, REAL, index))
        return collate([self.real(rng, options, index)])

    def _crop(self, options: TrainOptions, number: int) -> Pair:
        return self.train(np.random.default_rng((options.seed, TRAINING, number)), options)


def collate(pairs: Sequence[Pair]) -> Examples:
    """Make a batch of pairs of the same size."""

    def stacked(images: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2) * 2 - 1

    views = None
    if all(pair.views is not None for pair in pairs):
        sides = list(zip(*(pair.views for pair in pairs if pair.views), strict=True))
        views = stacked(sides[0]), stacked(sides[1])
    radii = [
        np.full(pair.sharp.shape[:2], np.nan, np.float32)
        if pair.radius is None
        else np.abs(pair.radius)
        for pair in pairs
    ]
    return Examples(
        stacked([pair.blurred for pair in pairs]),
        stacked([pair.sharp for pair in pairs]),
        views,
        torch.from_numpy(np.stack(radii)),
    )


def _steered(
    examples: Examples,
    options: TrainOptions,
    numbers: Sequence[int],
    attention: tuple[int, int],
) -> Examples:
    """Draw gains for a share of the crops."""
    size, share = options.crop_size, options.steering
    drawn = []
    for number, radius in zip(numbers, examples.radius, strict=True):
        rng = np.random.default_rng((options.seed, STEERING, number))
        known = not bool(radius.isnan().any())
        drawn.append(draw_steering(rng, attention, size, share=share, known=known))
    gains, mask = (torch.from_numpy(np.stack(each)) for each in zip(*drawn, strict=True))
    return replace(examples, gains=gains, mask=as_alpha_sees(mask, 2**options.levels))


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

    A network that was only ever shown its own alpha need not listen to it. So alpha is multiplied
    as a person would in the mixer, and the target is what the image should then be: only as much
    of the correction as the gains leave (``losses.strength``). No attention means no change.

    Where the radius of the blur is not known, the gains are all alike, since nobody can say what
    each dilation contributes. Their shape is (blocks, dilations).
    """
    gains, mask = np.ones(shape, np.float32), np.ones((size, size), np.float32)
    if rng.uniform() >= share:
        return Steering(gains, mask)
    kind = STEERING_KINDS[int(rng.integers(len(STEERING_KINDS)))] if known else "alike"
    if kind == "alike":
        gains *= np.float32(0 if rng.uniform() < ZERO_SHARE else rng.uniform())
    elif kind == "dilations":
        gains[:] = rng.uniform(size=shape[1])
    elif kind == "mutes":
        gains[:] = rng.integers(2, size=shape)
    if kind == "patches" or (known and rng.uniform() < MASKED_SHARE):
        mask = _patches(rng, size)
    return Steering(gains, mask)


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


def coarse(mask: Tensor, size: tuple[int, int]) -> Tensor:
    """Return masks (B, H, W) at the resolution of alpha, (B, 1, h, w)."""
    return adaptive_avg_pool2d(mask[:, None], size)


def as_alpha_sees(mask: Tensor, cell: int) -> Tensor:
    """Return masks (B, H, W) as smooth as alpha can follow them, with cells of ``cell`` pixels."""
    height, width = mask.shape[-2:]
    small = coarse(mask, (height // cell, width // cell))
    smooth: Tensor = interpolate(small, size=(height, width), mode="bilinear", align_corners=False)
    return smooth[:, 0]


def open_data(options: TrainOptions) -> Data:
    """Open what the options name; problems with it are raised before anything is trained."""
    return finish(open_data_steps(options))


def open_data_steps(options: TrainOptions, *, compare: bool = True) -> Steps[Data]:
    """Open what the options name, yielding after each file that was looked at.

    Parameters
    ----------
    options
        What is trained.
    compare
        Whether the images of pairs are compared, which takes longer than all else.
    """
    if not options.root:
        raise ConfigError("no data to train on: name its folder as root")
    size = max(phase.options.crop_size for phase in options.schedule())
    if options.kind == "synthetic":
        return (yield from _open_mixed(options, size, compare=compare))
    return (yield from _open_all_pairs(options, options.kind, options.root, size, compare=compare))


def _open_mixed(options: TrainOptions, size: int, *, compare: bool) -> Steps[Data]:
    """Open photographs, and the pairs that are mixed in."""
    if options.pairs_root and options.dual:
        raise ConfigError(
            "pairs have no dual-pixel views: leave pairs_root out, or train without dual"
        )
    max_radius = max(phase.options.max_radius for phase in options.schedule())
    parts: tuple[list[Path], list[Path]] = ([], [])
    for root in map(Path, options.root):
        if read_splits(root) is None:
            split = _parted(find_photos([root]), options.validation_share)
        else:
            split = photos_of_split(root, "train"), photos_of_split(root, "val")
        for part, photos in zip(parts, split, strict=True):
            part += photos
    how: Any = {"size": size, "max_radius": max_radius, "skip_bad": options.skip_bad}
    train = yield from open_photographs(parts[0], **how)
    held = yield from open_photographs(parts[1], **how)
    pairs = None
    if options.pairs_root:
        roots = options.pairs_root
        pairs = yield from _open_all_pairs(options, "pairs", roots, size, compare=compare)

    def crop(rng: np.random.Generator, now: TrainOptions) -> Pair:
        content = _content(rng, now)
        if content == "paired" and pairs is not None:
            return pairs.train(rng, now)
        how = select_options(Blurring, now)
        return train.crop(rng, now.crop_size, how, content)  # type: ignore[arg-type]

    def validation(rng: np.random.Generator, now: TrainOptions, index: int) -> Pair:
        """Make crops of one radius and scenes in turn, at radii that fill a continuum evenly."""
        low, high = (min(radius, max_radius) for radius in VALIDATED_RADII_PX)
        radius = spread_radius(index, low, high) if low else 0.0
        how = replace(PLAIN, radii=(radius,), spread=0.0, shrink=now.shrink, dual=now.dual)
        if index % 2:
            how = replace(how, min_radius=radius, max_radius=radius)
        return held.crop(rng, now.crop_size, how, "scenes" if index % 2 else "uniform")

    names = ", ".join(Path(root).name for root in options.root)
    about = (
        f"synthetic defocus of 0 to {max_radius:g} px on {len(train.photos)} sharp photographs"
        f" ({names})"
    )
    skipped = {**train.skipped, **held.skipped}
    if pairs is None:
        return Data(crop, validation, about, skipped)
    about += f", and {pairs.about}"
    return Data(crop, validation, about, {**skipped, **pairs.skipped}, pairs.validation)


def _content(rng: np.random.Generator, options: TrainOptions) -> str:
    """Draw what a crop shows, by the shares."""
    shares = np.array([getattr(options, name) for name in SHARES])
    if not options.pairs_root:
        shares[SHARES.index("paired")] = 0
    edges = np.cumsum(shares / shares.sum())
    return SHARES[min(int(np.searchsorted(edges, rng.uniform(), side="right")), len(SHARES) - 1)]


def _open_all_pairs(
    options: TrainOptions, kind: TrainKind, roots: Sequence[str], size: int, *, compare: bool
) -> Steps[Data]:
    """Open the pairs of several folders."""
    parts = []
    for root in roots:
        parts.append((yield from _open_pairs(options, kind, root, size, compare=compare)))
    return _joined(parts)


def _open_pairs(
    options: TrainOptions, kind: TrainKind, root: str, size: int, *, compare: bool
) -> Steps[Data]:
    """Open the pairs of one folder, which must have room for crops of ``size``."""
    has_splits = kind == "dpdd" or read_splits(Path(root)) is not None

    def opened(split: str) -> Steps[FilePairs]:
        how = select_options(DataOptions, options, kind=kind, root=root, split=split, smallest=size)
        return open_pairs_steps(how, by_manifest=has_splits)

    train = held = yield from opened("train")
    if has_splits:
        held = yield from opened("val")
        indices = list(range(len(train))), list(range(len(held)))
    else:
        indices = _parted(range(len(train)), options.validation_share)
    if compare:
        yield from check_aligned(train, indices[0])
        yield from check_aligned(held, indices[1])

    def crop(rng: np.random.Generator, now: TrainOptions) -> Pair:
        noisy = now.kind != "synthetic" or rng.uniform() < now.noise_probability
        how = Augmentation(crop_size=now.crop_size, noise=now.noise if noisy else 0.0)
        return augment(train[indices[0][int(rng.integers(len(indices[0])))]], how, rng)

    def validation(rng: np.random.Generator, now: TrainOptions, index: int) -> Pair:
        how = Augmentation(crop_size=now.crop_size, noise=0.0)
        return augment(held[indices[1][index % len(indices[1])]], how, rng)

    about = f"{len(indices[0])} pairs ({kind}, {Path(root).name})"
    return Data(crop, validation, about, {**train.skipped, **held.skipped})


def _joined(parts: Sequence[Data]) -> Data:
    """Draw from several datasets, each as often as the others."""
    if len(parts) == 1:
        return parts[0]
    return Data(
        lambda rng, now: parts[int(rng.integers(len(parts)))].train(rng, now),
        lambda rng, now, index: parts[index % len(parts)].validation(rng, now, index // len(parts)),
        ", and ".join(part.about for part in parts),
        {name: why for part in parts for name, why in part.skipped.items()},
    )


def _parted(items: Sequence[T], share: float) -> tuple[list[T], list[T]]:
    """Part items evenly into those for training and those for validation; one each at least."""
    if len(items) < 2:
        return list(items), list(items)
    count = min(len(items) - 1, max(1, round(share * len(items))))
    held = {round((i + 0.5) * len(items) / count - 0.5) for i in range(count)}
    train = [item for i, item in enumerate(items) if i not in held]
    return train, [item for i, item in enumerate(items) if i in held]
