"""What a file says of its pixels: what is kept of it, and what cannot be true.

Claims are checked before any memory is taken or another file is opened. Not for: any one format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import psutil
from PIL import Image

from napari_kpac.core.errors import FileError
from napari_kpac.images.arrays import Array
from napari_kpac.images.remote import Location

MIN_PIXEL_SIZE = 1e-9
"""In any unit; also of a resolution. Files keep fractions of 32-bit numbers."""
ORIENTATION = 0x0112
TURNED = (5, 6, 7, 8)
"""Orientations that swap height and width."""
EXIF_IFD, GPS_IFD = 0x8769, 0x8825
MAKER_NOTE = 0x927C
PHOTOGRAPH_TAGS = (0x010E, 0x010F, 0x0110, 0x0131, 0x0132, 0x013B, 0x013C, 0x8298)
"""Tags of a photograph that do not describe how its pixels are stored: description, make,
model, software, date, artist, computer, copyright."""

UNCHECKED_BYTES = 64_000_000
"""Any file may claim so much."""
MAX_EXPANSION = 50_000
"""Bytes of pixels that a byte of a file can stand for: much more than real images have."""
MAX_DEFLATE_EXPANSION = 1_100
"""The same for DEFLATE, which cannot do better."""
MAX_PLANES = 10_000_000
MAX_SIDE_PX = 2**31
_OME_COUNTS = ("NumPlanes", "PlaneCount", "IFD", "SamplesPerPixel", "FirstC", "FirstT", "FirstZ")
_OME_SIDES = ("SizeX", "SizeY", "SizeZ", "SizeC", "SizeT")


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

    def has_colour(self, shape: tuple[int, ...]) -> bool:
        """Return True if the last axis of an array of that shape is colour."""
        return len(shape) >= 3 and shape[-1] in (3, 4) and self.axes[-1:] in ("S", "")


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and MIN_PIXEL_SIZE <= value <= 1 / MIN_PIXEL_SIZE


def fitting_icc(profile: Any, channels: int) -> bytes | None:
    """Return a profile if it is one for pixels with that many channels."""
    if not isinstance(profile, bytes) or len(profile) < 128:
        return None
    return profile if profile[16:20] == (b"GRAY" if channels < 3 else b"RGB ") else None


def encode_exif(exif: Image.Exif, tags: tuple[int, ...] | None = None) -> bytes | None:
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


def read_tiff_exif(path: Path, tags: tuple[int, ...]) -> bytes | None:
    """Encode the EXIF of a TIFF file, or one that is TIFF inside; None where there is none."""
    exif = Image.Exif()
    try:
        with path.open("rb") as file:
            exif.load_from_fp(file)
            return encode_exif(exif, tags)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, struct.error):
        return None


def exif_up_to(max_bytes: int, block: bytes | None) -> bytes | None:
    """Return an EXIF block that is not longer: without the maker's notes, if need be."""
    if block is None or len(block) <= max_bytes:
        return block
    exif = decode_exif(block)
    exif.get_ifd(EXIF_IFD).pop(MAKER_NOTE, None)
    shorter = encode_exif(exif)
    return shorter if shorter is not None and len(shorter) <= max_bytes else None


def decode_exif(block: bytes) -> Image.Exif:
    """Decode an EXIF block."""
    exif = Image.Exif()
    exif.load(b"Exif\0\0" + block)
    return exif


def upright(pixels: Array, orientation: int) -> Array:
    """Turn an image (H, W, ...) the right way up, by the number that EXIF gives for it."""
    if orientation in TURNED:
        pixels = np.swapaxes(pixels, 0, 1)
    if orientation in (3, 4, 7, 8):
        pixels = pixels[::-1]
    if orientation in (2, 3, 6, 7):
        pixels = pixels[:, ::-1]
    return np.ascontiguousarray(pixels)


def check_claim(path: Location, claimed: int, stored: int, expansion: int = MAX_EXPANSION) -> None:
    """Raise where a file cannot hold the pixels that it claims, or memory cannot.

    Parameters
    ----------
    path
        The file, for the message.
    claimed
        Bytes that its pixels would take.
    stored
        Bytes that it has.
    expansion
        Bytes of pixels that one byte of the file can stand for.
    """
    if claimed <= UNCHECKED_BYTES:
        return
    if claimed > expansion * stored:
        raise FileError(
            f"{path}: claims {_size(claimed)} of pixels, but has only {_size(stored)}; it is "
            "damaged or cut off, get it again"
        )
    free = psutil.virtual_memory().available
    if claimed > free:
        raise FileError(
            f"{path}: needs {_size(claimed)} of memory, and {_size(free)} are free; cut it into "
            "parts, or close other programs"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.3f} MB"


def check_ome(path: Path, description: Any) -> None:
    """Raise where a description of OME-TIFF names files elsewhere, or absurd numbers of planes.

    TIFF readers open the files that it names and make lists as long as it says.
    """
    for table in _tables(description):
        name = table.get("FileName")
        if name is not None and not _is_plain(str(name)):
            raise FileError(
                f"{path}: names a part of it as {str(name)[:80]!r}; parts must lie in the same "
                "folder"
            )
        for key, value in table.items():
            most = MAX_PLANES if key in _OME_COUNTS else MAX_SIDE_PX if key in _OME_SIDES else None
            if most is None or isinstance(value, dict | list):
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
                raise FileError(
                    f"{path}: its OME description has {key}={str(value)[:40]}; it is damaged"
                )
        if "Start" in table and "End" in table:
            _check_steps(path, [table.get(key, 1) for key in ("Start", "End", "Step")])


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for value in inside:
        yield from _tables(value)


def _is_plain(name: str) -> bool:
    """Return True if this is the name of a file, without any folder, on every system."""
    return not set(name) & set("/\\:\0") and name not in ("", ".", "..")


def _check_steps(path: Path, steps: list[Any]) -> None:
    try:
        start, end, step = map(float, steps)
        fits = abs((end - start) / step) <= MAX_PLANES
    except (TypeError, ValueError, ZeroDivisionError):
        fits = False
    if not fits:
        raise FileError(f"{path}: its OME description has a series of {steps}; it is damaged")
