"""Which files of two folders belong together.

Not for: whether they can be read (faults), or any dataset's layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from napari_kpac.core.errors import FileError
from napari_kpac.datasets.faults import Faults
from napari_kpac.images import list_pictures


def find_pictures(folder: Path) -> list[Path]:
    """Return the pictures of a folder, of which there must be some, each with its own stem."""
    pictures = list_pictures(folder)
    if not pictures:
        raise FileError(f"there are no pictures in {folder}")
    seen: dict[str, Path] = {}
    for path in pictures:
        if path.stem in seen:
            raise FileError(
                f"{seen[path.stem]} and {path.name} differ only in their endings;"
                " keep one of them in the folder"
            )
        seen[path.stem] = path
    return pictures


def match_stems(
    first: Iterable[Path], second: Iterable[Path], faults: Faults, folder: Path
) -> dict[Path, Path]:
    """Match files of equal stem; a file that is alone is a fault.

    Parameters
    ----------
    first, second
        Files whose stems differ among themselves.
    faults
        Where files without a counterpart are noted.
    folder
        Where the second kind of files lies, for the message.
    """
    there = {path.stem: path for path in second}
    matched = {}
    for path in first:
        if path.stem in there:
            matched[path] = there.pop(path.stem)
        else:
            faults.add(path, f"has no counterpart in {folder}")
    for path in there.values():
        faults.add(path, "belongs to no picture")
    return matched


def match(first: Sequence[Path], second: Sequence[Path], faults: Faults) -> dict[Path, Path]:
    """Match by stem where most stems agree, and otherwise by order.

    Raises
    ------
    FileError
        If the stems do not tell what belongs together, and the counts differ.
    """
    shared = {path.stem for path in first} & {path.stem for path in second}
    folders = first[0].parent, second[0].parent
    if 2 * len(shared) > min(len(first), len(second)):
        return match_stems(first, second, faults, folders[1])
    if len(first) != len(second):
        raise FileError(
            f"{folders[0]} holds {len(first)} pictures and {folders[1]} {len(second)}, and their"
            " names do not tell which belong together; make the counts equal"
        )
    return dict(zip(first, second, strict=True))
