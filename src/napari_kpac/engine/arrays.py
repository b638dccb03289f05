"""Axes of arrays: which are pixels, colour, time, z or channels; planes, loaded or by chunk.

Nothing is loaded but the plane that is asked for. Not for: values (pixels.py), or opening
files (napari_kpac.images).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import ImageOptions
from napari_kpac.engine.containers import pixels_of

Array = npt.NDArray[Any]
Maps = npt.NDArray[np.float32]
Kind = Literal["grey", "rgb", "rgba"]
EVERY = slice(None)
MIN_CHUNKS_PER_PLANE = 4
"""Planes in fewer chunks are read as a whole."""
BAND_ROWS = 256
"""Rows that are read at a time where a whole plane is looked at."""


@dataclass(frozen=True)
class Plane:
    """One grey or colour image inside an array."""

    kind: Kind
    indices: tuple[tuple[int, ...], ...]
    """Where its channels lie: one index, or three where channels of an axis make up RGB."""


@dataclass(frozen=True)
class Layout:
    """How the axes of an array are read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    colour: Kind
    """``rgb`` or ``rgba`` where the last axis is colour, else ``grey``."""
    channel_axis: int | None = None
    rgb_channels: tuple[int, int, int] | None = None

    @property
    def leading(self) -> tuple[int, ...]:
        """Sizes of the axes before the plane's own: time, z, channels."""
        return self.shape[: -2 if self.colour == "grey" else -3]

    def stack(self, maps: Sequence[Array]) -> Array:
        """Return one array of maps of all planes, with the leading axes of the image.

        Where channels make up RGB, planes are counted along one axis instead.
        """
        leading = self.leading if self.rgb_channels is None else (len(maps),)
        return np.stack(maps).reshape(*leading, *maps[0].shape)

    @property
    def could_be_colour(self) -> bool:
        """Whether the last axis has as many entries as colours."""
        return len(self.shape) >= 3 and self.shape[-1] in (3, 4)

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of a plane."""
        rows, columns, *_ = self.plane_shape
        return rows, columns

    @property
    def plane_shape(self) -> tuple[int, ...]:
        """Height, width and, where it has one, the colour axis."""
        return self.shape[len(self.leading) :]

    @property
    def plane_bytes(self) -> int:
        """Bytes that the pixels of a plane take in the array."""
        return int(np.prod(self.plane_shape, dtype=np.int64)) * self.dtype.itemsize

    def planes(self) -> Iterator[Plane]:
        """Iterate over all planes, in the order of the array."""
        if self.rgb_channels is None or self.channel_axis is None:
            for index in np.ndindex(self.leading):
                yield Plane(self.colour, (index,))
            return
        axis = self.channel_axis
        alone = [c for c in range(self.leading[axis]) if c not in self.rgb_channels]
        before, after = self.leading[:axis], self.leading[axis + 1 :]
        for head, tail in product(np.ndindex(before), np.ndindex(after)):
            yield Plane("rgb", tuple((*head, c, *tail) for c in self.rgb_channels))
            for channel in alone:
                yield Plane("grey", ((*head, channel, *tail),))


def as_array(image: Any) -> Any:
    """Return what behaves like an array: shape, dtype and slicing; lazy ones stay lazy.

    Of a multiscale image (a sequence of arrays) the full resolution is taken, of tensors, xarrays
    and quantities the array inside; plain nested lists become NumPy arrays.
    """
    if isinstance(image, Sequence) and not isinstance(image, str | bytes):
        if len(image) and hasattr(image[0], "shape") and np.ndim(image[0]) >= 2:
            shapes = [getattr(level, "shape", ()) for level in image]
            smaller = all(np.prod(a) > np.prod(b) for a, b in pairwise(shapes))
            if smaller and len({len(shape) for shape in shapes}) == 1:
                return as_array(image[0])
        image = _numpy(image)
    image = pixels_of(image)
    if isinstance(image, np.ma.MaskedArray):
        masked = int(np.count_nonzero(np.ma.getmaskarray(image)))
        if masked:
            raise ImageError(
                f"{masked} pixels of the image are masked; fill them first, for example with "
                "image.filled(0)"
            )
        image = np.asarray(image.data)
    if not (hasattr(image, "shape") and hasattr(image, "dtype") and hasattr(image, "__getitem__")):
        image = _numpy(image)
    return image


def layout_for(array: Any, options: ImageOptions) -> Layout:
    """Decide how to read an array (from :func:`as_array`) by the options of an action.

    Where ``options.rgb`` is None, the last axis is colour if it has 3 or 4 entries and the array
    has at least three axes, as in napari. ``channel_axis`` and ``rgb_channels`` go together:
    three channels of that axis are processed as one RGB image; the others, like all leading
    axes, by themselves.
    """
    shape = tuple(int(n) for n in array.shape)
    dtype = np.dtype(array.dtype)
    if dtype.kind not in "uif":
        raise ImageError(
            f"an image of {dtype} values cannot be deblurred; convert it to integers or real "
            "floating-point numbers first"
        )
    if len(shape) < 2:
        raise ImageError(f"an image needs at least two axes, this array has shape {shape}")
    if 0 in shape:
        raise ImageError(f"the image is empty: its shape is {shape}")
    coloured = len(shape) >= 3 and shape[-1] in (3, 4)
    if options.rgb and not coloured:
        raise ImageError(f"rgb=True needs a last axis of 3 or 4 entries, the shape is {shape}")
    colour: Kind = "grey"
    if coloured if options.rgb is None else options.rgb:
        colour = "rgb" if shape[-1] == 3 else "rgba"
    layout = Layout(shape, dtype, colour)
    if options.channel_axis is None and options.rgb_channels is None:
        return layout
    return _with_channels(layout, options.channel_axis, options.rgb_channels)


def output_for(layout: Layout, out: Any, array: Any) -> Any:
    """Return where a result goes: what was given, if it fits, or a new array.

    ``array`` holds the image.
    """
    if out is None:
        try:
            return np.empty(layout.shape, layout.dtype)
        except (MemoryError, ValueError) as error:
            raise ImageError(
                f"out of memory for a result of shape {layout.shape} and type {layout.dtype}; "
                "give out=, for example a Zarr array, or work on files"
            ) from error
    if pixels_of(out) is not out:
        raise ImageError(
            f"out is a {type(out).__name__}; give an array, or no out: the result is returned in "
            "the container of the image"
        )
    if tuple(out.shape) != layout.shape:
        raise ImageError(f"out has shape {tuple(out.shape)}, the image {layout.shape}")
    if isinstance(out, np.ndarray) and np.may_share_memory(out, array):
        raise ImageError("out must not share memory with the image")
    return out


def read_plane(array: Any, plane: Plane, rows: slice = EVERY, columns: slice = EVERY) -> Array:
    """Load a plane, or a part of it, as (H, W, channels), without the transparency of RGBA."""
    if len(plane.indices) > 1:
        parts = [_numpy(array[(*index, rows, columns)]) for index in plane.indices]
        return np.stack(parts, axis=-1)
    image = _numpy(array[(*plane.indices[0], rows, columns)])
    if plane.kind == "grey":
        return image[..., None]
    return image[..., :3]


def plane_output(layout: Layout, plane: Plane) -> Array:
    """Return an array for the pixels of one plane: an entry for each of its indices."""
    return np.empty((len(plane.indices), *layout.plane_shape), layout.dtype)


def write_plane(
    out: Any, plane: Plane, place: tuple[slice, slice], pixels: Array, *, alone: bool = False
) -> None:
    """Write rows and columns of a plane into an array of all planes, or of this one ``alone``."""
    indices = [(n,) for n in range(len(plane.indices))] if alone else plane.indices
    if len(indices) == 1:
        out[(*indices[0], *place)] = pixels
        return
    for channel, index in enumerate(indices):
        out[(*index, *place)] = pixels[..., channel]


def _with_channels(layout: Layout, axis: int | None, channels: Sequence[int] | None) -> Layout:
    if axis is None or channels is None or layout.colour != "grey":
        raise ImageError(
            "channel_axis and rgb_channels go together, on an image whose last axis is not colour"
        )
    counted = axis + len(layout.shape) if axis < 0 else axis
    if not 0 <= counted < len(layout.leading):
        raise ImageError(
            f"channel_axis={axis} must be one of the {len(layout.leading)} axes before the last two"
        )
    count = layout.leading[counted]
    chosen = tuple(int(c) for c in channels)
    if len(chosen) != 3 or len(set(chosen)) != 3 or not all(0 <= c < count for c in chosen):
        raise ImageError(
            f"rgb_channels={tuple(channels)} must be three different channels out of 0..{count - 1}"
        )
    red, green, blue = chosen
    return Layout(layout.shape, layout.dtype, "grey", counted, (red, green, blue))


def _numpy(data: Any) -> Array:
    try:
        return np.asarray(data)
    except (ValueError, TypeError) as error:
        raise ImageError(f"this is not an image: {error}") from error


class ChunkedPlane:
    """A plane that stays in its file or store, as (H, W, channels); indexing loads that part."""

    def __init__(self, array: Any, plane: Plane, layout: Layout) -> None:
        self.array = array
        self.plane = plane
        self.dtype = layout.dtype
        self.shape = (*layout.size, 1 if plane.kind == "grey" else 3)

    def __getitem__(self, place: tuple[Any, Any]) -> Array:
        """Load rows and columns, each a slice or an array of indices."""
        spans = [
            each if isinstance(each, slice) else slice(int(each.min()), int(each.max()) + 1)
            for each in place
        ]
        part = read_plane(self.array, self.plane, *spans)
        for axis, (each, span) in enumerate(zip(place, spans, strict=True)):
            if not isinstance(each, slice):
                part = np.take(part, each - span.start, axis=axis)
        return part

    def bands(self) -> Iterator[Array]:
        """Iterate over the plane from top to bottom."""
        for top in range(0, self.shape[0], BAND_ROWS):
            yield self[top : top + BAND_ROWS, EVERY]


def is_read_by_chunk(array: Any, layout: Layout) -> bool:
    """Return True if a part of a plane can be read for much less than the whole costs.

    Stores say so by their ``chunks``, one size per axis. (Dask's chunks are lists: reading
    parts of those again and again would compute them as often.)
    """
    chunks = getattr(array, "chunks", None)
    if isinstance(array, np.ndarray) or not isinstance(chunks, tuple):
        return False
    if len(chunks) != len(layout.shape) or not all(isinstance(n, int) for n in chunks):
        return False
    start = len(layout.leading)
    chunk = int(np.prod(chunks[start : start + 2], dtype=np.int64))
    height, width = layout.size
    return chunk * MIN_CHUNKS_PER_PLANE <= height * width
