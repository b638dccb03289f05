"""Radius maps as 16-bit TIFF, with the scale in the file's description.

Not for: making the maps (optics).
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tifffile

from napari_kpac.core.errors import FileError, ImageError
from napari_kpac.core.files import replacing
from napari_kpac.images import description_of, picture_size, read_image

SCALE = 1 / 256
OFFSET = -128.0
MEANING = "radius in pixels = scale * value + offset; negative is nearer than the plane of focus"


def write_radius(path: Path, radius: npt.NDArray[np.float32]) -> Path:
    """Write a signed radius map, to 1/512 of a pixel."""
    stored = np.rint((radius - OFFSET) / SCALE)
    if stored.min() < 0 or stored.max() > np.iinfo(np.uint16).max:
        raise ImageError(
            f"radii of {radius.min():g}..{radius.max():g} pixels do not fit into a radius map,"
            f" which holds {OFFSET:g}..{-OFFSET:g}; use smaller radii"
        )
    description = json.dumps({"scale": SCALE, "offset": OFFSET, "unit": "px", "meaning": MEANING})
    with replacing(path) as temporary:
        tifffile.imwrite(
            temporary,
            stored.astype(np.uint16),
            description=description,
            metadata=None,
            compression="zlib",
        )
    return path


def read_radius(path: Path) -> npt.NDArray[np.float32]:
    """Read a signed radius map in pixels."""
    scale, offset = _scale(path)
    try:
        radius: npt.NDArray[np.float32] = (read_image(path) * scale + offset).astype(np.float32)
    except FileError as error:
        raise _no_map(path, error) from error
    return radius


def radius_size(path: Path) -> tuple[int, int]:
    """Return height and width of a radius map, from its header alone."""
    _scale(path)
    try:
        return picture_size(path)
    except FileError as error:
        raise _no_map(path, error) from error


def _scale(path: Path) -> tuple[float, float]:
    described = description_of(path)
    try:
        scale, offset = float(described["scale"]), float(described["offset"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _no_map(path, "it says nothing of its scale") from error
    if not np.isfinite((scale, offset)).all():
        raise _no_map(path, f"its scale is {scale:g}, its offset {offset:g}")
    return scale, offset


def _no_map(path: Path, why: object) -> FileError:
    return FileError(f"{path} is no radius map: {why}; make it again")
