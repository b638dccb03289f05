"""Files of blur maps, masks and tables; colours and sizes of pixels for them.

Not for: making the maps (estimators).
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import tifffile
from skimage.color import deltaE_ciede2000, lab2rgb, rgb2gray

from napari_kpac.core.errors import ConfigError, FileError, ImageError
from napari_kpac.core.files import replacing
from napari_kpac.core.options import DetectionOptions, ImageOptions, MapKind
from napari_kpac.core.units import PIXEL, SECONDS, short_unit
from napari_kpac.detection.estimators import Planes, family
from napari_kpac.images import TIFF, write_image
from napari_kpac.images.tiff import check_whole

LAB_COLOURS = ((4, 2, -8), (24, 38, -42), (46, 62, -8), (68, 45, 36), (95, -6, 30))
"""From sharp to blurred, in CIELAB: nearly black, violet, red, orange, pale yellow."""
COLOURS = 256
SUFFIXES: dict[MapKind, tuple[str, ...]] = {
    "png8": (".png",),
    "png16": (".png",),
    "tiff": TIFF,
    "npy": (".npy",),
    "overlay": (".png",),
}
"""How the names of files of each kind end, the usual ending first."""
MAX_LEADING_AXES = 3
"""ImageJ's files have time, z and channels before the image's axes."""

MapOrMask = npt.NDArray[Any]
"""A map of floating-point numbers, or a mask of booleans."""
_Write = Callable[[Path], Any]


@cache
def colour_table() -> npt.NDArray[np.float64]:
    """Return (256, 3) colours in 0..1, dark for 0 and light for 1.

    A path through CIELAB that only gets lighter, cut into steps of the same perceived
    difference (CIEDE2000).
    """
    count = len(LAB_COLOURS)
    fine = np.linspace(0, count - 1, 4096)
    path = np.stack([np.interp(fine, range(count), axis) for axis in np.transpose(LAB_COLOURS)], -1)
    travelled = np.append(0, np.cumsum(deltaE_ciede2000(path[:-1], path[1:])))
    places = np.linspace(0, travelled[-1], COLOURS)
    even = np.stack([np.interp(places, travelled, axis) for axis in path.T], axis=-1)
    colours: npt.NDArray[np.float64] = np.clip(lab2rgb(even), 0, 1)
    colours.flags.writeable = False
    return colours


def coloured(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Return the colours of values in 0..1, (..., 3) in 0..1; NaN counts as 0."""
    steps = np.rint(np.clip(np.nan_to_num(values), 0, 1) * (COLOURS - 1)).astype(np.intp)
    colours: npt.NDArray[np.float64] = colour_table()[steps]
    return colours


@dataclass(frozen=True)
class Scale:
    """Size of a pixel along every axis of an array, and the unit it is given in."""

    sizes: tuple[float, ...]
    units: tuple[str, ...]

    @property
    def area(self) -> float:
        """Area of a pixel of an image."""
        return self.sizes[-2] * self.sizes[-1]

    @property
    def area_unit(self) -> str:
        """Unit of that area, for example ``um^2``."""
        rows, columns = self.units[-2:]
        return f"{rows}^2" if rows == columns else f"{rows}*{columns}"


def scale_of(scale: Sequence[float] | None, units: str | Sequence[Any] | None, axes: int) -> Scale:
    """Return the size of a pixel of an array with that many axes.

    Two sizes or units, or one unit, do for the image's own axes; the leading axes then
    have size 1. A unit may be a text or what napari's layers hold.
    """
    sizes = (1.0, 1.0) if scale is None else tuple(float(size) for size in scale)
    if not all(np.isfinite(size) and size > 0 for size in sizes):
        raise ImageError(f"scale={sizes}: sizes of pixels must be numbers above 0")
    if units is None:
        units = (PIXEL, PIXEL)
    elif isinstance(units, str) or not isinstance(units, Sequence):
        units = (units, units)
    names = tuple(short_unit(unit) for unit in units)
    for what, given in (("scale", sizes), ("units", names)):
        if len(given) not in (2, axes):
            raise ImageError(f"{what}={given}: give one for each of the {axes} axes, or two")
    return Scale((1.0,) * (axes - len(sizes)) + sizes, (PIXEL,) * (axes - len(names)) + names)


