"""PNG and JPEG files.

Not for: stacks, or pixels that these formats cannot hold (tiff.py, zarrs.py).
"""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from PIL import Image

from napari_kpac.core.errors import FileError
from napari_kpac.images.bounds import DEFLATED, check_claim
from napari_kpac.images.metadata import (
    ORIENTATION,
    Array,
    Metadata,
    exif_up_to,
    fitting_icc,
    plain_exif,
    upright,
)

SUFFIXES = (".png", ".jpg", ".jpeg")
KINDS = ("PNG", "JPEG", "MPO", "BMP", "GIF", "PPM", "WEBP")
"""What such a file may be in fact. Pillow knows more, one of which it hands to Ghostscript."""

PNG_SIGNATURE = 8
PNG_HEADER = 33
"""Length of a PNG file's signature and first chunk."""
METRES_PER_INCH = 0.0254
MOST_COMMENT = 65_000
"""Bytes that a comment of a JPEG file can take, or its EXIF."""
QUALITY = 95


def opened(path: Path) -> Image.Image:
    """Open a file, if it is of a kind that is read in this process and can be what it claims."""
    image = Image.open(path, formats=KINDS)
    try:
        if image.format == "PNG":
            _check_chunks(path)
        width, height = image.size
        # Of the kinds that are read, the tightest have a bit for a pixel, packed.
        check_claim(path, width * height // 8, path.stat().st_size, DEFLATED)
    except BaseException:
        image.close()
        raise
    return image


def _check_chunks(path: Path) -> None:
    """Raise where a chunk of a PNG file is longer than the file: memory is taken by its word."""
    size = path.stat().st_size
    with path.open("rb") as file:
        place, kind = PNG_SIGNATURE, b""
        while place < size and kind != b"IEND":
            file.seek(place)
            length, kind = struct.unpack(">I4s", file.read(8).ljust(8, b"\0"))
            place += length + 12
    if place > size:
        raise FileError(f"{path}: cannot be read as an image (it is cut off)")


def read(path: Path) -> tuple[Array, Metadata]:
    """Read an image with its bit depth; its orientation is applied."""
    with opened(path) as image:
        info = dict(image.info)
        deep = image.format == "PNG" and _is_deep(path)
        # Pillow would decode a deep file just to look for EXIF behind its pixels.
        exif = Image.Exif() if deep and "exif" not in info else image.getexif()
        if deep:
            # Pillow would drop the lower eight bits of each colour.
            pixels = _with_colour(np.asarray(imagecodecs.png_decode(path.read_bytes())))
        else:
            pixels = np.asarray(_in_plain_mode(image))
    pixels = upright(pixels, int(exif.get(ORIENTATION, 1)))
    channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
    dpi = info.get("dpi")
    return pixels, Metadata(
        icc=fitting_icc(info.get("icc_profile"), channels),
        exif=plain_exif(exif),
        resolution=None if dpi is None else (float(dpi[0]), float(dpi[1])),
        axes="YX" if channels == 1 else "YXS",
    )


def write(path: Path, image: Array, metadata: Metadata, description: str, suffix: str) -> None:
    """Write an image; the suffix says as what."""
    check(path, image.shape, image.dtype, suffix)
    channels = 1 if image.ndim == 2 else image.shape[-1]
    icc = fitting_icc(metadata.icc, channels)
    if suffix == ".png":
        png = bytes(imagecodecs.png_encode(np.ascontiguousarray(image)))
        chunks = b"".join(_chunks(metadata, icc, description))
        path.write_bytes(png[:PNG_HEADER] + chunks + png[PNG_HEADER:])
        return
    about: dict[str, Any] = {"comment": description.encode()[:MOST_COMMENT], "quality": QUALITY}
    if icc:
        about["icc_profile"] = icc
    exif = exif_up_to(MOST_COMMENT, metadata.exif)
    if exif:
        about["exif"] = b"Exif\0\0" + exif
    dpi = dots_per_inch(metadata)
    if dpi:
        about["dpi"] = tuple(max(1, round(value)) for value in dpi)
    # Colour at full resolution: what was just sharpened is not to be blurred again.
    encodable = Image.fromarray(image)
    if encodable.mode == "RGBA":
        encodable = encodable.convert("RGB")
    # By way of memory: given a file, Pillow does not notice that the disk is full.
    encoded = io.BytesIO()
    encodable.save(encoded, format="JPEG", subsampling=0, **about)
    path.write_bytes(encoded.getbuffer())


def check(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], suffix: str) -> None:
    """Raise where such a file cannot hold these pixels."""
    if dtype not in (np.uint8, np.uint16) or (suffix != ".png" and dtype != np.uint8):
        raise FileError(
            f"{path.name}: a {suffix} file cannot hold {dtype} pixels; write a TIFF file"
        )
    if len(shape) > 3 or (len(shape) == 3 and shape[-1] not in (3, 4)):
        raise FileError(
            f"{path.name}: a {suffix} file holds one image, not a stack of shape {shape}; "
            "write a TIFF file"
        )


def description(path: Path) -> str:
    """Return the description that was put into a file, empty where there is none."""
    with opened(path) as image:
        found = image.info.get("Description") or image.info.get("comment") or ""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def dots_per_inch(metadata: Metadata) -> tuple[float, float] | None:
    """Return the resolution in pixels per inch; None where there is none."""
    if metadata.resolution is None or metadata.resolution_unit == "none":
        return None
    factor = 2.54 if metadata.resolution_unit == "centimeter" else 1.0
    x, y = metadata.resolution
    return x * factor, y * factor


def _in_plain_mode(image: Image.Image) -> Image.Image:
    if image.mode in ("P", "1", "LA", "PA", "CMYK", "YCbCr"):
        transparent = "transparency" in image.info or image.mode in ("LA", "PA")
        return image.convert("RGBA" if transparent else "RGB")
    return image


def _with_colour(pixels: Array) -> Array:
    """Turn grey with transparency into colour with transparency."""
    if pixels.ndim == 3 and pixels.shape[-1] == 2:
        return pixels[..., [0, 0, 0, 1]]
    return pixels


def _chunks(metadata: Metadata, icc: bytes | None, description: str) -> list[bytes]:
    """Make the chunks of a PNG file that stand before its pixels."""
    found = []
    if icc:
        found.append(_chunk(b"iCCP", b"profile\0\0" + zlib.compress(icc)))
    dpi = dots_per_inch(metadata)
    if dpi:
        x, y = (min(round(value / METRES_PER_INCH), 2**31 - 1) for value in dpi)
        found.append(_chunk(b"pHYs", struct.pack(">IIB", x, y, 1)))
    if metadata.exif:
        found.append(_chunk(b"eXIf", metadata.exif))
    if description:
        found.append(_chunk(b"iTXt", b"Description\0\0\0\0\0" + description.encode()))
    return found


def _chunk(kind: bytes, content: bytes) -> bytes:
    body = kind + content
    return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))


def _is_deep(path: Path) -> bool:
    """Tell whether a PNG file has 16 bits a channel: its header says so at a fixed place."""
    with path.open("rb") as file:
        return file.read(PNG_HEADER)[24:25] == b"\x10"
