"""The size of a pixel: scale and units as napari's layers have them.

Not for: moving pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_kpac.core.errors import ImageError
from napari_kpac.core.units import PIXEL, short_unit


@dataclass(frozen=True)
class Scale:
    """Size of a pixel along every axis of an array, and the unit it is given in."""

    sizes: tuple[float, ...]
    units: tuple[str, ...]

    @property
    def area(self) -> float:
        """Area of a pixel of a picture."""
        return self.sizes[-2] * self.sizes[-1]

    @property
    def area_unit(self) -> str:
        """Unit of that area, for example ``um^2``."""
        rows, columns = self.units[-2:]
        return f"{rows}^2" if rows == columns else f"{rows}*{columns}"


def scale_of(scale: Sequence[float] | None, units: str | Sequence[Any] | None, axes: int) -> Scale:
    """Complete what was given for an array with that many axes.

    Two sizes or units, or one unit, do for the picture's own axes; the leading axes then
    have size 1. A unit may be a text or what napari's layers hold.
    """
    sizes = (1.0, 1.0) if scale is None else tuple(float(size) for size in scale)
    if not all(np.isfinite(size) and size > 0 for size in sizes):
        raise ImageError(f"scale={sizes}: sizes of pixels must be numbers above 0")
    if units is None:
        units = (PIXEL, PIXEL)
    elif isinstance(units, str) or not isinstance(units, Sequence):
        units = (units, units)
    names = tuple(short_unit(unit) for unit in units)
    for what, given in (("scale", sizes), ("units", names)):
        if len(given) not in (2, axes):
            raise ImageError(f"{what}={given}: give one for each of the {axes} axes, or two")
    return Scale((1.0,) * (axes - len(sizes)) + sizes, (PIXEL,) * (axes - len(names)) + names)
