"""Camera RAW files, developed to 16-bit sRGB (extra ``formats``).

Not for: writing them; nobody but a camera does.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

from napari_kpac.core.errors import FileError, require
from napari_kpac.images.metadata import ABOUT_THE_PHOTOGRAPH, Array, Metadata, plain_exif

SUFFIXES = (
    ".dng", ".nef", ".nrw", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw",
)  # fmt: skip

SRGB_GAMMA = (2.4, 12.92)


def read(path: Path) -> tuple[Array, Metadata]:
    """Develop a RAW file: camera white balance, no automatic brightness, right way up."""
    rawpy = require("rawpy", "formats", f"{path}: camera RAW")
    try:
        with rawpy.imread(str(path)) as raw:
            pixels = raw.postprocess(
                output_bps=16, use_camera_wb=True, no_auto_bright=True, gamma=SRGB_GAMMA
            )
    except rawpy.LibRawError as error:
        raise FileError(f"{path}: cannot be read as camera RAW ({error})") from error
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    return np.asarray(pixels), Metadata(icc=profile, exif=_exif(path), axes="YXS")


def _exif(path: Path) -> bytes | None:
    """Read the EXIF of a file; most kinds of RAW are TIFF inside, others have none for us."""
    exif = Image.Exif()
    try:
        with path.open("rb") as file:
            exif.load_from_fp(file)
            return plain_exif(exif, ABOUT_THE_PHOTOGRAPH)
    except (OSError, ValueError, SyntaxError, KeyError, TypeError):
        return None
