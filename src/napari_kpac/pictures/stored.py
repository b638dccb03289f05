"""Arrays in stores: what cannot be read of them is said in our words, with the file.

Not for: opening stores (zarrs.py, tiff.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import FileError
from napari_kpac.pictures.metadata import Array


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
