"""Pixels of one image to floats in 0..1 and back, and the checks that every action shares.

Not for: stacks, axes and devices (engine).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ImageError

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

SMALLEST = 2
"""Pixels along the shorter side that an image needs at least."""


def to_unit(image: npt.ArrayLike) -> Floats:
    """Give a grey (H, W) or colour (H, W, 3) image as float32 in 0..1.

    Integers are divided by the largest value of their type; floats must lie in 0..1.

    Raises
    ------
    ImageError
        If the image is empty, too small, not finite, out of range or of another shape.
    """
    pixels = np.asarray(image)
    if pixels.ndim not in (2, 3) or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise ImageError(
            f"a grey (H, W) or an RGB (H, W, 3) image is needed, got shape {pixels.shape}"
        )
    if min(pixels.shape[:2]) < SMALLEST:
        raise ImageError(
            f"an image of {_size(pixels.shape)} pixels is too small;"
            f" {SMALLEST}x{SMALLEST} is the least"
        )
    if pixels.dtype in (np.uint8, np.uint16):
        scaled: Floats = pixels.astype(np.float32) / np.float32(np.iinfo(pixels.dtype).max)
        return scaled
    if not np.issubdtype(pixels.dtype, np.floating):
        raise ImageError(
            f"pixels of type {pixels.dtype} are not supported; use uint8, uint16 or floats in 0..1"
        )
    check_finite(pixels, "image")
    low, high = float(pixels.min()), float(pixels.max())
    if low < -1e-3 or high > 1 + 1e-3:
        raise ImageError(
            f"an image of floats must lie in 0..1, this one spans {low:g}..{high:g};"
            " divide it by its white level first"
        )
    unit: Floats = np.clip(pixels, 0, 1).astype(np.float32)
    return unit


def from_unit(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Give floats in 0..1 as ``dtype``; integers are rounded and fill their range."""
    wanted = np.dtype(dtype)
    if wanted in (np.uint8, np.uint16):
        values = np.rint(np.clip(values, 0, 1) * np.iinfo(wanted).max)
    elif np.issubdtype(wanted, np.floating):
        values = np.clip(values, 0, 1)
    else:
        raise ImageError(f"pixels cannot be written as {wanted}; use uint8, uint16 or a float type")
    converted: npt.NDArray[Any] = values.astype(wanted)
    return converted


def check_finite(values: npt.NDArray[Any], name: str) -> None:
    """Refuse arrays with NaN or infinity."""
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise ImageError(
            f"the {name} has {bad} value(s) that are NaN or infinite; fill or remove them first"
        )


def check_map(values: npt.ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    """Give a number or a map as a finite float32 map of ``shape``."""
    given = np.asarray(values)
    if not (np.issubdtype(given.dtype, np.number) and np.isrealobj(given)):
        raise ImageError(f"the {name} must hold real numbers, got {given.dtype}")
    check_finite(given, name)
    if given.ndim and given.shape != shape:
        raise ImageError(
            f"the {name} has shape {given.shape} but the image is {shape};"
            " give one number or one value per pixel"
        )
    return np.broadcast_to(given.astype(np.float32), shape).copy()


def _size(shape: tuple[int, ...]) -> str:
    return f"{shape[1]}x{shape[0]}"
