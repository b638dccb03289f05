"""Pictures and maps as files.

Not for: what the pixels mean (engine).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage.io import imsave

from napari_kpac.files import replacing


def write_image(path: Path, image: npt.NDArray[Any]) -> Path:
    """Write a picture, whole or not at all."""
    with replacing(path) as temporary:
        imsave(temporary, image, check_contrast=False)
    return path


def write_map(path: Path, values: npt.NDArray[np.float32]) -> Path:
    """Write a map in 0..1 as an 8-bit grey picture."""
    return write_image(path, np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8))