def export(
    path: str | os.PathLike[str],
    values: MapOrMask,
    kind: MapKind | None = None,
    image: Any = None,
    scale: Sequence[float] | None = None,
    units: str | Sequence[Any] | None = None,
    description: str = "",
    *,
    opacity: float = 0.5,
    reading: ImageOptions | None = None,
) -> list[Path]:
    """Write a blur map, whole or not at all.

    Parameters
    ----------
    path
        The file. A stack as PNG or overlay becomes a file a slice, ``name-0.png``,
        ``name-1.png``, ...; to write one slice, give that slice alone.
    values
        The map in 0..1, or a mask, (H, W), leading axes of a stack first.
    kind
        ===========  ===============================================================
        ``png8``     0..255 stand for 0..1; the default for names in ``.png``
        ``png16``    0..65535 stand for 0..1
        ``tiff``     the values themselves, with scale and units as ImageJ and Fiji
                     read them; a stack is one file; the default for ``.tif``;
                     a mask is written as 0 and 255
        ``npy``      the values themselves; scale, units and description go into a
                     ``.npy.json`` file beside it; the default for ``.npy``
        ``overlay``  colours over the image in grey, 8-bit RGB
        ===========  ===============================================================
    image
        The image below an overlay, of the same size and with the same leading axes.
    scale, units
        Size of a pixel along the axes, and in what unit, as in a napari layer.
    description
        What made the map, for example ``json.dumps(detection.to_dict())``; kept in the file.
    opacity
        Of the colours in an overlay.
    reading
        How to read the axes and the range of ``image``; by default as in detection.

    Returns
    -------
    list of Path
        All files written.
    """
    path = Path(path)
    kind = _kind_of(path) if kind is None else kind
    if kind not in get_args(MapKind):
        raise ConfigError(f"kind={kind!r}: must be one of {', '.join(get_args(MapKind))}")
    if path.suffix.lower() not in SUFFIXES[kind]:
        raise FileError(f"{path}: the name of a {kind} file must end in {SUFFIXES[kind][0]}")
    values = np.asarray(values)
    if values.ndim < 2 or not values.size or values.dtype.kind not in "fb":
        raise ImageError(
            f"a blur map is (H, W) of floating-point numbers, a mask of booleans; this array is "
            f"{values.dtype} {values.shape}"
        )
    if values.dtype.kind == "f":
        values = values.astype(np.float32, copy=False)
    pixel = scale_of(scale, units, values.ndim)
    if kind == "tiff":
        write = partial(_write_tiff, values=values, pixel=pixel, description=description)
        return _write_all([(path, write)])
    if kind == "npy":
        return _write_all(_numpy_files(path, values, pixel, description))
    if kind == "overlay":
        images = _overlays(values, image, opacity, reading or ImageOptions())
    else:
        dtype = np.uint8 if kind == "png8" else np.uint16
        images = (_integers(values[index], dtype) for index in np.ndindex(values.shape[:-2]))
    names = slice_names(path, values.shape[:-2])
    return _write_all(
        (name, partial(write_image, image=pixels, description=description))
        for name, pixels in zip(names, images, strict=True)
    )


def export_table(path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any]]) -> Path:
    """Write columns, for example of :func:`napari_kpac.detection.region_table`, as a CSV file."""
    path = Path(path)
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def slice_names(path: Path, leading: tuple[int, ...]) -> list[Path]:
    """Return the file of every slice of a stack; the path itself where there is no stack."""
    widths = [len(str(size - 1)) for size in leading]
    return [
        path.with_name(
            path.stem
            + "".join(f"-{n:0{width}}" for n, width in zip(index, widths, strict=True))
            + path.suffix
        )
        for index in np.ndindex(leading)
    ]


def settings_name(options: DetectionOptions) -> str:
    """Return an ending for file names that says what was measured: model and settings.

    Only what differs from the defaults is named, so the usual map is just ``blur``.
    """
    usual = DetectionOptions()
    parts = ["blur"]
    if options.source != usual.source:
        parts.append(options.source)
    if family(options.source) == "alpha" and options.model != usual.model:
        parts.append(Path(options.model).stem)
    if options.upsampling != usual.upsampling:
        parts.append(f"x{options.upsampling}")
    if options.smoothing != usual.smoothing:
        parts.append(f"s{options.smoothing:g}")
    return "-".join(parts)


