"""TIFF files of all kinds: plain, ImageJ's and OME; stacks, tiles, BigTIFF.

Not for: other formats, EXIF in general (metadata.py).
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import TiffImagePlugin

from napari_kpac.core.errors import FileError
from napari_kpac.core.units import PIXEL, SECONDS, short_unit
from napari_kpac.images.arrays import Array, MappedArray, StoredArray
from napari_kpac.images.metadata import (
    EXIF_IFD,
    GPS_IFD,
    MAX_EXPANSION,
    ORIENTATION,
    PHOTOGRAPH_TAGS,
    TURNED,
    Metadata,
    check_claim,
    check_ome,
    decode_exif,
    fitting_icc,
    read_tiff_exif,
    upright,
)

SUFFIXES = (".tif", ".tiff")
WHOLE_UP_TO_BYTES = 64_000_000
"""Smaller files are read whole."""
CLASSIC_UP_TO_BYTES = 4_000_000_000
"""Larger ones become BigTIFF."""
TILED_FROM_BYTES = 16_000_000
"""Larger pages are copied in tiles."""
TILE_SIDE_PX = 512
UNPACKED_EXPANSION = 8
"""Bytes of pixels for a byte of a file without compression: bits become bytes."""

_BIGTIFF_VERSION = 43
_PLACEHOLDERS = {EXIF_IFD: EXIF_IFD - 1, GPS_IFD: GPS_IFD + 1}
"""Unused tags that hold the places of the EXIF parts until these are appended."""
_ASCII, _LONG, _LONG8 = 2, 4, 16
_EXIF_TAGS = tuple(tag for tag in PHOTOGRAPH_TAGS if tag not in (0x010E, 0x0131))
"""All but description and software, which are our own."""
_OME_SIZES = {"X": "PhysicalSizeX", "Y": "PhysicalSizeY", "Z": "PhysicalSizeZ",
              "T": "TimeIncrement"}  # fmt: skip
_IMAGEJ_AXES = "TZCYXS"
_IMAGEJ_OWN = ("mode", "loop", "min", "max", "Labels", "Ranges", "LUTs")


def read(
    path: Path, stack: ExitStack, *, whole: bool = False, alone: bool = False
) -> tuple[Any, Metadata]:
    """Open a file; large ones stay on the disk, and open until the stack is closed.

    A file that is ``alone`` is refused where a part of its image lies in another one.
    """
    file = stack.enter_context(opened(path))
    series = _series(path, file)
    if alone and any(page is None for page in series.pages):
        raise FileError(
            f"{path}: parts of this image lie in other files; copy them all to this machine"
        )
    page = series.keyframe
    photometric = page.photometric.name
    if photometric not in ("MINISBLACK", "MINISWHITE", "RGB", "PALETTE", "YCBCR"):
        raise FileError(f"{path}: {photometric} colours cannot be read; convert it to RGB first")
    metadata = read_metadata(file, series)
    samples = series.shape[series.axes.index("S")] if "S" in series.axes else 1
    if samples not in (1, 3, 4):
        raise FileError(f"{path}: {samples} values a pixel; must be grey, RGB or RGBA")
    orientation = int(page.tags.valueof(ORIENTATION, default=1))
    # What has to be rearranged is rearranged in memory.
    in_order = series.axes.endswith("YXS" if "S" in series.axes else "YX")
    in_memory = photometric == "PALETTE" or orientation != 1 or not in_order
    check_series(path, file, series, whole=whole or in_memory)
    if in_memory or whole or series.nbytes <= WHOLE_UP_TO_BYTES:
        array = _loaded(series, orientation)
    else:
        array = _lazy_array(path, series)
    return array, metadata


def opened(path: Path) -> tifffile.TiffFile:
    """Open a file whose description does not lead out of its folder.

    Kinds that gather their pages by an index of files are read as the plain files they also are.
    """
    file = tifffile.TiffFile(path, is_ndtiff=False, is_mmstack=False)
    try:
        _check_pages(path, file)
        if file.is_ome:
            check_ome(path, tifffile.xml2dict(file.ome_metadata or ""))
    except BaseException:
        file.close()
        raise
    return file


def _check_pages(path: Path, file: tifffile.TiffFile) -> None:
    """Raise where the directories of a file lead in a circle: readers would go round for ever."""
    kind, handle = file.tiff, file.filehandle
    handle.seek(kind.offsetsize if kind.version == _BIGTIFF_VERSION else 4)
    seen: set[int] = set()
    while True:
        place = handle.read(kind.offsetsize)
        if len(place) < kind.offsetsize:
            return
        (offset,) = struct.unpack(kind.offsetformat, place)
        if offset == 0 or offset >= handle.size:
            return
        if offset in seen:
            raise FileError(f"{path}: its pages lead back to one another; it is damaged")
        seen.add(offset)
        handle.seek(offset)
        count = handle.read(kind.tagnosize)
        if len(count) < kind.tagnosize:
            return
        handle.seek(struct.unpack(kind.tagnoformat, count)[0] * kind.tagsize, os.SEEK_CUR)


def check_series(path: Path, file: tifffile.TiffFile, series: Any, *, whole: bool) -> None:
    """Raise where pixels cannot be in the file, or a part of them (or all) not in memory."""
    pages = [page for page in series.pages if page is not None]
    files = {page.parent for page in pages} | {file}
    stored = sum(Path(each.filehandle.path).stat().st_size for each in files)
    if any(max(page.databytecounts, default=0) > stored for page in pages):
        raise FileError(f"{path}: a part of it is longer than the file; it is damaged or cut off")
    most = UNPACKED_EXPANSION if series.keyframe.compression == 1 else MAX_EXPANSION
    check_claim(path, math.prod(series.keyframe.chunks) * series.dtype.itemsize, stored, most)
    if whole or series.dataoffset is not None:
        check_claim(path, series.nbytes, stored, most)


def size(path: Path) -> tuple[int, int]:
    """Return height and width of a file with one image of a common type."""
    with opened(path) as file:
        shape, dtype = file.series[0].shape, file.series[0].dtype
        if len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] > 4):
            raise ValueError(f"shape {shape} is not that of one image")
        if dtype not in (np.uint8, np.uint16) and not np.issubdtype(dtype, np.floating):
            raise ValueError(f"pixels of type {dtype} are not supported")
        check_series(path, file, file.series[0], whole=True)
        page = file.pages.first
        if max(np.add(page.dataoffsets, page.databytecounts)) > path.stat().st_size:
            raise ValueError("the file is cut off")
        height, width = int(shape[0]), int(shape[1])
        turned = int(page.tags.valueof(ORIENTATION, default=1)) in TURNED
        return (width, height) if turned else (height, width)


def write(path: Path, image: Any, metadata: Metadata, description: str) -> None:
    """Write an array; one that lies in a file is copied part by part."""
    shape, dtype = tuple(image.shape), np.dtype(image.dtype)
    own = metadata.extra.get("tiff", {})
    colour = metadata.has_colour(shape)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    about: dict[str, Any] = {
        "photometric": "rgb" if colour else own.get("photometric", "minisblack"),
        "extratags": exif_tags(metadata),
        **flavour_of(metadata, shape, dtype, description),
    }
    if metadata.icc:
        about["iccprofile"] = metadata.icc
    if metadata.resolution and not about.get("resolution"):
        about["resolution"] = metadata.resolution
        about["resolutionunit"] = metadata.resolution_unit
    big = size > CLASSIC_UP_TO_BYTES or bool(own.get("big"))
    about |= {"imagej": True} if about.get("imagej") else {"bigtiff": big, "byteorder": "<"}
    if isinstance(image, np.ndarray):
        tifffile.imwrite(path, image, **about)
    elif about.get("imagej"):
        tifffile.imwrite(path, image.mapped(), **about)
    else:
        start = len(shape) - (3 if colour else 2)
        if size // max(1, math.prod(shape[:start])) > TILED_FROM_BYTES:
            about["tile"] = (TILE_SIDE_PX, TILE_SIDE_PX)
        parts = _parts(image, start, tiled="tile" in about)
        tifffile.imwrite(path, parts, shape=shape, dtype=dtype, **about)
    check_whole(path)
    if metadata.exif and not about.get("imagej"):
        append_exif(path, metadata)


def check_whole(path: Path) -> None:
    """Raise where the end of the pixels is missing: NumPy does not notice that the disk is full."""
    with tifffile.TiffFile(path) as file:
        ends = [
            offset + count
            for page in (file.pages.first, file.pages[len(file.pages) - 1])
            for offset, count in zip(page.dataoffsets, page.databytecounts, strict=True)
        ]
        series = file.series[0]
        if series.dataoffset is not None:
            ends.append(series.dataoffset + series.nbytes)
    if path.stat().st_size < max(ends):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def description(path: Path) -> str:
    """Return the description that was put into a file, empty where there is none."""
    with opened(path) as file:
        if file.is_imagej:
            return str((file.imagej_metadata or {}).get("Info", ""))
        if file.is_ome:
            image = tifffile.xml2dict(file.ome_metadata or "").get("OME", {}).get("Image", {})
            found = image.get("Description", "") if isinstance(image, dict) else ""
            return found if isinstance(found, str) else json.dumps(found)
        return str(file.pages.first.description)


def _series(path: Path, file: tifffile.TiffFile) -> Any:
    """Return what the file shows; thumbnails beside it do not count."""
    full = [series for series in file.series if not series.keyframe.is_reduced]
    if not full:
        raise FileError(f"{path}: cannot be read as an image (there is no page in it)")
    if len(full) > 1:
        raise FileError(
            f"{path}: holds {len(full)} images or stacks of different kinds; save them as files "
            "of their own first"
        )
    return full[0]


def _loaded(series: Any, orientation: int) -> Array:
    pixels: Array = series.asarray()
    page = series.keyframe
    if page.photometric.name == "PALETTE" and page.colormap is not None:
        return upright(np.moveaxis(page.colormap[:, pixels], 0, -1), orientation)
    if "S" in series.axes and not series.axes.endswith("S"):
        pixels = np.moveaxis(pixels, series.axes.index("S"), -1)
    if orientation != 1 and pixels.ndim <= 3:
        pixels = upright(pixels, orientation)
    return np.ascontiguousarray(pixels)


def _lazy_array(path: Path, series: Any) -> Any:
    """Return the pixels as an array that reads what it is asked for."""
    if series.dataoffset is not None:
        stored = np.dtype(series.parent.byteorder + series.dtype.char)
        rows = series.axes.index("Y")
        return MappedArray(path, series.shape, stored, series.dataoffset, rows=rows)
    try:
        import zarr
    except ImportError:
        # Only the memory that it takes differs.
        return series.asarray()
    return StoredArray(path, zarr.open(series.aszarr(level=0), mode="r"))


def _parts(image: Any, start: int, *, tiled: bool) -> Iterator[Array]:
    """Read an array page by page, or tile by tile; ``start`` is the axis of the rows."""
    height, width = image.shape[start : start + 2]
    for index in np.ndindex(tuple(image.shape)[:start]):
        if not tiled:
            yield image[index]
            continue
        side = TILE_SIDE_PX
        for top in range(0, height, side):
            for left in range(0, width, side):
                yield image[(*index, slice(top, top + side), slice(left, left + side))]


def read_metadata(file: tifffile.TiffFile, series: Any) -> Metadata:
    """Collect everything that is kept of a file."""
    page = series.keyframe
    tags = page.tags
    samples = series.shape[series.axes.index("S")] if "S" in series.axes else 1
    if page.photometric.name == "PALETTE":
        samples = 3
    axes = series.axes.replace("S", "") + ("S" if samples > 1 else "")
    x, y = tags.valueof(282), tags.valueof(283)
    resolution = None
    if x and y and x[1] and y[1] and x[0] and y[0]:
        resolution = (x[0] / x[1], y[0] / y[1])
    unit = {2: "inch", 3: "centimeter"}.get(int(tags.valueof(296, default=2)), "none")
    if unit == "none" and resolution == (1.0, 1.0):
        resolution = None
    own: dict[str, Any] = {"flavour": "plain", "big": file.is_bigtiff}
    if page.photometric.name == "MINISWHITE":
        own["photometric"] = "miniswhite"
    scale: dict[str, float] = {}
    units: dict[str, str] = {}
    if file.is_ome:
        own |= {"flavour": "ome", **_read_ome(file, scale, units)}
    elif file.is_imagej:
        own |= {"flavour": "imagej", **_read_imagej(file, resolution, scale, units)}
    return Metadata(
        icc=fitting_icc(tags.valueof(34675), samples),
        exif=read_tiff_exif(Path(file.filehandle.path), _EXIF_TAGS),
        resolution=resolution,
        resolution_unit=unit,  # type: ignore[arg-type]
        axes=axes,
        scale=scale,
        units=units,
        extra={"tiff": own},
    )


def flavour_of(
    metadata: Metadata, shape: tuple[int, ...], dtype: np.dtype[Any], description: str
) -> dict[str, Any]:
    """Return how description and sizes of pixels are written: as OME, ImageJ or plain."""
    own = metadata.extra.get("tiff", {})
    flavour = own.get("flavour", "ome" if metadata.scale else "plain")
    axes = metadata.axes if len(metadata.axes) == len(shape) else ""
    if "S" in axes and (not axes.endswith("S") or shape[-1] not in (3, 4)):
        axes = ""
    known = set(axes) <= set("TCZYXS") and len(set(axes)) == len(axes)
    if flavour == "imagej" and axes and _fits_imagej(axes, dtype):
        about = {**own.get("kept", {}), "axes": axes, "Info": description}
        return {"imagej": True, "metadata": about, "resolution": metadata.resolution or (1, 1)}
    if flavour in ("ome", "imagej") and axes and known:
        about = {**own.get("kept", {}), "axes": axes, "Description": description}
        for axis, size in metadata.scale.items():
            if axis in _OME_SIZES:
                about[_OME_SIZES[axis]] = size
                unit = metadata.units.get(axis, PIXEL)
                about[f"{_OME_SIZES[axis]}Unit"] = "µm" if unit == "um" else unit
        return {"ome": True, "metadata": about}
    return {"description": description or None, "metadata": {"axes": axes} if axes else {}}


def exif_tags(metadata: Metadata) -> list[tuple[Any, ...]]:
    """Return tags that go into a file at once: texts, and places for the parts of EXIF."""
    if not metadata.exif:
        return []
    exif = decode_exif(metadata.exif)
    found: list[tuple[Any, ...]] = []
    for tag in _EXIF_TAGS:
        value = exif.get(tag)
        if isinstance(value, str):
            found.append((tag, _ASCII, 0, value.encode("ascii", "replace"), True))
    big = bool(metadata.extra.get("tiff", {}).get("big"))
    for part, place in _PLACEHOLDERS.items():
        if exif.get_ifd(part):
            found.append((place, _LONG8 if big else _LONG, 1, 0, True))
    return found


def append_exif(path: Path, metadata: Metadata) -> None:
    """Put the parts of EXIF behind the pixels and enter them where a place was left."""
    exif = decode_exif(metadata.exif or b"")
    with tifffile.TiffFile(path, mode="r+") as file:
        handle, tags = file.filehandle, file.pages.first.tags
        header = b"II+\0\x08\0\0\0" if file.is_bigtiff else b"II*\0\x08\0\0\0"
        pointer = "<Q" if file.is_bigtiff else "<I"
        for part, place in _PLACEHOLDERS.items():
            tag = tags.get(place)
            if tag is None:
                continue
            directory = TiffImagePlugin.ImageFileDirectory_v2(header)
            for key, value in exif.get_ifd(part).items():
                # What cannot be written again is left out.
                with contextlib.suppress(ValueError, TypeError, KeyError):
                    directory[key] = value
            end = handle.seek(0, 2)
            start = end + end % 2
            handle.seek(start)
            handle.write(directory.tobytes(start))
            handle.seek(tag.offset)
            handle.write(struct.pack("<H", part))
            handle.seek(tag.valueoffset)
            handle.write(struct.pack(pointer, start))


def _read_ome(
    file: tifffile.TiffFile, scale: dict[str, float], units: dict[str, str]
) -> dict[str, Any]:
    try:
        images = tifffile.xml2dict(file.ome_metadata or "")["OME"]["Image"]
        image = images[0] if isinstance(images, list) else images
        pixels = image["Pixels"]
    except (KeyError, TypeError, ValueError, SyntaxError):
        return {}
    for axis, name in _OME_SIZES.items():
        if isinstance(pixels.get(name), int | float):
            scale[axis] = float(pixels[name])
            units[axis] = short_unit(pixels.get(f"{name}Unit", "s" if axis == "T" else "um"))
    kept: dict[str, Any] = {}
    if isinstance(image.get("Name"), str):
        kept["Name"] = image["Name"]
    channels = pixels.get("Channel", [])
    channels = channels if isinstance(channels, list) else [channels]
    names = [channel.get("Name") for channel in channels if isinstance(channel, dict)]
    if names and all(isinstance(name, str) for name in names):
        kept["Channel"] = {"Name": names}
    return {"kept": kept}


def _read_imagej(
    file: tifffile.TiffFile,
    resolution: tuple[float, float] | None,
    scale: dict[str, float],
    units: dict[str, str],
) -> dict[str, Any]:
    found = file.imagej_metadata or {}
    unit = short_unit(found.get("unit", PIXEL))
    if unit != PIXEL and resolution:
        scale |= {"X": 1 / resolution[0], "Y": 1 / resolution[1]}
        units |= {"X": unit, "Y": unit}
    if "spacing" in found:
        scale["Z"], units["Z"] = float(found["spacing"]), unit
    if "finterval" in found:
        seconds = SECONDS.get(short_unit(found.get("tunit", "s")), 1.0)
        scale["T"], units["T"] = float(found["finterval"]) * seconds, "s"
    kept = {key: found[key] for key in ("unit", "spacing", "finterval", "tunit") if key in found}
    return {"kept": kept | {key: found[key] for key in _IMAGEJ_OWN if key in found}}


def _fits_imagej(axes: str, dtype: np.dtype[Any]) -> bool:
    order = [_IMAGEJ_AXES.find(axis) for axis in axes]
    fits = dtype in (np.uint8, np.uint16, np.float32) and not ("S" in axes and dtype != np.uint8)
    return fits and -1 not in order and order == sorted(order)
