"""Arrays whose pixels stay in files: every access reads just what it needs, and nothing stays.

Not for: opening the files (tiff.py, zarr_files.py).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import FileError
from napari_kpac.core.files import reserve
from napari_kpac.images.remote import Location, RemotePath, connection_error, writing

Array = npt.NDArray[Any]
CHUNK_ROWS = 64


class FileArray:
    """Shape, dtype, chunks and slicing of an array in a file."""

    chunks: tuple[int, ...]

    def __init__(self, path: Location, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.shape = tuple(int(n) for n in shape)
        self.dtype = dtype
        self.ndim = len(self.shape)

    def __getitem__(self, place: Any) -> Array:
        raise NotImplementedError

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        pixels = self[...]
        return pixels if dtype is None else pixels.astype(dtype)


class MappedArray(FileArray):
    """An array whose pixels lie in a file one after the other."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: Any, offset: int = 0, *, rows: int = 0
    ) -> None:
        self.stored = np.dtype(dtype)
        super().__init__(path, shape, self.stored.newbyteorder("="))
        self.path: Path = path
        self.offset = offset
        # Any rows of an image can be read for their own price.
        first = rows if rows else max(self.ndim - 2, 0)
        self.chunks = (1,) * first + (min(CHUNK_ROWS, self.shape[first]), *self.shape[first + 1 :])

    def allocate(self) -> None:
        """Make the file as large as it must be."""
        reserve(self.path, self.offset + math.prod(self.shape) * self.stored.itemsize)

    def __getitem__(self, place: Any) -> Array:
        return np.array(self.mapped()[place], dtype=self.dtype)

    def __setitem__(self, place: Any, pixels: Array) -> None:
        pixels_in_file = self.mapped("r+")
        pixels_in_file[place] = pixels
        pixels_in_file.flush()

    def mapped(self, mode: Any = "r") -> np.memmap[Any, Any]:
        """Map all of it; what is touched counts as memory of the process until it is let go."""
        return np.memmap(self.path, self.stored, mode, self.offset, self.shape)


class StoredArray(FileArray):
    """An array whose chunks are decoded when they are asked for."""

    def __init__(self, path: Location, inner: Any) -> None:
        super().__init__(path, inner.shape, np.dtype(inner.dtype))
        self.inner = inner
        self.chunks = tuple(int(n) for n in inner.chunks)

    def __getitem__(self, place: Any) -> Array:
        try:
            return np.asarray(self.inner[place])
        except MemoryError as error:
            raise FileError(f"{self.path}: too large for the memory that is free") from error
        except Exception as error:  # every codec has an error of its own
            if isinstance(self.path, RemotePath):
                raise connection_error(self.path, error) from None
            raise FileError(f"{self.path}: a part of it cannot be read ({error})") from error

    def __setitem__(self, place: Any, pixels: Array) -> None:
        with writing(self.path):
            self.inner[place] = pixels
