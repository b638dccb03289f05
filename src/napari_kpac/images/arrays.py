"""Arrays whose pixels stay in files: every access reads just what it needs, and nothing stays.

Not for: opening the files (tiff.py, zarrs.py).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError
from napari_kpac.core.files import reserve
from napari_kpac.images.metadata import Array

ROWS = 64


class MappedArray:
    """Shape, dtype and slicing of pixels that lie in a file one after the other."""

    def __init__(
        self, path: Path, shape: tuple[int, ...], dtype: Any, offset: int = 0, *, rows: int = 0
    ) -> None:
        self.path = path
        self.shape = tuple(int(n) for n in shape)
        self.stored = np.dtype(dtype)
        self.dtype = self.stored.newbyteorder("=")
        self.offset = offset
        # Any rows of an image can be read for their own price.
        first = rows if rows else max(len(self.shape) - 2, 0)
        self.chunks = (1,) * first + (min(ROWS, self.shape[first]), *self.shape[first + 1 :])

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of all pixels."""
        return int(math.prod(self.shape) * self.stored.itemsize)

    def allocate(self) -> None:
        """Make the file as large as it must be."""
        reserve(self.path, self.offset + self.nbytes)

    def __getitem__(self, place: Any) -> Array:
        part = self.mapped()[place]
        return np.array(part, dtype=self.dtype)

    def __setitem__(self, place: Any, pixels: Array) -> None:
        whole = self.mapped("r+")
        whole[place] = pixels
        whole.flush()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[...]
        return whole if dtype is None else whole.astype(dtype)

    def mapped(self, mode: Any = "r") -> np.memmap[Any, Any]:
        """Map all of it; what is touched counts as memory of the process until it is let go."""
        return np.memmap(self.path, self.stored, mode, self.offset, self.shape)


class StoredArray:
    """Shape, dtype, chunks and slicing of an array whose parts are read when asked for."""

    def __init__(self, path: Path, inner: Any) -> None:
        self.path, self.inner = path, inner
        self.shape = tuple(int(n) for n in inner.shape)
        self.dtype = np.dtype(inner.dtype)
        self.chunks = tuple(int(n) for n in inner.chunks)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __getitem__(self, place: Any) -> Array:
        try:
            return np.asarray(self.inner[place])
        except MemoryError as error:
            raise FileError(f"{self.path}: too large for the memory that is free") from error
        except Exception as error:  # every codec has an error of its own
            raise FileError(f"{self.path}: a part of it cannot be read ({error})") from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = self[...]
        return whole if dtype is None else whole.astype(dtype)
