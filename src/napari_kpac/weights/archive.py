"""Reads the arrays of an ``.npz`` file safely: nothing in it is run, and its size is limited.

Not for: what the arrays mean (authors.py, authors_dmenet.py).
"""

from __future__ import annotations

import io
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import WeightsError
from napari_kpac.weights.unpickle import FloatArray, read_array_list

Arrays = list[FloatArray] | dict[str, FloatArray]
"""As a file holds them: in order, or by name and in the order of the file."""

MAX_BYTES = 512 * 2**20
MAX_MEMBERS = 1000

_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    SyntaxError,
    TypeError,
    KeyError,
    struct.error,
    tokenize.TokenError,
)
"""The ways in which zipfile and NumPy's header reader report damage."""

_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def read_archive(path: Path) -> Arrays:
    """Read the arrays of a ``.npz`` file, without running anything that is in it."""
    if not path.is_file():
        raise WeightsError("there is no such weight file")
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if sum(info.file_size for info in infos) > MAX_BYTES:
                raise WeightsError(f"larger than {MAX_BYTES >> 20} MB unpacked; refused")
            if len(infos) > MAX_MEMBERS:
                raise WeightsError(f"an archive of {len(infos)} arrays; refused")
            if any(info.compress_type not in _COMPRESSIONS for info in infos):
                raise WeightsError("compressed in a way that NumPy does not use; refused")
            if [info.filename for info in infos] == ["params.npy"]:
                return _read_npy_list(_member(archive, infos[0]))
            return {
                info.filename.removesuffix(".npy"): _read_npy(_member(archive, info))
                for info in infos
            }
    except _DAMAGED as error:
        raise WeightsError(f"not a readable .npz archive ({error})") from error


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> io.BytesIO:
    with archive.open(info) as file:
        data = file.read(info.file_size + 1)
    if len(data) != info.file_size:
        raise WeightsError(f"{info.filename} is not as long as the archive says")
    return io.BytesIO(data)


def _header(file: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    reader = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise WeightsError(f"unknown version {version} of the .npy format")
    return reader(file)


def _read_npy_list(file: io.BytesIO) -> list[FloatArray]:
    shape, _, dtype = _header(file)
    if dtype != np.dtype("O") or len(shape) != 1:
        raise WeightsError(f"'params' is a {dtype} array of shape {shape}, not a list of arrays")
    return read_array_list(file.read())


def _read_npy(file: io.BytesIO) -> FloatArray:
    shape, fortran, dtype = _header(file)
    if dtype.kind != "f":
        raise WeightsError(f"an array of type {dtype}; floating point is needed")
    data = file.read()
    if len(data) != dtype.itemsize * int(np.prod(shape, dtype=object)):
        raise WeightsError("an array does not have the bytes that its shape needs")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
