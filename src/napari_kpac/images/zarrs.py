"""Zarr arrays and OME-Zarr images (extra ``formats``).

Of a multiscale image the full resolution is read and written. Not for: plates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError, require
from napari_kpac.core.units import long_unit, short_unit
from napari_kpac.images.arrays import StoredArray
from napari_kpac.images.bounds import check_claim
from napari_kpac.images.metadata import Metadata

SUFFIXES = (".zarr",)
RECIPE = "napari_kpac"
"""Name of the attribute that says how a result was made."""
BLOCK = 512
MOST_PIECE = 4_000_000_000
"""Bytes of a chunk: codecs know no larger ones."""
_MARKS = ("zarr.json", ".zarray", ".zgroup")
_TYPES = {"T": "time", "C": "channel", "Z": "space", "Y": "space", "X": "space"}


def is_zarr(path: Path) -> bool:
    """Tell whether a folder is a Zarr array or group."""
    return path.is_dir() and any((path / mark).exists() for mark in _MARKS)


def read(path: Path) -> tuple[Any, Metadata]:
    """Open an array; its pixels stay where they are."""
    zarr = require("zarr", "formats", f"{path}: Zarr")
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        node = zarr.open(str(path), mode="r")
    except Exception as error:  # zarr raises its own, and what its codecs raise
        raise FileError(f"{path}: cannot be read as Zarr ({error})") from error
    own: dict[str, Any] = {"format": node.metadata.zarr_format, "attributes": dict(node.attrs)}
    if isinstance(node, zarr.Array):
        _check_array(path, node)
        return StoredArray(path, node), Metadata(axes=_axes_of(node), extra={"zarr": own})
    image = _multiscale(path, node)
    if image is None:
        arrays = list(node.arrays())
        if len(arrays) != 1:
            raise FileError(
                f"{path}: a group of {len(arrays)} arrays without an OME-Zarr image; name the "
                "array itself"
            )
        own["inner"] = arrays[0][0]
        _check_array(path, arrays[0][1])
        array = arrays[0][1]
        return StoredArray(path, array), Metadata(axes=_axes_of(array), extra={"zarr": own})
    return _read_ome(path, node, image, own)


class ZarrTarget:
    """An array that is being written, in a folder that nobody looks at yet."""

    def __init__(
        self, folder: Path, shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Metadata
    ) -> None:
        zarr = require("zarr", "formats", f"{folder}: Zarr")
        own = metadata.extra.get("zarr", {})
        self.metadata = metadata
        self.ome = "ome" in own or (not own and _describes(metadata, shape))
        self.inner = "0" if self.ome else own.get("inner")
        self.format = int(own.get("format", 3))
        colour = shape[-1] in (3, 4) and len(shape) > 2 and metadata.axes[-1:] in ("S", "")
        start = len(shape) - (3 if colour else 2)
        sides = tuple(min(BLOCK, n) for n in shape[start : start + 2])
        about: dict[str, Any] = {
            "shape": shape,
            "dtype": dtype,
            "chunks": (1,) * start + sides + shape[start + 2 :],
        }
        names = [axis.lower() for axis in metadata.axes]
        if self.format == 3 and len(names) == len(shape):
            about["dimension_names"] = names
        if self.inner:
            self.root = zarr.create_group(str(folder), zarr_format=self.format, overwrite=True)
            self.out = self.root.create_array(self.inner, **about)
        else:
            about |= {"zarr_format": self.format, "overwrite": True}
            self.root = self.out = zarr.create_array(str(folder), **about)

    def describe(self, record: Any) -> None:
        """Write the attributes: the source's own, the recipe, and the sizes of pixels."""
        own = self.metadata.extra.get("zarr", {})
        attributes = dict(own.get("attributes", {}))
        if self.ome:
            self._describe_image(attributes)
        attributes[RECIPE] = record
        self.root.attrs.update(attributes)

    def _describe_image(self, attributes: dict[str, Any]) -> None:
        """Describe the one resolution that was written, in the place of all there were."""
        image = self.metadata.extra.get("zarr", {}).get("ome") or self._image()
        image = {**image, "datasets": image["datasets"][:1]}
        image["datasets"] = [{**image["datasets"][0], "path": self.inner}]
        old = attributes if self.format == 2 else dict(attributes.get("ome", {}))
        if self.format == 2:
            attributes["multiscales"] = [image]
            image.setdefault("version", "0.4")
        else:
            attributes["ome"] = {**old, "version": old.get("version", "0.5")}
            attributes["ome"]["multiscales"] = [image]

    def _image(self) -> dict[str, Any]:
        axes = []
        for axis in self.metadata.axes:
            axes.append({"name": axis.lower(), "type": _TYPES[axis]})
            if axis in self.metadata.units:
                axes[-1]["unit"] = long_unit(self.metadata.units[axis])
        scale = [float(self.metadata.scale.get(axis, 1.0)) for axis in self.metadata.axes]
        transform = {"type": "scale", "scale": scale}
        return {
            "axes": axes,
            "datasets": [{"path": "0", "coordinateTransformations": [transform]}],
        }


