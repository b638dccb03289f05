"""Pixels that are not there: gaps inside a picture, and what lies beyond its border.

Not for: values (pixels.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
from torch.nn import functional as F

from napari_kpac.engine.arrays import Array
from napari_kpac.engine.blocks import BlockPlane

Pixels = Array | BlockPlane
"""A picture (H, W, channels), loaded or read as it is needed."""


def enlarged(picture: Array, factor: int) -> Array:
    """Enlarge a picture (H, W, channels) by a whole factor, bicubic, in floating point."""
    if factor == 1:
        return picture
    kind = np.float64 if picture.dtype.itemsize > 4 else np.float32
    tensor = torch.from_numpy(fill_gaps(picture).astype(kind)).permute(2, 0, 1)[None]
    larger = F.interpolate(tensor, scale_factor=float(factor), mode="bicubic", align_corners=False)
    return larger[0].permute(1, 2, 0).numpy()


def without_gaps(picture: Pixels) -> Pixels:
    """Fill gaps; a picture that is read by block is loaded whole only where it has some."""
    if not isinstance(picture, BlockPlane):
        return fill_gaps(picture)
    if picture.dtype.kind != "f" or all(np.isfinite(band).all() for band in picture.bands()):
        return picture
    return fill_gaps(picture.whole())


def fill_gaps(picture: Array) -> Array:
    """Replace pixels that are not finite by their nearest finite neighbour."""
    if picture.dtype.kind != "f":
        return picture
    gaps = ~np.isfinite(picture).all(axis=-1)
    if not gaps.any():
        return picture
    if gaps.all():
        return np.zeros_like(picture)
    nearest = distance_transform_edt(gaps, return_distances=False, return_indices=True)
    filled: Array = picture[tuple(nearest)]
    return filled


def continued(start: int, stop: int, size: int, padded: int) -> Array:
    """Return indices that continue 0..size-1 by reflection, or by the edge where too short."""
    index = np.arange(start, stop)
    reflects = padded - size < size
    return np.where(index < size, index, 2 * (size - 1) - index if reflects else size - 1)


def as_slice(index: Array) -> Any:
    """Turn consecutive indices into a slice, which makes a view instead of a copy."""
    if index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
