"""Photographs: PNG and JPEG files, and camera RAW developed to 16-bit sRGB (extra ``formats``).

Not for: stacks, or pixels that these formats cannot hold (tiff.py, zarr_files.py).
"""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
from PIL import Image, ImageCms, UnidentifiedImageError
from PIL.PngImagePlugin import putchunk

from napari_kpac.core.errors import FileError, require
from napari_kpac.images.arrays import Array
from napari_kpac.images.metadata import (
    MAX_DEFLATE_EXPANSION,
    ORIENTATION,
    PHOTOGRAPH_TAGS,
    TURNED,
    Metadata,
    check_claim,
    encode_exif,
    exif_up_to,
    fitting_icc,
    read_tiff_exif,
    upright,
)

SUFFIXES = (".png", ".jpg", ".jpeg")
RAW_SUFFIXES = (
    ".dng", ".nef", ".nrw", ".cr2", ".cr3", ".arw", ".raf", ".orf", ".rw2", ".pef", ".srw",
)  # fmt: skip
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "WEBP")
"""What such a file may be in fact, MPO as a kind of JPEG. Pillow knows more, one of which it hands
to Ghostscript."""

PNG_SIGNATURE_BYTES = 8
PNG_HEADER_BYTES = 33
"""Length of a PNG file's signature and first chunk."""
METRES_PER_INCH = 0.0254
MAX_COMMENT_BYTES = 65_000
"""Of a JPEG file; also of its EXIF."""
JPEG_QUALITY = 95
SRGB_GAMMA = (2.4, 12.92)


def opened(path: Path) -> Image.Image:
    """Open a file, if it is of a kind that is read in this process and can be what it claims."""
    try:
        image = Image.open(path, formats=FORMATS)
    except UnidentifiedImageError as error:  # its text is the name of the file once more
        raise FileError(
            f"{path}: cannot be read as an image (it is none, or of a kind that is not read)"
        ) from error
    try:
        if image.format == "PNG":
            _check_chunks(path)
        width, height = image.size
        # Of the kinds that are read, the tightest have a bit for a pixel, packed.
        check_claim(path, width * height // 8, path.stat().st_size, MAX_DEFLATE_EXPANSION)
    except BaseException:
        image.close()
        raise
    return image


def _check_chunks(path: Path) -> None:
    """Raise where a chunk of a PNG file is longer than the file: memory is taken by its word."""
    size = path.stat().st_size
    with path.open("rb") as file:
        place, kind = PNG_SIGNATURE_BYTES, b""
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
            pixels = np.asarray(imagecodecs.png_decode(path.read_bytes()))
            if pixels.ndim == 3 and pixels.shape[-1] == 2:
                pixels = pixels[..., [0, 0, 0, 1]]  # grey and transparency
        elif image.mode in ("P", "1", "LA", "PA", "CMYK", "YCbCr"):
            transparent = "transparency" in info or image.mode in ("LA", "PA")
            pixels = np.asarray(image.convert("RGBA" if transparent else "RGB"))
        else:
            pixels = np.asarray(image)
    pixels = upright(pixels, int(exif.get(ORIENTATION, 1)))
    channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
    dpi = info.get("dpi")
    return pixels, Metadata(
        icc=fitting_icc(info.get("icc_profile"), channels),
        exif=encode_exif(exif),
        resolution=None if dpi is None else (float(dpi[0]), float(dpi[1])),
        axes="YX" if channels == 1 else "YXS",
    )


def read_raw(path: Path) -> tuple[Array, Metadata]:
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
    # Most kinds of RAW are TIFF inside, others have no EXIF for us.
    exif = read_tiff_exif(path, PHOTOGRAPH_TAGS)
    return np.asarray(pixels), Metadata(icc=profile, exif=exif, axes="YXS")


def size(path: Path) -> tuple[int, int]:
    """Return height and width; a file that seems to be cut off is read whole, to be sure."""
    with opened(path) as image, path.open("rb") as file:
        width, height = image.size
        is_png = image.format == "PNG"
        # Pillow decodes the whole of a PNG file to look for an orientation behind the pixels.
        exif = {} if is_png and "exif" not in image.info else image.getexif()
        file.seek(max(0, path.stat().st_size - 64))
        if (b"IEND" if is_png else b"\xff\xd9") not in file.read():
            image.load()
        turned = int(exif.get(ORIENTATION, 1)) in TURNED
        return (width, height) if turned else (height, width)


def write(path: Path, image: Array, metadata: Metadata, description: str) -> None:
    """Write an image that fits, see :func:`check`; the suffix says as what."""
    channels = 1 if image.ndim == 2 else image.shape[-1]
    icc = fitting_icc(metadata.icc, channels)
    if path.suffix.lower() == ".png":
        png = bytes(imagecodecs.png_encode(np.ascontiguousarray(image)))
        chunks = _chunks(metadata, icc, description)
        path.write_bytes(png[:PNG_HEADER_BYTES] + chunks + png[PNG_HEADER_BYTES:])
        return
    about: dict[str, Any] = {
        "comment": description.encode()[:MAX_COMMENT_BYTES],
        "quality": JPEG_QUALITY,
    }
    if icc:
        about["icc_profile"] = icc
    exif = exif_up_to(MAX_COMMENT_BYTES, metadata.exif)
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


def check(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise where such a file cannot hold these pixels."""
    suffix = path.suffix.lower()
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


def _chunks(metadata: Metadata, icc: bytes | None, description: str) -> bytes:
    """Return the chunks of a PNG file that stand before its pixels."""
    chunks = io.BytesIO()
    if icc:
        putchunk(chunks, b"iCCP", b"profile\0\0" + zlib.compress(icc))
    dpi = dots_per_inch(metadata)
    if dpi:
        x, y = (min(round(value / METRES_PER_INCH), 2**31 - 1) for value in dpi)
        putchunk(chunks, b"pHYs", struct.pack(">IIB", x, y, 1))
    if metadata.exif:
        putchunk(chunks, b"eXIf", metadata.exif)
    if description:
        putchunk(chunks, b"iTXt", b"Description\0\0\0\0\0" + description.encode())
    return chunks.getvalue()


def _is_deep(path: Path) -> bool:
    """Return True if a PNG file has 16 bits a channel: its header says so at a fixed place."""
    with path.open("rb") as file:
        return file.read(PNG_HEADER_BYTES)[24:25] == b"\x10"
