"""sRGB values to linear light and back, on NumPy arrays and torch tensors alike.

Not for: colour management beyond sRGB.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

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
