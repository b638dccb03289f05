"""What TIFF files say of their pixels, in the words of plain TIFF, ImageJ and OME.

Not for: the pixels (tiff.py).
"""

from __future__ import annotations

import contextlib
import struct
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image, TiffImagePlugin

from napari_kpac.core.units import PIXEL, SECONDS, short_unit
from napari_kpac.images.metadata import (
    ABOUT_THE_PHOTOGRAPH,
    EXIF_IFD,
    GPS_IFD,
    Metadata,
    fitting_icc,
    load_exif,
    plain_exif,
)

_STAND_INS = {EXIF_IFD: EXIF_IFD - 1, GPS_IFD: GPS_IFD + 1}
"""Unused tags that hold the places of the EXIF parts until these are appended."""
_ASCII, _LONG, _LONG8 = 2, 4, 16
_DESCRIPTION, _SOFTWARE = 0x010E, 0x0131
_OME_SIZES = {"X": "PhysicalSizeX", "Y": "PhysicalSizeY", "Z": "PhysicalSizeZ",
              "T": "TimeIncrement"}  # fmt: skip
_IMAGEJ_AXES = "TZCYXS"
_IMAGEJ_OWN = ("mode", "loop", "min", "max", "Labels", "Ranges", "LUTs")


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
        exif=_read_exif(file),
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
    """Say how the description and the sizes of pixels are written: OME, ImageJ or plain."""
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
    exif = load_exif(metadata.exif)
    found: list[tuple[Any, ...]] = []
    for tag in ABOUT_THE_PHOTOGRAPH:
        value = exif.get(tag)
        if isinstance(value, str) and tag not in (_DESCRIPTION, _SOFTWARE):
            found.append((tag, _ASCII, 0, value.encode("ascii", "replace"), True))
    big = bool(metadata.extra.get("tiff", {}).get("big"))
    for part, place in _STAND_INS.items():
        if exif.get_ifd(part):
            found.append((place, _LONG8 if big else _LONG, 1, 0, True))
    return found


def append_exif(path: Path, metadata: Metadata) -> None:
    """Put the parts of EXIF behind the pixels and enter them where a place was left."""
    exif = load_exif(metadata.exif or b"")
    with tifffile.TiffFile(path, mode="r+") as file:
        handle, tags = file.filehandle, file.pages.first.tags
        header = b"II+\0\x08\0\0\0" if file.is_bigtiff else b"II*\0\x08\0\0\0"
        pointer = "<Q" if file.is_bigtiff else "<I"
        for part, place in _STAND_INS.items():
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


def _read_exif(file: tifffile.TiffFile) -> bytes | None:
    exif = Image.Exif()
    try:
        with Path(file.filehandle.path).open("rb") as handle:
            exif.load_from_fp(handle)
            return plain_exif(exif, tuple(set(ABOUT_THE_PHOTOGRAPH) - {_DESCRIPTION, _SOFTWARE}))
    except (OSError, ValueError, SyntaxError, KeyError, TypeError, struct.error):
        return None


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
