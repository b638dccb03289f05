"""One picture of a dataset as RGB floats.

Not for: file formats (images), or which files belong together (matching).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from napari_kpac.core.errors import FileError, KpacError
from napari_kpac.datasets.pair import Floats
from napari_kpac.images import read_image
from napari_kpac.optics.pixels import from_unit, to_unit


def read_rgb(path: Path, bits: int = 16) -> Floats:
    """Read a picture as (H, W, 3) in 0..1; grey becomes RGB, and alpha is left out.

    With 8 bits, the values are rounded to the 256 levels of an 8-bit picture.
    """
    pixels = read_image(path)
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels = pixels[:, :, :-1]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    try:
        values = to_unit(pixels)
    except KpacError as error:
        raise FileError(f"{path}: cannot be used ({error})") from error
    if bits == 8 and pixels.dtype != np.uint8:
        values = to_unit(from_unit(values, np.uint8))
    return values if values.ndim == 3 else np.repeat(values[:, :, None], 3, axis=2)
