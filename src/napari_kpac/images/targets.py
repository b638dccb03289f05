"""Results that are written image by image, and appear when they are complete.

Not for: the formats themselves.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from napari_kpac.core.errors import FileError
from napari_kpac.core.files import naming, put_in_place, temporary_beside
from napari_kpac.images import plain
from napari_kpac.images.arrays import MappedArray
from napari_kpac.images.formats import PLAIN, WRITABLE, ZARR, write_image
from napari_kpac.images.metadata import Metadata
from napari_kpac.images.zarrs import ZarrTarget


class Target(Protocol):
    """A file that is being made."""

    path: Path
    out: Any
    """Takes pixels: an array of the whole shape that can be assigned to."""

    def finish(self, description: str) -> None:
        """Complete the file and let it appear under its name."""

    def discard(self) -> None:
        """Leave nothing behind."""


def start_image(
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    metadata: Metadata | None = None,
    *,
    streamed: bool = False,
) -> Target:
    """Begin a file of that shape; ``streamed``: its pixels are not to be kept in memory."""
    check_target(path, shape, dtype)
    metadata = metadata or Metadata()
    if path.suffix.lower() in ZARR:
        return _Folder(path, shape, dtype, metadata)
    return _File(path, shape, dtype, metadata, streamed=streamed)


def check_target(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise where a file of that name cannot hold these pixels."""
    suffix = path.suffix.lower()
    if suffix not in WRITABLE:
        raise FileError(f"{path}: the name must end in one of {', '.join(WRITABLE)}")
    if suffix in PLAIN:
        plain.check(path, shape, dtype, suffix)


class _File:
    """One file; pixels are collected in memory, or in a file beside it."""

    def __init__(
        self,
        path: Path,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        metadata: Metadata,
        *,
        streamed: bool,
    ) -> None:
        self.path, self.metadata = path, metadata
        self.scratch: Path | None = None
        self.out: Any
        if streamed:
            self.scratch = temporary_beside(path, ".raw")
            self.out = MappedArray(self.scratch, shape, dtype)
            try:
                self.out.allocate()
            except BaseException:
                self.discard()
                raise
        else:
            self.out = np.empty(shape, dtype)

    def finish(self, description: str) -> None:
        """Write the file under a temporary name, then rename it."""
        try:
            write_image(self.path, self.out, description, self.metadata)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what was collected."""
        self.out = None
        if self.scratch is not None:
            self.scratch.unlink(missing_ok=True)


class _Folder:
    """A Zarr folder."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], metadata: Metadata
    ) -> None:
        self.path = path
        self.temporary = temporary_beside(path, path.suffix, folder=True)
        try:
            with naming(path):
                self.inside = ZarrTarget(self.temporary, shape, dtype, metadata)
        except BaseException:
            self.discard()
            raise
        self.out = _Pixels(path, self.inside.out)

    def finish(self, description: str) -> None:
        """Add the attributes and rename the folder."""
        try:
            record: Any = description
            with contextlib.suppress(ValueError):
                record = json.loads(description)
            with naming(self.path):
                self.inside.describe(record)
            put_in_place(self.temporary, self.path)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove the unfinished folder."""
        shutil.rmtree(self.temporary, ignore_errors=True)


class _Pixels:
    """Takes the pixels of an array in a folder; what goes wrong is said of the result."""

    def __init__(self, path: Path, array: Any) -> None:
        self._path, self._array = path, array
        self.shape, self.dtype = tuple(array.shape), np.dtype(array.dtype)

    def __setitem__(self, place: Any, pixels: Any) -> None:
        with naming(self._path):
            self._array[place] = pixels
