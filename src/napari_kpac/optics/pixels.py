"""Pixel values of one image: floats in 0..1, linear light, tone curves, and checks of arrays.

Not for: stacks, axes and devices (engine), or colour management beyond sRGB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from napari_kpac.core.errors import ConfigError, ImageError

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Values = TypeVar("Values", npt.NDArray[Any], Tensor)

MIN_SIDE_PX = 2
"""Smallest height or width of an image."""
TABLE_SIZE = 4096
"""Points of the table of a tone curve; between them values are interpolated."""
GAMMAS = (1.7, 2.8)
CONTRASTS = (-0.2, 0.6)


def to_unit(image: npt.ArrayLike) -> Floats:
    """Return a grey (H, W) or colour (H, W, 3) image as float32 in 0..1.

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
    if min(pixels.shape[:2]) < MIN_SIDE_PX:
        raise ImageError(
            f"an image of {pixels.shape[1]}x{pixels.shape[0]} pixels is too small;"
            f" {MIN_SIDE_PX}x{MIN_SIDE_PX} is the least"
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


def luma(pixels: Floats) -> Floats:
    """Return the luma of an RGB image (H, W, 3); a grey one (H, W) is its own."""
    if pixels.ndim == 2:
        return pixels
    grey: Floats = pixels @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    return grey


def from_unit(values: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return floats in 0..1 as ``dtype``; integers are rounded and fill their range."""
    wanted = np.dtype(dtype)
    values = np.clip(values, 0, 1)
    if wanted in (np.uint8, np.uint16):
        values = np.rint(values * np.iinfo(wanted).max)
    elif not np.issubdtype(wanted, np.floating):
        raise ImageError(f"pixels cannot be written as {wanted}; use uint8, uint16 or a float type")
    converted: npt.NDArray[Any] = values.astype(wanted)
    return converted


def check_finite(values: npt.NDArray[Any], name: str) -> None:
    """Raise if an array has NaN or infinity."""
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise ImageError(
            f"the {name} has {bad} value(s) that are NaN or infinite; fill or remove them first"
        )


def check_image(image: npt.NDArray[Any]) -> None:
    """Raise unless an array is a finite image (H, W) or (H, W, C)."""
    if image.ndim not in (2, 3) or not image.size:
        raise ImageError(f"an image (H, W) or (H, W, C) is needed, got shape {image.shape}")
    check_finite(image, "image")


def check_map(values: npt.ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    """Return a number or a map as a finite float32 map of ``shape``."""
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


def to_linear(encoded: Values) -> Values:
    """Return the linear light of sRGB values in 0..1."""
    xp = np if isinstance(encoded, np.ndarray) else torch
    curved = ((xp.clip(encoded, 0, None) + 0.055) / 1.055) ** 2.4
    light: Values = xp.where(encoded <= 0.04045, encoded / 12.92, curved)
    return light


def to_srgb(light: Values) -> Values:
    """Return the sRGB values of linear light."""
    xp = np if isinstance(light, np.ndarray) else torch
    curved = 1.055 * xp.clip(light, 1e-8, None) ** (1 / 2.4) - 0.055
    encoded: Values = xp.where(light <= 0.0031308, light * 12.92, curved)
    return encoded


@dataclass(frozen=True)
class ToneCurve:
    """A camera's ``S(light ** (1 / gamma))``, where S mixes the identity with a smooth step."""

    gamma: float = 2.2
    contrast: float = 0.0
    """Weight of the smooth step: above 0 an S-curve, below 0 one that flattens the middle."""

    def __post_init__(self) -> None:
        if not 1 <= self.gamma <= 4:
            raise ConfigError(f"the gamma of a tone curve lies in 1..4, not at {self.gamma}")
        if not -0.9 <= self.contrast <= 0.9:
            raise ConfigError(f"the contrast of a tone curve is -0.9..0.9, not {self.contrast}")

    @classmethod
    def draw(cls, rng: np.random.Generator) -> ToneCurve:
        """Draw a curve as cameras have them."""
        return cls(float(rng.uniform(*GAMMAS)), float(rng.uniform(*CONTRASTS)))

    def encode(self, light: Tensor) -> Tensor:
        """Return the values of linear light in 0..1."""
        return self._contrasted(light.clamp(0, 1) ** (1 / self.gamma))

    def decode(self, values: Tensor) -> Tensor:
        """Return the linear light of values in 0..1."""
        place = values.clamp(0, 1) * (TABLE_SIZE - 1)
        below = place.to(torch.int64).clamp(max=TABLE_SIZE - 2)
        low, high = self._inverse[below], self._inverse[below + 1]
        light: Tensor = (low + (high - low) * (place - below)) ** self.gamma
        return light

    def _contrasted(self, root: Values) -> Values:
        curved: Values = root + self.contrast * (root * root * (3 - 2 * root) - root)
        return curved

    @cached_property
    def _inverse(self) -> Tensor:
        """Roots of the light at equal steps of the values."""
        root = np.linspace(0, 1, TABLE_SIZE)
        return torch.from_numpy(np.interp(root, self._contrasted(root), root).astype(np.float32))
