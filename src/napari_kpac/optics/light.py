"""Values of files to linear light and back: sRGB, and tone curves of cameras.

Not for: colour management beyond that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from napari_kpac.core.errors import ConfigError

if TYPE_CHECKING:
    import torch

Values = TypeVar("Values", npt.NDArray[Any], "torch.Tensor")


def to_linear(encoded: Values) -> Values:
    """Give the light that sRGB values in 0..1 stand for."""
    library = _library(encoded)
    curved = ((library.clip(encoded, 0, None) + 0.055) / 1.055) ** 2.4
    light: Values = library.where(encoded <= 0.04045, encoded / 12.92, curved)
    return light


def to_srgb(light: Values) -> Values:
    """Give the sRGB values of linear light."""
    library = _library(light)
    curved = 1.055 * library.clip(light, 1e-8, None) ** (1 / 2.4) - 0.055
    encoded: Values = library.where(light <= 0.0031308, light * 12.92, curved)
    return encoded


def _library(values: Values) -> ModuleType:
    if isinstance(values, np.ndarray):
        return np
    import torch

    return torch


SAMPLES = 4096
"""Points of the tables; between them values are interpolated."""
GAMMAS = (1.7, 2.8)
CONTRASTS = (-0.2, 0.6)


@dataclass(frozen=True)
class ToneCurve:
    """``S(light ** (1 / gamma))``, where S mixes the identity with a smooth step."""

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
        root = light.clamp(0, 1) ** (1 / self.gamma)
        return root + self.contrast * (root * root * (3 - 2 * root) - root)

    def decode(self, values: Tensor) -> Tensor:
        """Return the linear light of values in 0..1."""
        place = values.clamp(0, 1) * (SAMPLES - 1)
        below = place.to(torch.int64).clamp(max=SAMPLES - 2)
        low, high = self._inverse[below], self._inverse[below + 1]
        light: Tensor = (low + (high - low) * (place - below)) ** self.gamma
        return light

    @cached_property
    def _inverse(self) -> Tensor:
        """Roots of the light at equal steps of the values."""
        root = np.linspace(0, 1, SAMPLES)
        values = root + self.contrast * (root * root * (3 - 2 * root) - root)
        return torch.from_numpy(np.interp(root, values, root).astype(np.float32))
