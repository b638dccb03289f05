"""Arrays as people have them: which axes are pixels, colour, time, z or channels.

Nothing is loaded but the plane that is asked for. Not for: values (pixels.py).
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

Array = npt.NDArray[Any]
Kind = Literal["grey", "rgb", "rgba"]
EVERY = slice(None)


@dataclass(frozen=True)
class Plane:
    """One image inside an array."""

    kind: Kind
    indices: tuple[tuple[int, ...], ...]
    """Where its channels lie: one index, or three where channels of an axis make up RGB."""

    @property
    def name(self) -> str:
        """For messages: the index along the leading axes, empty for a single image."""
        return "+".join(",".join(map(str, index)) for index in self.indices)


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
        """Sizes of the axes before the image's own: time, z, channels."""
        return self.shape[: -2 if self.colour == "grey" else -3]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of an image."""
        rows, columns = self.shape[-2:] if self.colour == "grey" else self.shape[-3:-1]
        return rows, columns

    def planes(self) -> Iterator[Plane]:
        """Iterate over all images, in the order of the array."""
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

    Of a multiscale image (a sequence of arrays) the full resolution is taken, of an xarray
    its data; plain nested lists become NumPy arrays.
    """
    if isinstance(image, Sequence) and not isinstance(image, str | bytes):
        if len(image) and hasattr(image[0], "shape") and np.ndim(image[0]) >= 2:
            shapes = [getattr(level, "shape", ()) for level in image]
            if all(len(s) == len(shapes[0]) for s in shapes) and _shrinking(shapes):
                return as_array(image[0])
        image = _numpy(image)
    if hasattr(image, "dims") and hasattr(image, "data"):
        image = image.data
    if isinstance(image, np.ma.MaskedArray):
        image = _unmasked(image)
    if not (hasattr(image, "shape") and hasattr(image, "dtype") and hasattr(image, "__getitem__")):
        image = _numpy(image)
    return image


def layout_of(
    array: Any,
    *,
    rgb: bool | None = None,
    channel_axis: int | None = None,
    rgb_channels: Sequence[int] | None = None,
) -> Layout:
    """Decide how to read an array.

    Parameters
    ----------
    array
        From :func:`as_array`.
    rgb
        Whether the last axis is colour. None: it is, if it has 3 or 4 entries and the array
        has at least three axes, as in napari.
    channel_axis, rgb_channels
        Together: three channels of that axis are processed as one RGB image; the others,
        like all leading axes, by themselves.
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
    if rgb and not coloured:
        raise ImageError(f"rgb=True needs a last axis of 3 or 4 entries, the shape is {shape}")
    colour: Kind = "grey"
    if coloured if rgb is None else rgb:
        colour = "rgb" if shape[-1] == 3 else "rgba"
    layout = Layout(shape, dtype, colour)
    if channel_axis is None and rgb_channels is None:
        return layout
    return _with_channels(layout, channel_axis, rgb_channels)


def layout_for(array: Any, options: ImageOptions) -> Layout:
    """Decide how to read an array under an action's options."""
    return layout_of(
        array,
        rgb=options.rgb,
        channel_axis=options.channel_axis,
        rgb_channels=options.rgb_channels,
    )


def output_for(layout: Layout, out: Any, image: Any) -> Any:
    """Return where a result goes: what was given, if it fits, or a new array."""
    if out is None:
        try:
            return np.empty(layout.shape, layout.dtype)
        except (MemoryError, ValueError) as error:
            raise ImageError(
                f"out of memory for a result of shape {layout.shape} and type {layout.dtype}; "
                "give out=, for example a Zarr array, or work on files"
            ) from error
    if tuple(out.shape) != layout.shape:
        raise ImageError(f"out has shape {tuple(out.shape)}, the image {layout.shape}")
    if isinstance(out, np.ndarray) and np.may_share_memory(out, image):
        raise ImageError("out must not share memory with the image")
    return out


def read_plane(array: Any, plane: Plane, rows: slice = EVERY, columns: slice = EVERY) -> Array:
    """Load one image, or a part, as (H, W, channels); alpha of RGBA is not among them."""
    if len(plane.indices) > 1:
        parts = [_numpy(array[(*index, rows, columns)]) for index in plane.indices]
        return np.stack(parts, axis=-1)
    image = _numpy(array[(*plane.indices[0], rows, columns)])
    if plane.kind == "grey":
        return image[..., None]
    return image[..., :3]


def _with_channels(layout: Layout, axis: int | None, channels: Sequence[int] | None) -> Layout:
    if axis is None or channels is None or layout.colour != "grey":
        raise ImageError(
            "channel_axis and rgb_channels go together, on an image whose last axis is not colour"
        )
    if not -len(layout.shape) <= axis < len(layout.leading):
        raise ImageError(
            f"channel_axis={axis} must be one of the {len(layout.leading)} axes before the last two"
        )
    axis %= len(layout.shape)
    if axis >= len(layout.leading):
        raise ImageError(f"channel_axis={axis} is an axis of the image itself")
    count = layout.leading[axis]
    chosen = tuple(int(c) for c in channels)
    if len(chosen) != 3 or len(set(chosen)) != 3 or not all(0 <= c < count for c in chosen):
        raise ImageError(
            f"rgb_channels={tuple(channels)} must be three different channels out of 0..{count - 1}"
        )
    red, green, blue = chosen
    return Layout(layout.shape, layout.dtype, "grey", axis, (red, green, blue))


def _unmasked(image: np.ma.MaskedArray[Any, Any]) -> Array:
    masked = int(np.count_nonzero(np.ma.getmaskarray(image)))
    if masked:
        raise ImageError(
            f"{masked} pixels of the image are masked; say what they are to be first, for example "
            "with image.filled(0)"
        )
    plain: Array = np.asarray(image.data)
    return plain


def _shrinking(shapes: Sequence[tuple[int, ...]]) -> bool:
    sizes = [int(np.prod(shape)) for shape in shapes]
    return all(a > b for a, b in pairwise(sizes))


def _numpy(data: Any) -> Array:
    try:
        return np.asarray(data)
    except (ValueError, TypeError) as error:
        raise ImageError(f"this is not an image: {error}") from error
