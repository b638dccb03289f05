"""What can be said of image files without reading their pixels.

Not for: the pixels (formats.py).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import ExifTags, Image

from napari_kpac.core.errors import FileError
from napari_kpac.images import tiff
from napari_kpac.images.formats import SUFFIXES, TIFF, UNREADABLE
from napari_kpac.images.plain import opened

TURNED = (5, 6, 7, 8)
"""Orientations that swap height and width."""


def list_images(folder: Path) -> list[Path]:
    """Return the images in a folder, by name; hidden files are left alone."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
    except OSError as error:
        raise FileError(f"{folder}: cannot be read as a folder ({error.strerror})") from error


def image_size(path: Path) -> tuple[int, int]:
    """Return height and width of what :func:`read_image` would give, from the header alone.

    A file that seems to be cut off is read whole, to be sure.

    Raises
    ------
    FileError
        If the file holds no single image of a common type, or ends too early.
    """
    try:
        if path.suffix.lower() in TIFF:
            return _tiff_size(path)
        with opened(path) as image:
            width, height = image.size
            turned = _is_turned(image)
            if not _has_end(image, path):
                image.load()
            return (width, height) if turned else (height, width)
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except FileError:
        raise
    except UNREADABLE as error:
        raise FileError(f"{path}: cannot be read as an image ({error})") from error


def _is_turned(image: Image.Image) -> bool:
    """Tell whether the orientation of a photograph swaps its height and width."""
    # Pillow decodes the whole of a PNG file to look for an orientation behind the pixels.
    if image.format == "PNG" and "exif" not in image.info:
        return False
    return int(image.getexif().get(ExifTags.Base.Orientation, 1)) in TURNED


def _has_end(image: Image.Image, path: Path) -> bool:
    """Tell whether a PNG or JPEG file ends as such files do."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return (b"IEND" if image.format == "PNG" else b"\xff\xd9") in file.read()


def _tiff_size(path: Path) -> tuple[int, int]:
    with tiff.opened(path) as file:
        shape, dtype = file.series[0].shape, file.series[0].dtype
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] > 4):
            raise ValueError(f"shape {shape} is not that of one image")
        if dtype not in (np.uint8, np.uint16) and not np.issubdtype(dtype, np.floating):
            raise ValueError(f"pixels of type {dtype} are not supported")
        tiff.check_series(path, file, file.series[0], whole=True)
        page = file.pages.first
        ends = np.add(page.dataoffsets, page.databytecounts)
        if max(ends) > path.stat().st_size:
            raise ValueError("the file is cut off")
        height, width = int(shape[0]), int(shape[1])
        turned = int(page.tags.valueof(ExifTags.Base.Orientation, default=1)) in TURNED
        return (width, height) if turned else (height, width)
