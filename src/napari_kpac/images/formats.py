"""Which module reads and writes which files.

Not for: the formats themselves, one module a family; results that are written bit by bit
(targets.py).
"""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import FileError, KpacError, MissingExtraError
from napari_kpac.core.files import replacing
from napari_kpac.images import plain, raw, tiff, zarrs
from napari_kpac.images.bounds import check_claim
from napari_kpac.images.metadata import Metadata

PLAIN, TIFF, ZARR, RAW = plain.SUFFIXES, tiff.SUFFIXES, zarrs.SUFFIXES, raw.SUFFIXES
SUFFIXES = PLAIN + TIFF
"""Endings of single files that can be read and written."""
WRITABLE = SUFFIXES + ZARR
READABLE = WRITABLE + RAW

UNREADABLE = Exception
"""What libraries raise for files that are damaged, or no images: there is no end to the list,
every codec has an error of its own."""


@dataclass
class ImageFile:
    """An opened file: its pixels, loaded or read as they are needed, and what it says of them."""

    path: Path
    array: Any
    metadata: Metadata
    _open: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Close the file; an array that was not loaded cannot be read any more."""
        self._open.close()

    def __enter__(self) -> ImageFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def is_image_file(path: Path) -> bool:
    """Tell by name (or, of a folder, by what is in it) whether this can be read."""
    if path.is_dir():
        return zarrs.is_zarr(path) or path.suffix.lower() in ZARR
    return path.suffix.lower() in PLAIN + TIFF + RAW


def open_image(path: Path, *, whole: bool = False) -> ImageFile:
    """Open a file with its bit depth; the orientation of a photograph is applied.

    Large TIFF files and Zarr arrays stay where they are, unless they are wanted whole.
    """
    stack = ExitStack()
    suffix = path.suffix.lower()
    try:
        with stack:
            if suffix in ZARR or zarrs.is_zarr(path):
                array, metadata = zarrs.read(path)
            elif suffix in TIFF:
                array, metadata = tiff.read(path, stack, whole=whole)
            elif suffix in RAW:
                array, metadata = raw.read(path)
            else:
                array, metadata = plain.read(path)
            if 0 in array.shape:
                raise FileError(f"{path}: an empty image, of shape {tuple(array.shape)}")
            if whole:
                array = _whole(path, array)
            return ImageFile(path, array, metadata, stack.pop_all())
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except KpacError:
        raise
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory that is free") from error
    except UNREADABLE as error:
        raise FileError(f"{path}: cannot be read as an image ({error})") from error


def _whole(path: Path, array: Any) -> npt.NDArray[Any]:
    """Load what may lie in a store, where gaps take no room."""
    if not isinstance(array, np.ndarray):
        files = path.rglob("*") if path.is_dir() else (path,)
        stored = sum(each.stat().st_size for each in files if each.is_file())
        check_claim(path, math.prod(array.shape) * np.dtype(array.dtype).itemsize, stored)
    return np.asarray(array[...])


def read_image(path: Path) -> npt.NDArray[Any]:
    """Read an image whole, with its bit depth; its orientation is applied."""
    with open_image(path, whole=True) as image:
        return np.asarray(image.array)


def read_mask(path: Path) -> npt.NDArray[Any]:
    """Read a mask; one that is stored in colour must be grey in fact."""
    pixels = read_image(path)
    if pixels.ndim == 2 or pixels.shape[-1] not in (3, 4):
        return pixels
    if (pixels[..., :3] != pixels[..., :1]).any():
        raise FileError(f"{path}: this is a colour image; a mask must be black and white")
    return pixels[..., 0]


def write_image(
    path: Path, image: Any, description: str = "", metadata: Metadata | None = None
) -> Path:
    """Write an image, whole or not at all; the description goes into the file."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"{path}: the name must end in one of {', '.join(SUFFIXES)}")
    metadata = metadata or Metadata()
    with replacing(path) as temporary:
        if suffix in TIFF:
            tiff.write(temporary, image, metadata, description)
        else:
            plain.write(temporary, np.asarray(image), metadata, description, suffix)
    return path


def write_map(path: Path, values: npt.NDArray[np.float32], description: str = "") -> Path:
    """Write a map in 0..1: 8-bit grey, or 32-bit floating point in a TIFF file."""
    if path.suffix.lower() in TIFF:
        return write_image(path, values.astype(np.float32), description)
    return write_image(path, np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8), description)


def description_of(path: Path) -> Any:
    """Return the record that a result carries, as plain values; None where it has none."""
    suffix = path.suffix.lower()
    try:
        if suffix in ZARR or zarrs.is_zarr(path):
            return zarrs.description(path)
        if suffix == ".npy":
            text = json.loads(path.with_name(f"{path.name}.json").read_text("utf-8"))["description"]
        else:
            text = tiff.description(path) if suffix in TIFF else plain.description(path)
        return json.loads(text)
    except MissingExtraError:
        raise
    except UNREADABLE:
        return None