def _kind_of(path: Path) -> MapKind:
    for kind, suffixes in SUFFIXES.items():
        if path.suffix.lower() in suffixes:
            return kind
    endings = sorted({suffix for suffixes in SUFFIXES.values() for suffix in suffixes})
    raise FileError(f"{path}: the name must end in one of {', '.join(endings)}")


def _write_all(files: Iterable[tuple[Path, _Write]]) -> list[Path]:
    """Write files under temporary names; only when all are complete do they get their own."""
    written = []
    with ExitStack() as stack:
        for target, write in files:
            write(stack.enter_context(replacing(target)))
            written.append(target)
    return written


def _integers(values: MapOrMask, dtype: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Return 0..1 in the whole range of an integer type; NaN becomes 0."""
    scaled = np.clip(np.nan_to_num(values.astype(np.float64)), 0, 1) * np.iinfo(dtype).max
    return np.rint(scaled).astype(dtype)


def _overlays(
    values: MapOrMask, image: Any, opacity: float, reading: ImageOptions
) -> Iterator[npt.NDArray[np.uint8]]:
    """Lay the colours of a map over an image in grey, so that all colour comes from the map."""
    if not 0 <= opacity <= 1:
        raise ConfigError(f"opacity={opacity!r}: must lie within 0..1")
    if image is None:
        raise ImageError("an overlay needs the image to lie over")
    planes = Planes.of(image, reading)
    if (*planes.leading, *planes.layout.size) != values.shape:
        raise ImageError(
            f"the image has shape {planes.layout.shape} and the map {values.shape}; give the image "
            "that the map was made of"
        )
    for plane, index in zip(planes, np.ndindex(values.shape[:-2]), strict=True):
        below = np.clip(plane, 0, 1)
        grey = rgb2gray(below) if below.shape[-1] == 3 else below[..., 0]
        mixed = (1 - opacity) * grey[..., None] + opacity * coloured(values[index])
        yield np.rint(mixed * 255).astype(np.uint8)


def _numpy_files(
    path: Path, values: MapOrMask, pixel: Scale, description: str
) -> Iterator[tuple[Path, _Write]]:
    yield path, lambda file: _save(file, values)
    about = {"description": description, "scale": pixel.sizes, "units": pixel.units}
    text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
    yield path.with_name(f"{path.name}.json"), lambda file: file.write_text(text, encoding="utf-8")


def _write_tiff(path: Path, values: MapOrMask, pixel: Scale, description: str) -> None:
    """Write a file in ImageJ's way: the unit and the distance of slices stand in its metadata."""
    leading = values.ndim - 2
    if leading > MAX_LEADING_AXES:
        raise FileError(
            f"a TIFF file holds at most {MAX_LEADING_AXES} axes before the image's own, this map "
            f"has {leading}; write one slice, or a .npy file"
        )
    rows, columns = pixel.units[-2:]
    if rows != columns:
        raise FileError(f"a TIFF file has one unit for rows and columns, not {rows} and {columns}")
    if not columns.isascii():
        raise FileError(f"unit {columns!r}: the unit in a TIFF file must be written in ASCII")
    pixels = np.where(values, 255, 0).astype(np.uint8) if values.dtype == bool else values
    white = 255.0 if values.dtype == bool else 1.0
    about: dict[str, Any] = {"min": 0.0, "max": white, "Info": description}
    axes = _leading_axes(pixel.units[:-2])
    for name, size, unit in zip(axes, pixel.sizes, pixel.units, strict=False):
        if name == "Z":
            about["spacing"] = size
        elif name == "T":
            about["finterval"] = size * SECONDS.get(unit, 1.0)
    if columns != PIXEL:
        about["unit"] = columns
    tifffile.imwrite(
        path,
        pixels,
        imagej=True,
        resolution=(1 / pixel.sizes[-1], 1 / pixel.sizes[-2]),
        metadata={**about, "axes": axes + "YX"},
    )
    check_whole(path)


def _leading_axes(units: tuple[str, ...]) -> str:
    """Name leading axes as ImageJ does: a single one is time or z by its unit."""
    if len(units) == 1:
        return "T" if units[0] in SECONDS else "Z"
    return "TZC"[: len(units)]


def _save(path: Path, values: npt.NDArray[Any]) -> None:
    """Write a NumPy file; given a real file, NumPy does not notice that its end was lost."""
    with path.open("wb") as file:
        np.save(SimpleNamespace(write=file.write), values)
