"""Reads and writes image files of every format.

Not for: the formats themselves, one module a family.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import FileError, KpacError, MissingExtraError, RemoteError
from napari_kpac.core.files import replacing, temporary_beside
from napari_kpac.images import photos, tiff, zarr_files
from napari_kpac.images.arrays import MappedArray
from napari_kpac.images.metadata import Metadata, check_claim
from napari_kpac.images.remote import Location, RemotePath
from napari_kpac.images.zarr_target import ZarrTarget

PLAIN, RAW = photos.SUFFIXES, photos.RAW_SUFFIXES
TIFF, ZARR = tiff.SUFFIXES, zarr_files.SUFFIXES
SUFFIXES = PLAIN + TIFF
"""Endings of single files that can be read and written."""
WRITABLE = SUFFIXES + ZARR


@dataclass
class ImageFile:
    """An opened file: its pixels, loaded or read as they are needed, and what it says of them."""

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


def is_image_file(path: Location) -> bool:
    """Return True if this can be read, by its name or, for a folder, by what is in it."""
    suffix = path.suffix.lower()
    if path.is_dir():
        return zarr_files.is_zarr(path) or suffix in ZARR
    return suffix in PLAIN + TIFF + RAW or (isinstance(path, RemotePath) and suffix in ZARR)


def list_images(folder: Path) -> list[Path]:
    """Return the images in a folder, by name; hidden files are left alone."""
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")
        )
    except OSError as error:
        raise FileError(f"{folder}: cannot be read as a folder ({error.strerror})") from error


def open_image(path: Location, *, whole: bool = False) -> ImageFile:
    """Open a file with its bit depth; the orientation of a photograph is applied.

    Large TIFF files and Zarr arrays stay where they are, unless they are wanted whole. A single
    file at a URL is copied to this machine for as long as it is open.
    """
    suffix = path.suffix.lower()
    with _reading(path), ExitStack() as stack:
        if suffix in ZARR or zarr_files.is_zarr(path):
            array, metadata = zarr_files.read(path)
        else:
            file = stack.enter_context(path.local_copy()) if isinstance(path, RemotePath) else path
            with _naming_url(path, file):
                if suffix in TIFF:
                    array, metadata = tiff.read(file, stack, whole=whole, alone=file != path)
                elif suffix in RAW:
                    array, metadata = photos.read_raw(file)
                else:
                    array, metadata = photos.read(file)
        if 0 in array.shape:
            raise FileError(f"{path}: an empty image, of shape {tuple(array.shape)}")
        if whole:
            array = _load(path, array)
        return ImageFile(array, metadata, stack.pop_all())


@contextmanager
def _naming_url(path: Location, file: Path) -> Iterator[None]:
    """Name the URL in errors, and not its copy."""
    try:
        yield
    except KpacError as error:
        if file == path or str(file) not in str(error):
            raise
        raise type(error)(str(error).replace(str(file), str(path))) from error


def _load(path: Location, array: Any) -> npt.NDArray[Any]:
    """Load what may lie in a store, where gaps take no room."""
    if not isinstance(array, np.ndarray):
        claimed = stored = math.prod(array.shape) * np.dtype(array.dtype).itemsize
        if not isinstance(path, RemotePath):  # whose size many requests would tell
            files = path.rglob("*") if path.is_dir() else (path,)
            stored = sum(each.stat().st_size for each in files if each.is_file())
        check_claim(path, claimed, stored)
    return np.asarray(array[...])


@contextmanager
def _reading(path: Location) -> Iterator[None]:
    """Turn whatever libraries raise into errors that name the file.

    There is no end to the list of what they raise for files that are damaged, or no images:
    every codec has an error of its own.
    """
    try:
        yield
    except KpacError:
        raise
    except FileNotFoundError as error:
        raise FileError(f"{path}: there is no such file") from error
    except MemoryError as error:
        raise FileError(f"{path}: too large for the memory that is free") from error
    except Exception as error:
        raise FileError(f"{path}: cannot be read as an image ({error})") from error


def image_size(path: Path) -> tuple[int, int]:
    """Return height and width of what :func:`read_image` would give, from the header alone.

    A file that seems to be cut off is read whole, to be sure.

    Raises
    ------
    FileError
        If the file holds no single image of a common type, or ends too early.
    """
    with _reading(path):
        return tiff.size(path) if path.suffix.lower() in TIFF else photos.size(path)


def read_image(path: Path) -> npt.NDArray[Any]:
    """Read an image whole, with its bit depth; its orientation is applied."""
    with open_image(path, whole=True) as image:
        return np.asarray(image.array)


def read_values(path: Path) -> npt.NDArray[Any]:
    """Read values that are no pixels, as those of a defocus map: an image, or a ``.npy`` file."""
    if path.suffix.lower() != ".npy":
        return read_image(path)
    try:
        values: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise FileError(f"{path}: cannot be read as a NumPy array ({error})") from error
    return values


def read_mask(path: Path) -> npt.NDArray[Any]:
    """Read a mask; one that is stored in colour must be grey in fact."""
    pixels = read_image(path)
    if pixels.ndim == 2 or pixels.shape[-1] not in (3, 4):
        return pixels
    if (pixels[..., :3] != pixels[..., :1]).any():
        raise FileError(f"{path}: this is a colour image; a mask must be black and white")
    return pixels[..., 0]


def description_of(path: Location) -> Any:
    """Return the record that a result carries, as plain values; None where it has none."""
    suffix = path.suffix.lower()
    try:
        if suffix in ZARR or zarr_files.is_zarr(path):
            return zarr_files.description(path)
        if isinstance(path, RemotePath):  # results there are Zarr images
            return None
        if suffix == ".npy":
            text = json.loads(path.with_name(f"{path.name}.json").read_text("utf-8"))["description"]
        else:
            text = tiff.description(path) if suffix in TIFF else photos.description(path)
        return json.loads(text)
    except (MissingExtraError, RemoteError):
        raise
    except Exception:  # of a file that is damaged, or no image
        return None


def write_image(
    path: Path, image: Any, description: str = "", metadata: Metadata | None = None
) -> Path:
    """Write an image, whole or not at all; the description goes into the file."""
    _check_target(path, image.shape, image.dtype, SUFFIXES)
    return _write(path, image, description, metadata or Metadata())


def _check_target(
    path: Location, shape: tuple[int, ...], dtype: np.dtype[Any], suffixes: tuple[str, ...]
) -> None:
    """Raise where a file of that name cannot hold these pixels."""
    suffix = path.suffix.lower()
    if suffix not in suffixes:
        raise FileError(f"{path}: the name must end in one of {', '.join(suffixes)}")
    if isinstance(path, RemotePath):
        if suffix not in ZARR:
            raise FileError(f"{path}: at a URL, results are Zarr images; end its name in .zarr")
        return
    if suffix in PLAIN:
        photos.check(path, shape, dtype)


def _write(path: Path, image: Any, description: str, metadata: Metadata) -> Path:
    with replacing(path) as temporary:
        if path.suffix.lower() in TIFF:
            tiff.write(temporary, image, metadata, description)
        else:
            photos.write(temporary, np.asarray(image), metadata, description)
    return path


def write_map(path: Path, values: npt.NDArray[np.float32], description: str = "") -> Path:
    """Write a map in 0..1: 8-bit grey, or 32-bit floating point in a TIFF file."""
    if path.suffix.lower() in TIFF:
        return write_image(path, values.astype(np.float32), description)
    return write_image(path, np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8), description)


class Target(Protocol):
    """A file that is being written part by part, and appears when it is complete."""

    out: Any
    """Takes pixels: an array of the whole shape that can be assigned to."""

    def finish(self, description: str) -> None:
        """Complete the file and let it appear under its name."""

    def discard(self) -> None:
        """Leave nothing behind."""


def start_image(
    path: Location,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    metadata: Metadata | None = None,
    *,
    streamed: bool = False,
) -> Target:
    """Begin a file of that shape; ``streamed``: its pixels are not to be kept in memory.

    Raises
    ------
    FileError
        If a file of that name cannot hold these pixels, or there is no room for them.
    """
    _check_target(path, shape, dtype, WRITABLE)
    metadata = metadata or Metadata()
    if path.suffix.lower() in ZARR or isinstance(path, RemotePath):
        return ZarrTarget(path, shape, dtype, metadata)
    return _FileTarget(path, shape, dtype, metadata, streamed=streamed)


class _FileTarget:
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
        self.out: Any = None
        if not streamed:
            self.out = np.empty(shape, dtype)
            return
        self.scratch = temporary_beside(path, ".raw")
        try:
            self.out = MappedArray(self.scratch, shape, dtype)
            self.out.allocate()
        except BaseException:
            self.discard()
            raise

    def finish(self, description: str) -> None:
        """Write the file under a temporary name, then rename it."""
        try:
            _write(self.path, self.out, description, self.metadata)
        finally:
            self.discard()

    def discard(self) -> None:
        """Remove what was collected."""
        self.out = None
        if self.scratch is not None:
            self.scratch.unlink(missing_ok=True)
