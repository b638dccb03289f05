"""Pictures and maps as ordinary files: PNG, JPEG, TIFF.

Not for: what the pixels mean (engine).
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import numpy.typing as npt
import tifffile
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from napari_kpac.errors import FileError
from napari_kpac.files import replacing

PLAIN = (".png", ".jpg", ".jpeg")
TIFF = (".tif", ".tiff")
SUFFIXES = PLAIN + TIFF

PNG_HEADER = 33
"""Length of a PNG file's signature and first chunk."""

_UNREADABLE = (
    OSError,
    ValueError,
    SyntaxError,
    struct.error,
    UnidentifiedImageError,
    Image.DecompressionBombError,
    tifffile.TiffFileError,
    imagecodecs.PngError,
)


def read_image(path: Path) -> npt.NDArray[Any]:
    """Read a picture with its bit depth; the orientation of a photograph is applied."""
    try:
        if path.suffix.lower() in TIFF:
            pixels: npt.NDArray[Any] = tifffile.imread(path)
            return pixels
        with Image.open(path) as image:
            if image.format == "PNG" and _is_deep(path):
                # Pillow would drop the lower eight bits of each colour.
                return np.asarray(imagecodecs.png_decode(path.read_bytes()))
            upright = ImageOps.exif_transpose(image)
            if upright.mode in ("P", "1", "LA", "PA", "CMYK", "YCbCr"):
                transparent = "transparency" in upright.info or upright.mode in ("LA", "PA")
                upright = upright.convert("RGBA" if transparent else "RGB")
            return np.asarray(upright)
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except _UNREADABLE as error:
        raise FileError(f"{path}: cannot be read as an image ({error})") from error


def list_pictures(folder: Path) -> list[Path]:
    """Return the pictures in a folder, by name; hidden files are left alone."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
    except OSError as error:
        raise FileError(f"{folder}: cannot be read as a folder ({error.strerror})") from error


def picture_size(path: Path) -> tuple[int, int]:
    """Return height and width of what :func:`read_image` would give, from the header alone.

    A file that seems to be cut off is read whole, to be sure.

    Raises
    ------
    FileError
        If the file holds no single picture of a common type, or ends too early.
    """
    try:
        if path.suffix.lower() in TIFF:
            return _tiff_size(path)
        with Image.open(path) as image:
            width, height = image.size
            turned = _is_turned(image, path)
            if not _has_end(image, path):
                image.load()
            return (width, height) if turned else (height, width)
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except _UNREADABLE as error:
        raise FileError(f"{path}: cannot be read as an image ({error})") from error


def read_mask(path: Path) -> npt.NDArray[Any]:
    """Read a mask; one that is stored in colour must be grey in fact."""
    pixels = read_image(path)
    if pixels.ndim == 2 or pixels.shape[-1] not in (3, 4):
        return pixels
    if (pixels[..., :3] != pixels[..., :1]).any():
        raise FileError(f"{path}: this is a colour picture; a mask must be black and white")
    return pixels[..., 0]


def write_image(path: Path, image: npt.NDArray[Any], description: str = "") -> Path:
    """Write a picture, whole or not at all; the description goes into the file."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    with replacing(path) as temporary:
        if suffix in TIFF:
            kind = "rgb" if image.ndim >= 3 and image.shape[-1] in (3, 4) else "minisblack"
            tifffile.imwrite(temporary, image, photometric=kind, description=description or None)
        else:
            _write_plain(temporary, image, suffix, description)
    return path


def write_map(path: Path, values: npt.NDArray[np.float32], description: str = "") -> Path:
    """Write a map in 0..1: 8-bit grey, or 32-bit floating point in a TIFF file."""
    if path.suffix.lower() in TIFF:
        return write_image(path, values.astype(np.float32), description)
    return write_image(path, np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8), description)


def _write_plain(path: Path, image: npt.NDArray[Any], suffix: str, description: str) -> None:
    if image.dtype not in (np.uint8, np.uint16) or (suffix != ".png" and image.dtype != np.uint8):
        raise FileError(
            f"{path.name}: a {suffix} file cannot hold {image.dtype} pixels; write a TIFF file"
        )
    if suffix == ".png":
        path.write_bytes(
            _with_text(bytes(imagecodecs.png_encode(np.ascontiguousarray(image))), description)
        )
    else:
        mode = "RGB" if image.ndim == 3 else "L"
        Image.fromarray(image).convert(mode).save(path, format="JPEG", quality=95)


def _with_text(png: bytes, description: str) -> bytes:
    """Put a description into a PNG file, as an international text chunk behind the header."""
    if not description:
        return png
    content = b"iTXt" + b"Description\0\0\0\0\0" + description.encode()
    chunk = struct.pack(">I", len(content) - 4) + content + struct.pack(">I", zlib.crc32(content))
    return png[:PNG_HEADER] + chunk + png[PNG_HEADER:]


def _is_deep(path: Path) -> bool:
    """Tell whether a PNG file has 16 bits a channel: its header says so at a fixed place."""
    with path.open("rb") as file:
        return file.read(PNG_HEADER)[24:25] == b"\x10"


def _is_turned(image: Image.Image, path: Path) -> bool:
    """Tell whether the orientation of a photograph swaps its height and width."""
    # Pillow decodes the whole of a PNG file to look for an orientation behind the pixels.
    if image.format == "PNG" and ("exif" not in image.info or _is_deep(path)):
        return False
    return int(image.getexif().get(ExifTags.Base.Orientation, 1)) in (5, 6, 7, 8)


def _has_end(image: Image.Image, path: Path) -> bool:
    """Tell whether a PNG or JPEG file ends as such files do."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 64))
        return (b"IEND" if image.format == "PNG" else b"\xff\xd9") in file.read()


def _tiff_size(path: Path) -> tuple[int, int]:
    with tifffile.TiffFile(path) as file:
        shape, dtype = file.series[0].shape, file.series[0].dtype
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] > 4):
            raise ValueError(f"shape {shape} is not that of one picture")
        if dtype not in (np.uint8, np.uint16) and not np.issubdtype(dtype, np.floating):
            raise ValueError(f"pixels of type {dtype} are not supported")
        page = file.pages.first
        ends = np.add(page.dataoffsets, page.databytecounts)
        if max(ends) > path.stat().st_size:
            raise ValueError("the file is cut off")
        return int(shape[0]), int(shape[1])
