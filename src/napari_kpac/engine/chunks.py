"""Planes that stay where they are (in a file, in a store) and are read chunk by chunk.

Not for: opening files (napari_kpac.images).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from napari_kpac.engine.arrays import Array, Layout, Plane, read_plane

SMALLEST_SHARE = 4
"""A store whose chunks are not at least this many times smaller than an image is read whole."""
ROWS_AT_ONCE = 256


class ChunkedPlane:
    """One image as (H, W, channels); what is indexed is loaded, and nothing is kept."""

    def __init__(self, array: Any, plane: Plane, layout: Layout) -> None:
        self.array = array
        self.plane = plane
        self.dtype = layout.dtype
        self.shape = (*layout.size, 1 if plane.kind == "grey" else 3)

    def __getitem__(self, place: tuple[Any, Any]) -> Array:
        """Load rows and columns, each a slice or an array of indices."""
        slices, rest = zip(*(_cut(index) for index in place), strict=True)
        part = read_plane(self.array, self.plane, *slices)
        for axis, index in enumerate(rest):
            if index is not None:
                part = np.take(part, index, axis=axis)
        return part

    def bands(self) -> Iterator[Array]:
        """Iterate over the image from top to bottom."""
        for top in range(0, self.shape[0], ROWS_AT_ONCE):
            yield self[top : top + ROWS_AT_ONCE, slice(None)]

    def whole(self) -> Array:
        """Load all of it."""
        return self[slice(None), slice(None)]


def is_read_by_chunk(array: Any, layout: Layout) -> bool:
    """Return True if parts of a plane can be read for much less than the price of all of it.

    Stores say so by their ``chunks``, one size per axis. (Dask's chunks are lists: to read a
    part of those again and again would mean to compute them as often.)
    """
    chunks = getattr(array, "chunks", None)
    if isinstance(array, np.ndarray) or not isinstance(chunks, tuple):
        return False
    if len(chunks) != len(layout.shape) or not all(isinstance(n, int) for n in chunks):
        return False
    start = len(layout.leading)
    chunk = int(np.prod(chunks[start : start + 2], dtype=np.int64))
    height, width = layout.size
    return chunk * SMALLEST_SHARE <= height * width


def _cut(index: Any) -> tuple[slice, Any]:
    """Split an index into the slice that spans it and what to take of that slice."""
    if isinstance(index, slice):
        return index, None
    low, high = int(index.min()), int(index.max())
    return slice(low, high + 1), index - low
