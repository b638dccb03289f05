"""Zarr arrays and OME-Zarr images (extra ``formats``).

Of a multiscale image the full resolution is read and written. Not for: plates.
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError, require
from napari_kpac.core.files import naming, put_in_place, temporary_beside
from napari_kpac.core.units import long_unit, short_unit
from napari_kpac.images.arrays import StoredArray
from napari_kpac.images.metadata import Metadata, check_claim

SUFFIXES = (".zarr",)
RECIPE_ATTRIBUTE = "napari_kpac"
"""Name of the attribute that says how a result was made."""
CHUNK_SIDE_PX = 512
MAX_CHUNK_BYTES = 4_000_000_000
"""Codecs know no larger ones."""
MAX_REMOVALS = 40
REMOVAL_PAUSE_S = 0.05
"""Between attempts to remove a folder that is still being written to."""
_MARKS = ("zarr.json", ".zarray", ".zgroup")
_TYPES = {"T": "time", "C": "channel", "Z": "space", "Y": "space", "X": "space"}


def is_zarr(path: Path) -> bool:
    """Return True if a folder is a Zarr array or group."""
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
    return StoredArray(path, array), Metadata(axes=_axes_of(array), extra={"zarr": own})


class ZarrTarget:
    """An array that is being written, in a folder that gets its name when it is complete."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Metadata
    ) -> None:
        self.path, self.metadata = path, metadata
        self.own: Mapping[str, Any] = metadata.extra.get("zarr", {})
        self.ome = "ome" in self.own or (not self.own and _describes(metadata, shape))
        self.inner = "0" if self.ome else self.own.get("inner")
        self.format = int(self.own.get("format", 3))
        self.temporary = temporary_beside(path, path.suffix, folder=True)
        try:
            with naming(path):
                self.out = StoredArray(path, self._create(shape, dtype))
        except BaseException:
            self.discard()
            raise

    def _create(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        zarr = require("zarr", "formats", f"{self.path}: Zarr")
        start = len(shape) - (3 if self.metadata.has_colour(shape) else 2)
        sides = tuple(min(CHUNK_SIDE_PX, n) for n in shape[start : start + 2])
        about: dict[str, Any] = {
            "shape": shape,
            "dtype": dtype,
            "chunks": (1,) * start + sides + shape[start + 2 :],
        }
        names = [axis.lower() for axis in self.metadata.axes]
        if self.format == 3 and len(names) == len(shape):
            about["dimension_names"] = names
        how = {"zarr_format": self.format, "overwrite": True}
        if self.inner:
            self.root = zarr.create_group(str(self.temporary), **how)
            return self.root.create_array(self.inner, **about)
        self.root = zarr.create_array(str(self.temporary), **about, **how)
        return self.root

    def finish(self, description: str) -> None:
        """Write the attributes (the source's own, recipe, sizes of pixels); rename the folder."""
        try:
            attributes = dict(self.own.get("attributes", {}))
            if self.ome:
                self._describe_image(attributes)
            attributes[RECIPE_ATTRIBUTE] = description
            with contextlib.suppress(ValueError):
                attributes[RECIPE_ATTRIBUTE] = json.loads(description)
            with naming(self.path):
                self.root.attrs.update(attributes)
            put_in_place(self.temporary, self.path)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the unfinished folder.

        Where one chunk could not be written, zarr's threads may still be at work on others.
        """
        for _ in range(MAX_REMOVALS):
            if not self.temporary.exists():
                return
            shutil.rmtree(self.temporary, ignore_errors=True)
            time.sleep(REMOVAL_PAUSE_S)

    def _describe_image(self, attributes: dict[str, Any]) -> None:
        """Describe the one resolution that was written, in the place of all there were."""
        image = self.own.get("ome") or self._image()
        image = {**image, "datasets": [{**image["datasets"][0], "path": self.inner}]}
        if self.format == 2:
            attributes["multiscales"] = [{"version": "0.4", **image}]
        else:
            old = attributes.get("ome", {})
            attributes["ome"] = {"version": "0.5", **old, "multiscales": [image]}

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
    return zarr.open(str(path), mode="r").attrs.get(RECIPE_ATTRIBUTE)


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


def _axes_of(array: Any) -> str:
    names = getattr(array.metadata, "dimension_names", None) or ()
    letters = "".join(str(name or "")[:1].upper() for name in names)
    return letters if len(letters) == len(array.shape) else ""


def _describes(metadata: Metadata, shape: tuple[int, ...]) -> bool:
    """Return True if the axes are known well enough for an OME-Zarr image."""
    axes = metadata.axes
    return len(axes) == len(shape) and len(set(axes)) == len(axes) and set(axes) <= set(_TYPES)
