"""Writing files so that nothing half-written ever stays behind.

Not for: reading, or any particular format.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from napari_kpac.errors import FileError


@contextmanager
def replacing(target: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``target``; on success it takes the target's place.

    On failure the temporary file is removed and an existing target stays as it was.
    The temporary name keeps the target's suffix, since many writers go by it.
    """
    target = Path(target)
    temporary = temporary_beside(target, target.suffix)
    try:
        yield temporary
        put_in_place(temporary, target)
    except OSError as error:
        raise _cannot_write(target, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def temporary_beside(target: Path, suffix: str, *, folder: bool = False) -> Path:
    """Make an empty file or folder beside a target; its name is hidden and its own."""
    prefix = f".{target.stem[:40]}-"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if folder:
            return Path(tempfile.mkdtemp(suffix, prefix, target.parent))
        handle, name = tempfile.mkstemp(suffix, prefix, target.parent)
        os.close(handle)
    except OSError as error:
        raise _cannot_write(target, error) from error
    return Path(name)


def put_in_place(temporary: Path, target: Path) -> None:
    """Give a complete file or folder its name, with the rights that new ones have."""
    mask = os.umask(0)
    os.umask(mask)
    if not temporary.is_dir():
        temporary.chmod(0o666 & ~mask)
        temporary.replace(target)
        return
    temporary.chmod(0o777 & ~mask)
    if not target.exists():
        temporary.rename(target)
        return
    # A folder cannot be replaced in one step: the old one steps aside first.
    aside = temporary.with_name(f"{temporary.name}.old")
    target.rename(aside)
    temporary.rename(target)
    if aside.is_dir():
        shutil.rmtree(aside, ignore_errors=True)
    else:
        aside.unlink(missing_ok=True)


def _cannot_write(target: Path, error: OSError) -> FileError:
    if isinstance(error, FileError):
        return error
    return FileError(f"cannot write {target}: {error.strerror or error}")
