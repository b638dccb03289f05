"""Zarr images while they are written, by one process or plane by plane by many.

The files that make a folder of chunks an image (its documents) are written last, so what is
unfinished is never taken for an image, at a URL either, where nothing can be renamed. Not for:
reading (zarr_files.py).
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError, require
from napari_kpac.core.files import put_in_place, temporary_beside
from napari_kpac.core.units import long_unit
from napari_kpac.images.arrays import Array, StoredArray
from napari_kpac.images.metadata import Metadata
from napari_kpac.images.remote import Location, RemotePath, local_file, write_whole, writing
from napari_kpac.images.zarr_files import RECIPE_ATTRIBUTE, SIZES_ATTRIBUTE, zarr_store

CHUNK_SIDE_PX = 512
RECORD_FOLDER = ".napari-kpac"
"""Lies below what is unfinished, and says that it is ours."""
MAX_REMOVALS = 40
REMOVAL_PAUSE_S = 0.05
"""Between attempts to remove a folder that is still being written to."""
_TYPES = {"T": "time", "C": "channel", "Z": "space", "Y": "space", "X": "space"}


@dataclass(frozen=True, eq=False)
class ZarrRegion:
    """What a process needs to write planes of an image; can be sent to others."""

    path: Location
    """The name that the image will have."""
    place: Location
    """Where its chunks lie until then."""
    inner: str
    """Path of the array in the image; empty where it is the image."""
    about: Any
    """zarr's description of the array."""

    def open(self) -> StoredArray:
        """Return the array; it takes pixels although its description is not written yet."""
        zarr = require("zarr", "formats", f"{self.path}: Zarr")
        where = zarr.storage.StorePath(zarr_store(self.place), self.inner)
        return StoredArray(self.path, zarr.Array(zarr.AsyncArray(self.about, where)))


