"""The blur map: alpha_1 of block 1 as a measure of defocus, at image resolution.

Only the encoder and the first block's attention are run. Not for: thresholds and scores
(detection).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.options import BlurMapOptions
from napari_kpac.core.progress import StepCounter, Steps, finish, relay
from napari_kpac.engine.arrays import Maps, Plane
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.containers import map_like
from napari_kpac.engine.device import Model
from napari_kpac.engine.job import UNSET, Job, Views, as_numpy, each_plane, options_of
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.engine.pixels import PlaneReader, continued
from napari_kpac.engine.recipe import upsample


@dataclass(frozen=True, eq=False)
class BlurMap:
    """A blur map and how it was made."""

    values: Maps
    """(H, W) in 0..1, larger = more blurred; leading axes of a stack come first."""
    alpha: Maps
    """All alphas of block 1, (dilations, H, W), leading axes first."""
    upsampling: int
    """By how much the image was enlarged first."""
    options: BlurMapOptions


def blur_map(
    image: Any,
    model: Model | None = None,
    device: str | None = None,
    upsampling: int | Literal["auto", "paper"] = UNSET,
    *,
    options: BlurMapOptions | None = None,
    **fields: Any,
) -> Any:
    """Measure how blurred each pixel is: 0..1, larger = more blurred.

    This is alpha_1 of block 1, the attention of the smallest dilation, which the paper found
    to be active wherever there is blur of any size. As in the paper, the image is enlarged
    first: by 4 up to 1 megapixel, by less above, always by 4 with ``upsampling="paper"``.

    Parameters
    ----------
    image, model, device
        As for :func:`deblur`.
    upsampling
        ``auto``, ``paper``, 1, 2 or 4.
    options
        All options at once; keywords that are given as well replace its fields.
    **fields
        Further fields of :class:`BlurMapOptions`.

    Returns
    -------
    array
        float32 (H, W), leading axes of a stack first: a tensor on the same device where the image
        is a tensor, an xarray with its coordinates where it is one, else a NumPy array.
    """
    options = options_of(
        BlurMapOptions, options, model=model, device=device, upsampling=upsampling, **fields
    )
    found = finish(blur_map_steps(image, options, model=model))
    return map_like(image, found.values, "blur_map")


def blur_map_steps(
    image: Any,
    options: BlurMapOptions | None = None,
    *,
    views: Views = None,
    model: Model | None = None,
) -> Steps[BlurMap]:
    """Do the same step by step: yields progress in every tile, returns the map."""
    options = options or BlurMapOptions()
    with explaining_shortage():
        job = Job(image, options, views=views, model=model, mirrored=True)
        job.plan = replace(job.plan, kept_skips=())  # nothing is decoded
        alphas = job.layout.stack((yield from each_plane(job, partial(_attention, job))))
        values = np.ascontiguousarray(alphas[..., 0, :, :])
        return BlurMap(values, alphas, job.enlarge, options)


def _attention(job: Job, _: Plane, reader: PlaneReader) -> Steps[Maps]:
    """Compute the alphas of block 1 for a plane, at its resolution: (dilations, H, W)."""

    def attempt() -> Steps[Maps]:
        with closing(job.stages(reader)) as stages:
            report = StepCounter(job.plan.tile_count + stages.bands + 1).report
            yield from relay(stages.encode(), partial(report, "encode"))
            reach = job.net.attention(0).halo
            wide = _mirrored(stages.take_features(), reach)
            attention = Bottleneck(stages).attention(0, wide)
            found = yield from relay(attention, partial(report, "attention"))
            alpha = as_numpy(job.backend.download(found[0], torch.float32))
        first = -job.margin - reach * job.scale
        enlarged = smooth_upsample(alpha, job.scale, (reader.height, reader.width), first)
        # Averages over the pixels that each pixel was enlarged to.
        pooled = F.avg_pool2d(torch.from_numpy(enlarged)[None], job.enlarge)[0].numpy()
        yield report("attention")
        return pooled

    return (yield from job.within_memory(attempt))


def _mirrored(features: Tensor, cells: int) -> Tensor:
    """Continue features (1, C, h, w) on all sides, where zeros would read as blur."""
    for axis in (2, 3):
        size = features.shape[axis]
        index = continued(0, size + 2 * cells, size, size + 2 * cells, cells)
        features = features.index_select(axis, torch.from_numpy(index).to(features.device))
    return features


def smooth_upsample(maps: Maps, scale: int, size: tuple[int, int], first: int) -> Maps:
    """Interpolate maps of cells (N, h, w) to pixels (N, H, W) without kinks at the cells.

    Linear interpolation bends at every cell, which shows as a grid; the mean over one cell
    around each pixel makes a quadratic B-spline of it. ``first`` is where the first cell begins;
    there are cells on all sides of what is wanted.
    """
    half = scale // 2
    wide = (size[0] + 2 * half, size[1] + 2 * half)
    rough = torch.from_numpy(upsample(maps, scale, wide, (first + half, first + half)))[None]
    # A cell has an even number of pixels: two at a time bring the middle back to the pixel.
    return F.avg_pool2d(F.avg_pool2d(rough, scale, stride=1), 2, stride=1)[0].numpy()