def description(path: Path) -> Any:
    """Return the record of how a result was made, None where there is none."""
    zarr = require("zarr", "formats", f"{path}: Zarr")
    return zarr.open(str(path), mode="r").attrs.get(RECIPE)


def _multiscale(path: Path, group: Any) -> Mapping[str, Any] | None:
    attributes = dict(group.attrs)
    inside = attributes.get("ome", attributes)
    if "plate" in inside or "well" in inside:
        raise FileError(f"{path}: a plate of many images; name the images in it one by one")
    found = inside.get("multiscales")
    if not isinstance(found, list) or not found:
        return None
    if len(found) > 1:
        raise FileError(f"{path}: holds {len(found)} multiscale images; must be one")
    image: Mapping[str, Any] = found[0]
    return image


def _read_ome(
    path: Path, group: Any, image: Mapping[str, Any], own: dict[str, Any]
) -> tuple[Any, Metadata]:
    try:
        first = image["datasets"][0]
        array = group[first["path"]]
        axes = [
            axis if isinstance(axis, Mapping) else {"name": axis} for axis in image.get("axes", ())
        ]
        sizes = _sizes(image.get("coordinateTransformations"), len(axes))
        sizes = sizes * _sizes(first.get("coordinateTransformations"), len(axes))
        letters = "".join(str(axis["name"])[:1].upper() for axis in axes)
        named = dict(zip(letters, sizes.tolist(), strict=True))
        units = {
            letter: short_unit(axis["unit"])
            for letter, axis in zip(letters, axes, strict=True)
            if "unit" in axis
        }
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise FileError(f"{path}: its OME-Zarr description is damaged ({error!r})") from error
    if not isinstance(array, require("zarr", "formats", "").Array):
        raise FileError(f"{path}: its OME-Zarr description names a group, not an array")
    _check_array(path, array)
    own["ome"] = dict(image)
    scale = {letter: size for letter, size in named.items() if letter in units or size != 1}
    about = Metadata(axes=letters, scale=scale, units=units, extra={"zarr": own})
    return StoredArray(path, array), about


def _check_array(path: Path, array: Any) -> None:
    """Raise unless the values are numbers, packed without pickles, in pieces that fit."""
    about = array.metadata
    codecs = [getattr(about, name, None) for name in ("filters", "compressor", "codecs")]
    if "pickle" in repr(codecs).lower():
        raise FileError(f"{path}: its values are pickled, and reading them could run code; refused")
    if np.dtype(array.dtype).kind not in "buifc":
        raise FileError(f"{path}: holds {array.dtype} values; an image has numbers")
    piece = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
    check_claim(path, piece, MOST_PIECE, 1)


def _sizes(transforms: Any, axes: int) -> Any:
    for transform in transforms or ():
        if transform.get("type") == "scale":
            return np.asarray(transform["scale"], np.float64)
    return np.ones(axes)


def _axes_of(array: Any) -> str:
    names = getattr(array.metadata, "dimension_names", None) or ()
    letters = "".join(str(name or "")[:1].upper() for name in names)
    return letters if len(letters) == len(array.shape) else ""


def _describes(metadata: Metadata, shape: tuple[int, ...]) -> bool:
    """Tell whether the axes are known well enough for an OME-Zarr image."""
    axes = metadata.axes
    return len(axes) == len(shape) and len(set(axes)) == len(axes) and set(axes) <= set(_TYPES)
