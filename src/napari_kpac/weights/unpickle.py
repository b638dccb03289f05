"""Reads pickled NumPy arrays as data: no pickle is ever executed.

Not for: pickles in general. Whatever is not a plain floating-point array, or an array of
such arrays, is refused.

The pickle machine of the standard library calls whatever ``find_class`` hands to it.
Here it is handed inert stand-ins, which record what a NumPy array would have been made
of; the arrays are built afterwards, once sizes and types have been checked. So not even
NumPy's own constructors can be driven by the file.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import WeightsError

FloatArray = npt.NDArray[np.floating[Any]]

MAX_MEMOS = 100_000
"""Objects that a pickle may refer to again; the parser makes a table as large as it is told."""


class _Dtype:
    """Stand-in for ``numpy.dtype``: keeps its code and byte order."""

    def __init__(self, code: object, align: object = False, copy: object = False) -> None:
        del align, copy
        self.code = code
        self.order = "="

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "=", "|"):
            raise WeightsError("the pickle holds a damaged data type")
        self.order = state[1]

    def resolve(self) -> np.dtype[Any]:
        """Return the real type, floating point or object."""
        if self.code not in ("f2", "f4", "f8", "O", "O8"):
            raise WeightsError(f"the pickle holds an array of type {str(self.code)[:20]!r}")
        return np.dtype(f"{self.order}{self.code}" if self.code[0] != "O" else "O")


class _Array:
    """Stand-in for an array: keeps shape, type and contents."""

    def __init__(self) -> None:
        self.state: Any = None

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise WeightsError("the pickle holds a damaged array")
        self.state = state

    def items(self) -> list[Any]:
        """Return the contents of a 1-D object array."""
        shape, dtype, _, content = self._parts()
        if dtype != np.dtype("O") or len(shape) != 1 or not isinstance(content, list):
            raise WeightsError("expected a one-dimensional array of arrays")
        if len(content) != shape[0]:
            raise WeightsError("the pickle holds a damaged array of arrays")
        return content

    def resolve(self) -> FloatArray:
        """Build the real array, if it is floating point and its bytes are all there."""
        shape, dtype, fortran, content = self._parts()
        if dtype.kind != "f":
            raise WeightsError("expected arrays of floating-point numbers")
        raw = _bytes(content) if isinstance(content, str) else content
        if not isinstance(raw, bytes) or len(raw) != dtype.itemsize * math.prod(shape):
            raise WeightsError("an array in the pickle does not have the bytes its shape needs")
        return np.frombuffer(raw, dtype).reshape(shape, order="F" if fortran else "C")

    def _parts(self) -> tuple[tuple[int, ...], np.dtype[Any], bool, object]:
        if self.state is None:
            raise WeightsError("the pickle holds an array without contents")
        _, shape, dtype, fortran, content = self.state
        sizes = shape if isinstance(shape, tuple) else (shape,)
        if len(sizes) > 8 or any(type(n) is not int or not 0 <= n < 2**31 for n in sizes):
            raise WeightsError("an array in the pickle has a damaged shape")
        if not isinstance(dtype, _Dtype):
            raise WeightsError("an array in the pickle has a damaged data type")
        return sizes, dtype.resolve(), bool(fortran), content


_ARRAY_TYPE = object()
"""Stand-in for the class ``numpy.ndarray``, which the file may name but not call."""


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    del shape, code
    if kind is not _ARRAY_TYPE:
        raise WeightsError("the pickle builds something that is not a plain NumPy array")
    return _Array()


def _bytes(text: str) -> bytes:
    try:
        return text.encode("latin1")
    except UnicodeEncodeError as error:
        raise WeightsError("the pickle holds a damaged byte string") from error


_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _ARRAY_TYPE,
    ("numpy", "dtype"): _Dtype,
}


class _Parser(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin1")
        self._room = len(data)

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == ("_codecs", "encode"):
            return self._latin1
        try:
            return _ADMITTED[module_name, global_name]
        except KeyError:
            raise WeightsError(
                f"the pickle inside asks for {module_name}.{global_name}, which could run code; "
                "only plain NumPy arrays are admitted, so the file was refused"
            ) from None

    def _latin1(self, text: object, encoding: object = "latin1") -> bytes:
        """Stand in for ``_codecs.encode``; all calls together return no more than the file has."""
        if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
            raise WeightsError("the pickle holds a damaged byte string")
        self._room -= len(text)
        if self._room < 0:
            raise WeightsError("the pickle unfolds to more than the file holds; refused")
        return _bytes(text)


def read_array_list(data: bytes) -> list[FloatArray]:
    """Read a pickled 1-D object array of floating-point arrays, by Python 2 or 3."""
    try:
        _check_operations(data)
        content = _Parser(data).load()
    except WeightsError:
        raise
    except Exception as error:
        # A damaged pickle can fail in any way the parser knows of; none of them is ours.
        raise WeightsError(f"the pickle inside is damaged ({error})") from error
    if not isinstance(content, _Array):
        raise WeightsError(f"the pickle holds a {type(content).__name__}, not an array")
    arrays: list[FloatArray] = []
    room = len(data)
    for item in content.items():
        if not isinstance(item, _Array):
            raise WeightsError(f"the list holds a {type(item).__name__} where an array belongs")
        arrays.append(item.resolve())
        room -= arrays[-1].nbytes
        if room < 0:
            raise WeightsError("the pickle unfolds to more than the file holds; refused")
    return arrays


def _check_operations(data: bytes) -> None:
    """Check the operations without running them: lengths must be true, and tables small."""
    for operation, argument, _ in pickletools.genops(data):
        if operation.name.endswith("PUT") and int(argument or 0) > MAX_MEMOS:
            raise WeightsError(f"the pickle numbers something {argument}; refused")