class ZarrTarget:
    """An image that is being written, and appears under its name when it is complete.

    ``place`` is where its chunks are collected; by default a new folder beside its name, or,
    since a URL has no names to change, the URL itself. A place that is given is shared: it is
    cleared and removed only when asked for.
    """

    def __init__(
        self,
        path: Location,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        metadata: Metadata,
        place: Location | None = None,
    ) -> None:
        self.path, self.metadata, self.shape = path, metadata, shape
        self.own: Mapping[str, Any] = metadata.extra.get("zarr", {})
        self.ome = "ome" in self.own or (not self.own and _describes(metadata, shape))
        self.inner = "0" if self.ome else self.own.get("inner")
        self.format = int(self.own.get("format", 3))
        self._documents: dict[str, Any] = {}
        with writing(path):
            array = self._describe_array(shape, dtype)
        self.is_shared = place is not None
        if place is None and isinstance(path, RemotePath):
            place = path
        if place is None:
            place = temporary_beside(local_file(path), path.suffix, folder=True)
        self.region = ZarrRegion(path, place, self.inner or "", array.metadata)
        self.finished = False
        try:
            if not self.is_shared and isinstance(place, RemotePath):
                self.clear()
            self.out = self.region.open()
        except BaseException:
            if not self.is_shared:
                self.discard()
            raise

    def clear(self) -> None:
        """Remove what an earlier attempt left, and mark the place as one of ours.

        Raises
        ------
        FileError
            If something else lies below the URL.
        """
        place = self.region.place
        if isinstance(place, RemotePath):
            inside = {each.name for each in place.iterdir()}
            if inside and RECORD_FOLDER not in inside and not place.exists():
                self.finished = True  # not ours to remove
                raise FileError(
                    f"{place}: something is there that is neither an image nor an unfinished one; "
                    "choose another URL"
                )
            if inside:
                place.remove()
            write_whole(place / RECORD_FOLDER / "unfinished", b"")
            return
        self._remove(place)
        with writing(self.path):
            (place / RECORD_FOLDER).mkdir(parents=True)

    def chunks_hold_one_plane(self, leading: int) -> bool:
        """Return True if no chunk has pixels of two planes; ``leading`` axes count planes."""
        return all(size == 1 for size in self.out.chunks[:leading])

    def _describe_array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Make the documents, in memory."""
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
        store = zarr.storage.MemoryStore(self._documents)
        if self.inner:
            self.root = zarr.create_group(store, zarr_format=self.format)
            return self.root.create_array(self.inner, **about)
        self.root = zarr.create_array(store, zarr_format=self.format, **about)
        return self.root

    def finish(self, description: str) -> None:
        """Write the documents (the source's attributes, recipe, sizes of pixels); rename it."""
        place = self.region.place
        try:
            attributes = dict(self.own.get("attributes", {}))
            if self.ome:
                self._describe_image(attributes)
            elif self.metadata.scale:
                sizes = {"scale": dict(self.metadata.scale), "units": dict(self.metadata.units)}
                attributes[SIZES_ATTRIBUTE] = sizes
            attributes[RECIPE_ATTRIBUTE] = description
            with contextlib.suppress(ValueError):
                attributes[RECIPE_ATTRIBUTE] = json.loads(description)
            self.root.attrs.update(attributes)
            # Those of the whole image come last, that by which it is known after its attributes.
            order = sorted(self._documents, key=lambda n: (-n.count("/"), not n.endswith("attrs")))
            for name in order:
                write_whole(place / name, self._documents[name].to_bytes())
            self.finished = True
            if isinstance(place, RemotePath):
                with contextlib.suppress(FileError):  # the image is complete all the same
                    (place / RECORD_FOLDER).remove()
            else:
                shutil.rmtree(place / RECORD_FOLDER, ignore_errors=True)
                put_in_place(place, local_file(self.path))
        finally:
            if not self.is_shared:
                self.discard()

    def discard(self) -> None:
        """Remove what is unfinished."""
        place = self.region.place
        if not isinstance(place, RemotePath):
            self._remove(place)
        elif not self.finished:
            self.finished = True
            place.remove()

    @staticmethod
    def _remove(folder: Path) -> None:
        """Remove a folder.

        Where one chunk could not be written, zarr's threads may still be at work on others.
        """
        for _ in range(MAX_REMOVALS):
            if not folder.exists():
                return
            shutil.rmtree(folder, ignore_errors=True)
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


class WholeChunks:
    """Takes parts of planes, and writes every chunk once, when all its pixels are there.

    So a chunk never has a part of its pixels only, whoever else writes the same plane.
    """

    def __init__(self, out: StoredArray) -> None:
        self.out, self.shape, self.dtype = out, out.shape, out.dtype
        self._parts: dict[tuple[int, ...], tuple[Array, Array]] = {}
        """Pixels and which of them are there, by the first index of the chunk."""

    def __setitem__(self, place: Any, pixels: Array) -> None:
        spans = self._spans(place)
        pixels = np.reshape(pixels, [stop - start for start, stop in spans])
        grid = [
            range(start - start % size, stop, size)
            for (start, stop), size in zip(spans, self.out.chunks, strict=True)
        ]
        for first in np.stack(np.meshgrid(*grid, indexing="ij"), -1).reshape(-1, len(grid)):
            self._add(tuple(map(int, first)), spans, pixels)

    def _spans(self, place: Any) -> list[tuple[int, int]]:
        place = place if isinstance(place, tuple) else (place,)
        if Ellipsis in place:
            at = place.index(Ellipsis)
            missing = len(self.shape) - len(place) + 1
            place = (*place[:at], *(slice(None),) * missing, *place[at + 1 :])
        place = (*place, *(slice(None),) * (len(self.shape) - len(place)))
        return [
            each.indices(size)[:2] if isinstance(each, slice) else (int(each), int(each) + 1)
            for each, size in zip(place, self.shape, strict=True)
        ]

    def _add(self, first: tuple[int, ...], spans: list[tuple[int, int]], pixels: Array) -> None:
        """Put the pixels of one chunk where they belong; write it when it is complete."""
        ends = [min(a + n, m) for a, n, m in zip(first, self.out.chunks, self.shape, strict=True)]
        cut = [
            (max(a, start), min(b, stop))
            for a, b, (start, stop) in zip(first, ends, spans, strict=True)
        ]
        source = tuple(slice(a - s, b - s) for (a, b), (s, _) in zip(cut, spans, strict=True))
        target = tuple(slice(a - f, b - f) for (a, b), f in zip(cut, first, strict=True))
        size = tuple(b - a for a, b in zip(first, ends, strict=True))
        part, there = self._parts.get(first) or (np.empty(size, self.dtype), np.zeros(size, bool))
        part[target], there[target] = pixels[source], True
        if there.all():
            self._parts.pop(first, None)
            self.out[tuple(slice(a, b) for a, b in zip(first, ends, strict=True))] = part
        else:
            self._parts[first] = (part, there)


def _describes(metadata: Metadata, shape: tuple[int, ...]) -> bool:
    """Return True if the axes are known well enough for an OME-Zarr image."""
    axes = metadata.axes
    return len(axes) == len(shape) and len(set(axes)) == len(axes) and set(axes) <= set(_TYPES)
