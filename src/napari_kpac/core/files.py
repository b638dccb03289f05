"""Atomic writing of files, and reading of small text and JSON files.

A process that is killed cannot clean up: its temporary files carry its number, and the next
process that writes into the folder removes them. Not for: images or weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from napari_kpac.core.errors import FileError

_LEFT = re.compile(r"\.(?P<name>.*)-kpac(?P<machine>[0-9a-f]{8})\.(?P<process>\d+)-(?P<rest>.*)")
"""What temporary names look like: the target, the machine, the process, anything."""
_OLD = "old"
MAX_TEXT_BYTES = 1_000_000
MAX_RECORD_BYTES = 10_000_000
"""Small files are read whole, but never more than such a file can need."""
_swept: set[Path] = set()


@contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``target``; on success it replaces the target.

    On failure the temporary file is removed and an existing target stays as it was.
    The temporary name keeps the target's suffix, since many writers go by it.
    """
    target = Path(target)
    if target.exists() and not (target.is_file() or target.is_dir()):
        raise FileError(f"cannot write {target}: it is a device; choose the name of a file")
    temporary = temporary_beside(target, target.suffix)
    try:
        with naming(target):
            yield temporary
            put_in_place(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def naming(target: Path) -> Iterator[None]:
    """Turn errors of the system into a ``FileError`` that names what could not be written."""
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        # Libraries that count what they wrote do not say why it was too little.
        reason = error.strerror or f"{error}; is the disk full?"
        raise FileError(f"cannot write {target}: {reason}") from error


def temporary_beside(target: Path, suffix: str, *, folder: bool = False) -> Path:
    """Make an empty file or folder with a unique hidden name beside a target."""
    with naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target.parent)
        prefix = _own_name(target.stem[:40])
        if folder:
            return Path(tempfile.mkdtemp(suffix, prefix, target.parent))
        handle, name = tempfile.mkstemp(suffix, prefix, target.parent)
        os.close(handle)
        return Path(name)


def put_in_place(temporary: Path, target: Path) -> None:
    """Rename a complete file or folder to its target, with the permissions of new ones."""
    with naming(target):
        mask = os.umask(0)
        os.umask(mask)
        if not temporary.is_dir():
            temporary.chmod(0o666 & ~mask)
            temporary.replace(target)
            return
        temporary.chmod(0o777 & ~mask)
        if target.exists():
            _replace_folder(temporary, target)
        else:
            temporary.rename(target)


def reserve(path: Path, size: int) -> None:
    """Grow a file to a size, with space on the disk for all of it.

    A file with holes in it would do until the disk is full; then the system kills whoever
    writes into a hole through mapped memory.
    """
    with naming(path), path.open("r+b") as file:
        if hasattr(os, "posix_fallocate") and size:
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file: all of it, or nothing."""
    with naming(path), path.open("ab", buffering=0) as file:
        before, left = file.tell(), memoryview(content)
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                file.truncate(before)
            raise


def _replace_folder(temporary: Path, target: Path) -> None:
    """Replace a folder, which takes two steps: the old one is renamed first."""
    aside = target.with_name(f"{_own_name(target.name)}{_OLD}")
    target.rename(aside)
    try:
        temporary.rename(target)
    except OSError:
        aside.rename(target)
        raise
    _remove(aside)


def _sweep(folder: Path) -> None:
    """Remove what killed processes left in a folder; looks once into each."""
    folder = folder.resolve()
    if folder in _swept:
        return
    _swept.add(folder)
    for path in folder.iterdir():
        found = _LEFT.fullmatch(path.name)
        if found is None or found["machine"] != _machine() or _is_alive(int(found["process"])):
            continue
        target = folder / found["name"]
        with suppress(OSError):  # another process was faster
            if found["rest"] == _OLD and not target.exists():
                path.rename(target)  # killed just before the new one got this name
            else:
                _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _own_name(name: str) -> str:
    return f".{name}-kpac{_machine()}.{os.getpid()}-"


@lru_cache(maxsize=1)
def _machine() -> str:
    """Return an id of this machine or container: process ids are unique only within one."""
    space = ""
    with suppress(OSError):
        space = str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(f"{platform.node()} {space}".encode()).hexdigest()[:8]


def _is_alive(process: int) -> bool:
    import psutil

    return bool(psutil.pid_exists(process))


def read_text(path: Path, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a text file of at most so many bytes; pipes and devices are not waited for.

    Raises
    ------
    FileError
        If there is no such file, it cannot be read, is too large, or is no text.
    """
    try:
        if not path.is_file():
            reason = "this is not a file" if path.exists() else "there is no such file"
            raise FileError(f"{path}: cannot be read ({reason})")
        with path.open("rb") as file:
            content = file.read(max_bytes + 1)
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from error
    if len(content) > max_bytes:
        raise FileError(f"{path}: too large, such a file has no more than {max_bytes:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: this is not text in UTF-8 ({error})") from error


def write_record(path: Path, content: Any) -> Path:
    """Write plain values as a JSON file."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds a table of plain values."""
    try:
        content = json.loads(read_text(path, MAX_RECORD_BYTES))
    except (FileError, ValueError, RecursionError) as error:
        raise FileError(f"cannot read {path}: {error}; choose another folder") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} is not the record that it should be; choose another folder")
    return content
