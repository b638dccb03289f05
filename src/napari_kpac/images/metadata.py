"""What a file says of its pixels, and what goes into the file that is made from it.

Not for: any one format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

Array = npt.NDArray[Any]

SMALLEST_SIZE = 1e-9
"""Of a pixel in its unit, or a resolution; files keep fractions of 32-bit numbers."""
ORIENTATION = 0x0112
EXIF_IFD, GPS_IFD = 0x8769, 0x8825
MAKER_NOTE = 0x927C
ABOUT_THE_PHOTOGRAPH = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x013C, 0x8298)
"""Tags of a photograph that do not describe how its pixels are stored: description, make,
model, software, date, artist, computer, copyright."""


@dataclass(frozen=True)
class Metadata:
    """What is kept of a file besides its pixels."""

    icc: bytes | None = None
    """Colour profile."""
    exif: bytes | None = None
    """EXIF block from its TIFF header on; without an orientation, which was applied."""
    resolution: tuple[float, float] | None = None
    """Pixels per unit, along x and y."""
    resolution_unit: Literal["none", "inch", "centimeter"] = "inch"
    axes: str = ""
    """A letter for every axis of the array: T, C, Z, Y, X, S for colour; empty if unknown."""
    scale: Mapping[str, float] = field(default_factory=dict)
    """Physical size of a pixel, by axis."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Its unit, by axis, with short names: um, s."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What only the format itself understands, by format: ``tiff``, ``zarr``."""

    def __post_init__(self) -> None:
        """Leave out sizes that no pixel has: they must not cost the image."""
        if self.resolution is not None and not all(map(_is_size, self.resolution)):
            object.__setattr__(self, "resolution", None)
        kept = {axis: size for axis, size in self.scale.items() if _is_size(size)}
        object.__setattr__(self, "scale", kept)
        units = {axis: unit for axis, unit in self.units.items() if unit and unit.isprintable()}
        object.__setattr__(self, "units", units)

    @property
    def image_scale(self) -> tuple[tuple[float, float], str] | None:
        """Size of a pixel along rows and columns and its unit; None where unknown."""
        if "Y" not in self.scale or "X" not in self.scale:
            return None
        return (self.scale["Y"], self.scale["X"]), self.units.get("X", "pixel")


def _is_size(value: Any) -> bool:
    """Tell whether something can be the size of a pixel, or a number of pixels per unit."""
    return isinstance(value, int | float) and SMALLEST_SIZE <= value <= 1 / SMALLEST_SIZE


def fitting_icc(profile: Any, channels: int) -> bytes | None:
    """Return a profile if it is one for pixels with that many channels."""
    if not isinstance(profile, bytes) or len(profile) < 128:
        return None
    wanted = b"GRAY" if channels < 3 else b"RGB "
    return profile if profile[16:20] == wanted else None


def plain_exif(exif: Image.Exif, tags: tuple[int, ...] | None = None) -> bytes | None:
    """Encode EXIF without its orientation; only some tags of its first part, if told so."""
    kept = Image.Exif()
    for tag, value in exif.items():
        if tag not in (ORIENTATION, EXIF_IFD, GPS_IFD) and (tags is None or tag in tags):
            kept[tag] = value
    for part in (EXIF_IFD, GPS_IFD):
        try:
            inner = exif.get_ifd(part)
        except (OSError, ValueError, SyntaxError, AttributeError):
            continue
        if inner:
            kept[part] = dict(inner)
    if not len(kept):
        return None
    try:
        return bytes(kept.tobytes()).removeprefix(b"Exif\0\0")
    except (ValueError, TypeError, OverflowError, AttributeError):
        # EXIF that cannot be encoded again must not cost the image.
        return None


def exif_up_to(size: int, block: bytes | None) -> bytes | None:
    """Return an EXIF block that is not longer: without the maker's notes, if need be."""
    if block is None or len(block) <= size:
        return block
    exif = load_exif(block)
    exif.get_ifd(EXIF_IFD).pop(MAKER_NOTE, None)
    shorter = plain_exif(exif)
    return shorter if shorter is not None and len(shorter) <= size else None


def load_exif(block: bytes) -> Image.Exif:
    """Decode an EXIF block."""
    exif = Image.Exif()
    exif.load(b"Exif\0\0" + block)
    return exif


def upright(pixels: Array, orientation: int) -> Array:
    """Turn an image (H, W, ...) the right way up, by the number that EXIF gives for it."""
    if orientation in (5, 6, 7, 8):
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)
