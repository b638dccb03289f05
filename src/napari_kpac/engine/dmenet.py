"""DMENet on an image of any size: padded, in tiles that fit into the memory budget, sigma out.

Tiles overlap by what the network sees around a pixel, so the map is that of the whole image, up to
rounding. Not for: the network (network.dmenet), or which estimator is used (estimators.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.errors import DeviceError
from napari_kpac.core.options import Memory, parse_memory
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.backend import Backend
from napari_kpac.network import DMENet
from napari_kpac.network.dmenet import sigma_of
from napari_kpac.optics.pixels import Floats, to_unit

BYTES_PER_PIXEL = 32
"""Memory of a forward pass for each pixel of a tile and each channel of the first level."""


class _Span(NamedTuple):
    """Along one axis: what a tile makes, and what it must see for that, in padded pixels."""

    begin: int
    end: int
    seen_begin: int
    seen_end: int


def defocus_steps(image: Floats, net: DMENet, memory: Memory = None) -> Steps[Floats]:
    """Estimate the defocus of an image; yields after every part of every tile.

    Parameters
    ----------
    image
        Grey (H, W) or sRGB (H, W, 3), float32 in 0..1. Sides that are no multiples of 16 are
        padded with the mirrored image, and the map is cut back: no pixel is lost.
    net
        On the device where it is to run.
    memory
        Budget for a tile: bytes, a text like ``4 GB``, or None for a safe share of what is free.

    Returns
    -------
    ndarray
        Sigma in pixels, float32 (H, W).

    Raises
    ------
    DeviceError
        If the budget is too small for the smallest tile.
    ImageError
        If the image is of another kind, or smaller than 2x2 pixels.
    """
    device = next(net.parameters()).device
    image = to_unit(image)
    height, width = image.shape[:2]
    multiple = net.config.multiple
    padded = np.pad(
        np.atleast_3d(image),
        ((0, -height % multiple), (0, -width % multiple), (0, 0)),
        mode="symmetric",
    )
    size = (padded.shape[0], padded.shape[1])
    backend = Backend(device)
    side = tile_side(size, net, parse_memory(memory, backend.free_memory()))
    rows, columns = (list(_spans(length, side, halo_of(net), multiple)) for length in size)
    sigma = np.zeros(size, np.float32)
    done, total = 0, len(rows) * len(columns) * net.STAGES
    yield Progress(0, total, "estimating")
    for row in rows:
        for column in columns:
            seen = padded[row.seen_begin : row.seen_end, column.seen_begin : column.seen_end]
            backend.check_available(seen.shape[0] * seen.shape[1] * _pixel_bytes(net))
            with closing(net.stages(_as_tensor(seen, device))) as stages:
                while True:
                    try:
                        next(stages)
                    except StopIteration as stop:
                        made = sigma_of(stop.value)[0, 0].float().cpu().numpy()
                        break
                    done += 1
                    yield Progress(done, total, "estimating")
            sigma[row.begin : row.end, column.begin : column.end] = made[
                row.begin - row.seen_begin : row.end - row.seen_begin,
                column.begin - column.seen_begin : column.end - column.seen_begin,
            ]
    return np.ascontiguousarray(sigma[:height, :width])


def halo_of(net: DMENet) -> int:
    """Return by how much tiles overlap on every side: the network's halo, in whole cells."""
    multiple = net.config.multiple
    return net.halo + -net.halo % multiple


def tile_side(size: tuple[int, int], net: DMENet, budget: int) -> int:
    """Return the side of the tiles, in pixels of the map, for an image of a padded size.

    An image that fits into the budget is one tile.

    Raises
    ------
    DeviceError
        If the smallest tile does not fit.
    """
    multiple, halo, needed = net.config.multiple, halo_of(net), 0
    if size[0] * size[1] * _pixel_bytes(net) <= budget:
        return max(size)
    for side in range(max(size), 0, -multiple):
        height, width = (min(length, side + 2 * halo) for length in size)
        needed = height * width * _pixel_bytes(net)
        if needed <= budget:
            return side
    raise DeviceError(
        f"DMENet needs {needed / 1e6:.0f} MB for its smallest tile, and the memory budget is"
        f" {budget / 1e6:.0f} MB; give it more memory, or choose another estimator"
    )


def _pixel_bytes(net: DMENet) -> int:
    return BYTES_PER_PIXEL * net.config.width


def _spans(length: int, side: int, halo: int, multiple: int) -> Iterator[_Span]:
    """Yield tiles along an axis, as equal as whole cells allow."""
    count = -(-length // side)
    cells = length // multiple
    for number in range(count):
        begin, end = (cells * (number + i) // count * multiple for i in (0, 1))
        yield _Span(begin, end, max(0, begin - halo), min(length, end + halo))


def _as_tensor(pixels: Floats, device: torch.device) -> Tensor:
    """Return pixels (H, W, 1 or 3) as the network takes them."""
    tensor = torch.from_numpy(np.ascontiguousarray(np.moveaxis(pixels, 2, 0)))[None]
    tensor = tensor.to(device).expand(1, 3, -1, -1)
    return tensor.contiguous(memory_format=torch.channels_last)
