"""Names of units of length and time, as programs and files spell them; ranges of blur radii.

Not for: sizes of pixels (detection.files, images).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, NamedTuple

PIXEL = "pixel"
_LONG = {
    "um": "micrometer",
    "nm": "nanometer",
    "mm": "millimeter",
    "cm": "centimeter",
    "m": "meter",
    "s": "second",
    "ms": "millisecond",
    "min": "minute",
    "h": "hour",
}
_SHORT = {
    **{name: short for short, name in _LONG.items()},
    **{name.replace("meter", "metre"): short for short, name in _LONG.items()},
    "micron": "um",
    "microns": "um",
    "µm": "um",
    "μm": "um",
    "\\u00B5m": "um",
    "Å": "angstrom",
    "sec": "s",
    "px": PIXEL,
    "": PIXEL,
}
SECONDS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
"""Seconds in each unit of time."""


class RadiusBin(NamedTuple):
    """A range of blur radii in pixels."""

    low: float
    high: float

    @property
    def label(self) -> str:
        """Name in tables and columns."""
        return f"{self.low:g}-{self.high:g}"


RADIUS_BINS = tuple(RadiusBin(*edges) for edges in pairwise((0, 1, 2, 4, 8, 12)))
"""Ranges by which the benchmark reports scores; validations add larger radii."""
MIN_BIN_SHARE = 0.01
"""Share of an image's pixels from which on it counts in a bin."""


GOLDEN_RATIO = (math.sqrt(5) - 1) / 2


def spread_radius(index: int, low: float, high: float) -> float:
    """Return the radius of a case: those of 0, 1, ... fill a range evenly on a logarithmic scale.

    Multiples of the golden ratio, modulo 1, leave no gap however many are taken.
    """
    return float(low * (high / low) ** (GOLDEN_RATIO * index % 1))


def short_unit(unit: Any) -> str:
    """Return the short ASCII name of a unit: ``um`` for micrometer, µm and the like."""
    name = str(unit).strip()
    return _SHORT.get(name, name)


def long_unit(unit: Any) -> str:
    """Return the long name of a unit: ``micrometer`` for um, µm and the like."""
    name = short_unit(unit)
    return _LONG.get(name, name)
