"""Radius maps as 16-bit TIFF, with the scale in the file's description.

Not for: making the maps (optics).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tifffile

from napari_kpac.errors import FileError, ImageError
from napari_kpac.files import replacing

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
    with _opened(path) as (file, scale, offset):
        radius: npt.NDArray[np.float32] = (file.asarray() * scale + offset).astype(np.float32)
        return radius


def radius_size(path: Path) -> tuple[int, int]:
    """Return height and width of a radius map, from its header alone."""
    with _opened(path) as (file, _, _):
        height, width = file.pages.first.shape
        return height, width


@contextmanager
def _opened(path: Path) -> Iterator[tuple[tifffile.TiffFile, float, float]]:
    try:
        with tifffile.TiffFile(path) as file:
            described = json.loads(file.pages.first.description)
            yield file, float(described["scale"]), float(described["offset"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FileError(f"{path} is no radius map: {error}; make it again") from error
