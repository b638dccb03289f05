"""What deblurring gives: the picture, the attention, and the recipe that made it.

Not for: making it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional as F

from napari_kpac.engine.recipe import Recipe


@dataclass(frozen=True, eq=False)
class Result:
    """A deblurred image and what the network attended to."""

    image: Any
    """Of the input's shape and dtype."""
    alpha: npt.NDArray[np.float32]
    """(blocks, dilations, h, w) as used, at bottleneck resolution; leading axes of a stack
    come first."""
    beta: npt.NDArray[np.float32]
    """(blocks, channels), leading axes first."""
    recipe: Recipe
    size: tuple[int, int]
    """Height and width of a picture in pixels."""
    scale: int
    """Pixels per cell of alpha, along both axes."""
    sigma: npt.NDArray[np.float32] | None = None
    """(H, W): the estimated blur in pixels of sigma, leading axes first; method ``ebdb`` only."""
    origin: tuple[int, int] = (0, 0)
    """First pixel (row, column) of alpha's first cell, in pixels of ``image``."""
    draft: bool = False
    """Whether this is a quick look at half resolution."""
    region: tuple[int, int, int, int] | None = None
    """(top, bottom, left, right) of ``image`` in the picture, where only a part was rendered."""

    @property
    def offset(self) -> tuple[float, float]:
        """Position of alpha's first cell in pixels: the centre of the pixels it stands for."""
        half = (self.scale - 1) / 2
        return self.origin[0] + half, self.origin[1] + half

    def alpha_at_image(self) -> npt.NDArray[np.float32]:
        """Alpha interpolated to (blocks, dilations, H, W), leading axes first."""
        return upsample(self.alpha, self.scale, self.size, self.origin)


def upsample(
    maps: npt.NDArray[np.float32],
    scale: int,
    size: tuple[int, int],
    origin: tuple[int, int] = (0, 0),
) -> npt.NDArray[np.float32]:
    """Interpolate maps of cells (..., h, w), the first at ``origin``, to pixels (..., H, W)."""
    *leading, height, width = maps.shape
    flat = torch.from_numpy(np.ascontiguousarray(maps)).reshape(1, -1, height, width)
    larger = F.interpolate(flat, scale_factor=float(scale), mode="bilinear", align_corners=False)
    top, left = -origin[0], -origin[1]
    cropped = larger[0, :, top : top + size[0], left : left + size[1]]
    return cropped.reshape(*leading, *size).numpy()
