"""Zarr arrays and OME-Zarr images (extra ``formats``).

Of a multiscale image the full resolution is read. Not for: plates, writing (zarr_target.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError, require
from napari_kpac.core.units import short_unit
from napari_kpac.images.arrays import StoredArray
from napari_kpac.images.metadata import Metadata, check_claim
from napari_kpac.images.remote import ZARR_MARKS, Location, RemotePath, connecting

SUFFIXES = (".zarr",)
RECIPE_ATTRIBUTE = "napari_kpac"
"""Name of the attribute that says how a result was made."""
SIZES_ATTRIBUTE = "napari_kpac_sizes"
"""Name of the attribute with scale and units of an array that OME-Zarr has no place for: colour."""
MAX_CHUNK_BYTES = 4_000_000_000
"""Codecs know no larger ones."""


def is_zarr(path: Location) -> bool:
    """Return True if a folder is a Zarr array or group; of a URL, if its name says so."""
    if isinstance(path, RemotePath):
        return path.suffix.lower() in SUFFIXES
    return path.is_dir() and any((path / mark).exists() for mark in ZARR_MARKS)


def open_node(path: Location) -> Any:
    """Open an array or a group for reading."""
    zarr = require("zarr", "formats", f"{path}: Zarr")
    if not isinstance(path, RemotePath):
        return zarr.open(str(path), mode="r")
    store = zarr_store(path, read_only=True)
    with connecting(path):
        return zarr.open(store, mode="r")


def zarr_store(path: Location, *, read_only: bool = False) -> Any:
    """Return zarr's store of a folder or a URL."""
    zarr = require("zarr", "formats", f"{path}: Zarr")
    if not isinstance(path, RemotePath):
        return zarr.storage.LocalStore(str(path), read_only=read_only)
    path.open_system()  # names a package that is missing
    with connecting(path):
        return zarr.storage.FsspecStore.from_url(path.url, read_only=read_only)


def read(path: Location) -> tuple[Any, Metadata]:
    """Open an array; its pixels stay where they are."""
    zarr = require("zarr", "formats", f"{path}: Zarr")
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        node = open_node(path)
    except FileError:
        raise
    except Exception as error:  # zarr raises its own, and what its codecs raise
        raise FileError(f"{path}: cannot be read as Zarr ({error})") from error
    own: dict[str, Any] = {"format": node.metadata.zarr_format, "attributes": dict(node.attrs)}
    array = node
    if not isinstance(node, zarr.Array):
        image = _multiscale(path, node)
        if image is not None:
            return _read_ome(path, node, image, own)
        arrays = list(node.arrays())
        if len(arrays) != 1:
            raise FileError(
                f"{path}: a group of {len(arrays)} arrays without an OME-Zarr image; name the "
                "array itself"
            )
        own["inner"], array = arrays[0]
    _check_array(path, array)
    scale, units = _named_sizes(own["attributes"].get(SIZES_ATTRIBUTE))
    about = Metadata(axes=_axes_of(array), scale=scale, units=units, extra={"zarr": own})
    return StoredArray(path, array), about


def description(path: Location) -> Any:
    """Return the record of how a result was made, None where there is none."""
    return open_node(path).attrs.get(RECIPE_ATTRIBUTE)


def _multiscale(path: Location, group: Any) -> Mapping[str, Any] | None:
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
    path: Location, group: Any, image: Mapping[str, Any], own: dict[str, Any]
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


def _check_array(path: Location, array: Any) -> None:
    """Raise unless the values are numbers, packed without pickles, in chunks that fit."""
    about = array.metadata
    codecs = [getattr(about, name, None) for name in ("filters", "compressor", "codecs")]
    if "pickle" in repr(codecs).lower():
        raise FileError(f"{path}: its values are pickled, and reading them could run code; refused")
    if np.dtype(array.dtype).kind not in "buifc":
        raise FileError(f"{path}: holds {array.dtype} values; an image has numbers")
    chunk_bytes = math.prod(array.chunks) * np.dtype(array.dtype).itemsize
    check_claim(path, chunk_bytes, MAX_CHUNK_BYTES, 1)


def _sizes(transforms: Any, axes: int) -> Any:
    for transform in transforms or ():
        if transform.get("type") == "scale":
            return np.asarray(transform["scale"], np.float64)
    return np.ones(axes)


def _named_sizes(record: Any) -> tuple[dict[str, float], dict[str, str]]:
    """Return scale and units by axis from an attribute of ours, without what is damaged."""
    parts = [record.get(name) if isinstance(record, dict) else None for name in ("scale", "units")]
    scale, units = (part if isinstance(part, dict) else {} for part in parts)
    return scale, {axis: str(unit) for axis, unit in units.items()}


def _axes_of(array: Any) -> str:
    names = getattr(array.metadata, "dimension_names", None) or ()
    letters = "".join(str(name or "")[:1].upper() for name in names)
    return letters if len(letters) == len(array.shape) else ""
