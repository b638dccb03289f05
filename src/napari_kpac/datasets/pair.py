"""A pair of pictures, blurred and sharp, as every dataset gives them.

Not for: where pairs come from (one module for each kind of dataset), or crops (training).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pair:
    """One scene: pictures of the same size, (H, W, 3) float32 in 0..1."""

    name: str
    blurred: Floats
    sharp: Floats
    views: tuple[Floats, Floats] | None = None
    """Left and right dual-pixel views, where the dataset has them."""
    radius: Floats | None = None
    """(H, W), the signed radius of the blur in pixels, where it is known."""


class Pairs(Protocol):
    """A dataset of pairs, read one at a time when asked for."""

    @property
    def dual(self) -> bool:
        """Whether every pair has its dual-pixel views."""

    def __len__(self) -> int:
        """Return the number of pairs."""

    def name(self, index: int) -> str:
        """Return what pair ``index`` is called, without reading its pictures."""

    def __getitem__(self, index: int) -> Pair:
        """Read pair ``index``."""
