"""Pixel values: what range maps to the network's [-1, 1], and back without loss.

Not for: axes (arrays.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import torch
from scipy.ndimage import distance_transform_edt
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import RangeRule
from napari_kpac.engine.arrays import (
    BAND_ROWS,
    EVERY,
    Array,
    ChunkedPlane,
    Layout,
    Plane,
    read_plane,
)

Pixels = Array | ChunkedPlane
"""A plane (H, W, channels), loaded or read as it is needed."""
Strength = float | npt.NDArray[np.float64]
"""Factor of a residual: a number, or a map (h, w)."""

LOW_PERCENTILE, HIGH_PERCENTILE = 0.1, 99.9
MAX_SAMPLES = 4_000_000
MIN_RANGE_WIDTH = 1e-300
"""Ranges must be wider, or dividing by them would overflow."""
MAX_RANGE_CENTRE = 1e308
"""Ranges around values beyond would overflow."""
MAX_SINGLE = 1e30
"""Beyond this, and below its inverse, single precision is not enough for a range."""
MAX_NETWORK_VALUE = 1e3
"""Values beyond are clipped: a single hot pixel must not drown all others."""


@dataclass(frozen=True)
class PixelRange:
    """The values that the network sees as black and as white."""

    low: float
    high: float
    rule: str
    """Which rule gave them."""

    @property
    def half(self) -> float:
        """Half the width: one unit of the network in pixel values."""
        return (self.high - self.low) / 2


class Rect(NamedTuple):
    """A rectangle of pixels, ends excluded."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def height(self) -> int:
        """Number of rows."""
        return self.bottom - self.top

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.right - self.left

    @property
    def slices(self) -> tuple[slice, slice]:
        """For indexing arrays: rows and columns."""
        return slice(self.top, self.bottom), slice(self.left, self.right)

    def grown(self, by: int, height: int, width: int) -> Rect:
        """Grow on all sides, but not beyond an image of that size."""
        top, left = max(self.top - by, 0), max(self.left - by, 0)
        return Rect(top, min(self.bottom + by, height), left, min(self.right + by, width))

    def clipped(self, height: int, width: int) -> Rect:
        """Cut off what lies beyond an image of that size."""
        return Rect(self.top, min(self.bottom, height), self.left, min(self.right, width))

    def inside(self, outer: Rect) -> Rect:
        """Return the same rectangle in coordinates of ``outer``."""
        top, left = outer.top, outer.left
        return Rect(self.top - top, self.bottom - top, self.left - left, self.right - left)

    def aligned(self, cell: int) -> Rect:
        """Grow to whole cells of that side."""
        top, left = self.top - self.top % cell, self.left - self.left % cell
        return Rect(top, self.bottom + -self.bottom % cell, left, self.right + -self.right % cell)

    def divided(self, by: int) -> Rect:
        """Return the rectangle of cells of that side; all edges must be multiples."""
        return Rect(*(edge // by for edge in self))

    def times(self, factor: int) -> Rect:
        """Return the same rectangle in an image enlarged by a whole factor."""
        return Rect(*(edge * factor for edge in self))


def needs_data(rule: RangeRule, dtype: np.dtype[Any]) -> bool:
    """Return True if a rule has to look at the pixels."""
    return rule == "percentile" or (
        rule == "auto" and not (dtype.kind in "ui" and dtype.itemsize == 1)
    )


def resolve_range(
    rule: RangeRule, layout: Layout, arrays: Iterable[Any], step: int | None = None
) -> PixelRange:
    """Apply a rule to the data; of large stacks to every so many pixels (see ``step``).

    ==============  ====================================================================
    rule            black and white
    ==============  ====================================================================
    ``dtype``       the smallest and largest integer of the dtype; 0 and 1 for floats
    ``unit``        0 and 1
    ``percentile``  the 0.1 and 99.9 percentiles of the whole stack (of an even sample of
                    it, where it has more than 4 million pixels)
    two numbers     those, for example the contrast limits of a napari layer
    ``auto``        8-bit integers: ``dtype``; floats that all lie within 0..1: ``unit``;
                    everything else: ``percentile``
    ==============  ====================================================================
    """
    if not isinstance(rule, str):
        return PixelRange(rule[0], rule[1], "given")
    dtype, unit = layout.dtype, PixelRange(0.0, 1.0, "unit")
    if rule == "unit":
        return unit
    if not needs_data(rule, dtype):
        if dtype.kind == "f":
            return PixelRange(0.0, 1.0, "dtype")
        info = np.iinfo(dtype)
        return PixelRange(float(info.min), float(info.max), "dtype")
    sample = _sample(layout, arrays, step or sampling_step(layout))
    if not sample.size:
        return unit
    if rule == "auto" and dtype.kind == "f" and sample.min() >= 0 and sample.max() <= 1:
        return unit
    # Halved, so that not even the width of all floating-point numbers overflows.
    found = np.percentile(sample / 2, (LOW_PERCENTILE, HIGH_PERCENTILE))
    low, high = (float(v) for v in found * 2)
    if not np.isfinite(high - low):
        low, high = (float(v) for v in found)
    if not high - low > max(1e-12 * max(abs(low), abs(high)), MIN_RANGE_WIDTH):
        # A constant image: any range around it will do.
        width = max(1.0, abs(low) * 1e-6)
        centre = min(max(low, -MAX_RANGE_CENTRE), MAX_RANGE_CENTRE)
        low, high = centre - width / 2, centre + width / 2
    return PixelRange(low, high, "percentile")


def check_finite(layout: Layout, arrays: Iterable[Any]) -> None:
    """Raise if no pixel is finite; the search ends at the first that is."""
    if not has_finite(layout, arrays):
        raise ImageError(
            "the image has no finite value: every pixel is NaN or infinite, so there is nothing "
            "to work on; check how it was made or loaded"
        )


def has_finite(layout: Layout, arrays: Iterable[Any]) -> bool:
    """Return True if any pixel of an image or of its views is finite."""
    return layout.dtype.kind != "f" or any(
        np.isfinite(read_plane(array, plane, slice(top, top + BAND_ROWS))).any()
        for array in arrays
        for plane in layout.planes()
        for top in range(0, layout.size[0], BAND_ROWS)
    )


def sampling_step(layout: Layout) -> int:
    """Return how many pixels apart a sample for the range is taken, along rows and columns."""
    each = max(1, MAX_SAMPLES // sum(1 for _ in layout.planes()))
    height, width = layout.size
    return max(1, int(np.ceil(np.sqrt(height * width / each))))


def _sample(
    layout: Layout, arrays: Iterable[Any], step: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    found = []
    every = slice(None, None, step)
    for array in arrays:
        for plane in layout.planes():
            part = read_plane(array, plane, every, every).astype(np.float64).ravel()
            found.append(part[np.isfinite(part)])
    return np.concatenate(found)


class PlaneReader:
    """Reads rectangles of one plane (or dual-pixel pair) in network values.

    Coordinates are those of the padded plane: a margin on every side, both sides rounded up to a
    multiple, the border continued by reflection (by its last pixel, where the plane is too small).
    """

    def __init__(
        self,
        base: Pixels | None,
        views: tuple[Pixels, Pixels] | None,
        pixel_range: PixelRange,
        multiple: int,
        dtype: torch.dtype = torch.float32,
        margin: int = 0,
    ) -> None:
        self.base = base
        self.views = views
        self.range = pixel_range
        self.dtype = dtype
        first = base if base is not None else views[0]  # type: ignore[index]
        self.height, self.width, self.channels = first.shape
        self.margin = margin
        self.padded = padded_size((self.height, self.width), multiple, margin)
        given = (base,) if views is None else views
        self._filled = [fill_nonfinite(image) for image in given if image is not None]

    def read(self, rect: Rect) -> Tensor:
        """Return the network's input (1, 3 or 6, h, w) for a rectangle."""
        rows = continued(rect.top, rect.bottom, self.height, self.padded[0], self.margin)
        columns = continued(rect.left, rect.right, self.width, self.padded[1], self.margin)
        parts = [self._normalised(image, rows, columns) for image in self._filled]
        return torch.cat(parts, dim=1).contiguous(memory_format=torch.channels_last)

    def restore(
        self, rect: Rect, residual: Tensor, out_dtype: np.dtype[Any], strength: Strength = 1.0
    ) -> Array:
        """Add a residual (1, 3, h, w) times its strength to the pixels of a rectangle.

        The rectangle lies within the plane. Values outside the range pass unharmed, NaN
        stays NaN, integers are rounded and kept within their type. Where the strength is 0 and
        the type is that of the image, pixels are the image's own, bit by bit.
        """
        exact = self._working_dtype(out_dtype)
        factor = torch.as_tensor(strength, dtype=residual.dtype)
        change: Array = (residual * factor)[0].permute(1, 2, 0).numpy().astype(exact)
        if self.channels == 1:
            change = change.mean(axis=-1, keepdims=True)
        base = self._base(rect, exact)
        with np.errstate(over="ignore"):
            change *= self.range.half
            pixels: Array = base + change
        found = (
            _to_integers(pixels, out_dtype)
            if out_dtype.kind in "ui"
            else _to_floats(pixels, base, out_dtype)
        )
        still = np.asarray(strength) == 0
        if still.any() and self.base is not None:
            if np.can_cast(self.base.dtype, out_dtype, "equiv"):
                np.copyto(found, self.base[rect.slices], where=still[..., None])
        return found

    def _working_dtype(self, dtype: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type in which pixels of another are computed."""
        size, half = abs(self.range.low), self.range.half
        ordinary = size < MAX_SINGLE and 1 / MAX_SINGLE < half < MAX_SINGLE
        # Integers of up to 16 bits and floats of up to 32 are exact in single precision.
        if ordinary and dtype.itemsize <= (2 if dtype.kind in "ui" else 4):
            return np.dtype(np.float32)
        return np.dtype(np.longdouble if dtype.itemsize > 8 else np.float64)

    def _base(self, rect: Rect, dtype: np.dtype[Any]) -> Array:
        if self.base is not None:
            return self.base[rect.slices].astype(dtype)
        assert self.views is not None  # noqa: S101 - the constructor saw to it
        left, right = (view[rect.slices].astype(dtype) for view in self.views)
        middle: Array = left + (right - left) / 2
        return middle

    def _normalised(self, image: Pixels, rows: Array, columns: Array) -> Tensor:
        if isinstance(image, ChunkedPlane):
            part = image[as_slice(rows), as_slice(columns)]
        else:
            part = image[as_slice(rows), :][:, as_slice(columns)]
        small = self.dtype == torch.float32 and self._working_dtype(part.dtype) == np.float32
        with np.errstate(over="ignore"):
            values = torch.from_numpy(np.array(part, dtype=np.float32 if small else np.float64))
        values = values.sub_(self.range.low).div_(self.range.half).sub_(1)
        values = values.clamp_(-MAX_NETWORK_VALUE, MAX_NETWORK_VALUE).to(self.dtype)
        return values.permute(2, 0, 1)[None].expand(1, 3, -1, -1)


def _to_floats(pixels: Array, base: Array, dtype: np.dtype[Any]) -> Array:
    """Clip instead of becoming infinite; what was not finite before stays as it was."""
    info = np.finfo(dtype)
    found = np.where(np.isfinite(base), np.clip(pixels, info.min, info.max), base)
    return np.asarray(found, dtype=dtype)


def _to_integers(pixels: Array, dtype: np.dtype[Any]) -> Array:
    """Round, and clip instead of wrapping around."""
    info = np.iinfo(dtype)
    rounded = np.rint(pixels, out=pixels)
    if dtype.itemsize < 8:
        return np.clip(rounded, info.min, info.max, out=rounded).astype(dtype)
    # The limits of 64-bit integers are no floating-point numbers: clip by hand.
    above, below = rounded >= float(info.max), rounded <= float(info.min)
    result: Array = np.where(above | below, 0, rounded).astype(dtype)
    result[above], result[below] = info.max, info.min
    return result


def restore_pixels(
    reader: PlaneReader,
    array: Any,
    plane: Plane,
    rect: Rect,
    residual: Tensor,
    dtype: np.dtype[Any],
    strength: Strength = 1.0,
) -> Array:
    """Return the deblurred pixels of a rectangle of a plane, with axes as in ``array``.

    The transparency of RGBA is taken from there; for the rest see :meth:`PlaneReader.restore`.
    """
    pixels = reader.restore(rect, residual, dtype, strength)
    if plane.kind == "rgba":
        transparency = np.asarray(array[(*plane.indices[0], *rect.slices, slice(3, 4))])
        pixels = np.concatenate([pixels, transparency.astype(dtype)], axis=-1)
    return pixels[..., 0] if plane.kind == "grey" else pixels


def enlarged(image: Array, factor: int) -> Array:
    """Enlarge a plane (H, W, channels) by a whole factor, bicubic, in floating point."""
    if factor == 1:
        return image
    kind = np.float64 if image.dtype.itemsize > 4 else np.float32
    finite = cast("Array", fill_nonfinite(image))
    tensor = torch.from_numpy(finite.astype(kind)).permute(2, 0, 1)[None]
    larger = F.interpolate(tensor, scale_factor=float(factor), mode="bicubic", align_corners=False)
    return larger[0].permute(1, 2, 0).numpy()


def fill_nonfinite(image: Pixels) -> Pixels:
    """Replace pixels that are not finite by their nearest finite neighbour.

    A plane that is read by chunk is loaded only where it has such pixels.
    """
    if image.dtype.kind != "f":
        return image
    if isinstance(image, ChunkedPlane):
        if all(np.isfinite(band).all() for band in image.bands()):
            return image
        image = image[EVERY, EVERY]
    gaps = ~np.isfinite(image).all(axis=-1)
    if not gaps.any():
        return image
    if gaps.all():
        return np.zeros_like(image)
    nearest = distance_transform_edt(gaps, return_distances=False, return_indices=True)
    filled: Array = image[tuple(nearest)]
    return filled


def padded_size(size: tuple[int, int], multiple: int, margin: int = 0) -> tuple[int, int]:
    """Return the size of a plane with its margin, rounded up to a multiple."""
    height, width = (side + 2 * margin for side in size)
    return height + -height % multiple, width + -width % multiple


def continued(start: int, stop: int, size: int, padded: int, margin: int = 0) -> Array:
    """Return indices that continue 0..size-1 by reflection, or by the edge where too short.

    The first index is ``margin`` before 0, as in a padded plane.
    """
    index = np.arange(start, stop) - margin
    if max(margin, padded - size - margin) < size:
        reflected: Array = size - 1 - np.abs(size - 1 - np.abs(index))
        return reflected
    return np.clip(index, 0, size - 1)


def as_slice(index: Array) -> Any:
    """Turn consecutive indices into a slice, which makes a view instead of a copy."""
    if index[-1] - index[0] == len(index) - 1 and (np.diff(index) == 1).all():
        return slice(int(index[0]), int(index[-1]) + 1)
    return index
