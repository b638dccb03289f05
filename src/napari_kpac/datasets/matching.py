"""Which files of a dataset belong together, and what is wrong with them, told all at once.

Not for: any dataset's layout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from napari_kpac.core.errors import FileError, KpacError
from napari_kpac.images import list_images
from napari_kpac.optics.pixels import MIN_SIDE_PX

MOST_NAMED = 10
"""Files that one message names at most."""

Measure = Callable[[Path], tuple[int, int]]
"""Gives height and width of what a file holds, from its header."""


class Faults:
    """Files that cannot be used and why, gathered so that one message can name them all."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def add(self, path: Path, why: str) -> None:
        """Note a fault; the first one of a file stays."""
        self.found.setdefault(str(path), why)

    def settle(self, skip_bad: bool, left: int) -> dict[str, str]:
        """Return the faults if they may be skipped and something is left, or raise."""
        if not self.found or (skip_bad and left):
            return self.found
        lines = [f"{path}: {why}" for path, why in self.found.items()]
        more = len(lines) - MOST_NAMED
        named = "\n  ".join(lines[:MOST_NAMED] + ([f"and {more} more"] if more > 0 else []))
        advice = "nothing else is there" if skip_bad else "mend them, or go on without (skip_bad)"
        raise FileError(f"{len(lines)} file(s) cannot be used; {advice}:\n  {named}")


def same_size(
    measures: Mapping[Path, Measure], faults: Faults, smallest: int = MIN_SIDE_PX
) -> bool:
    """Return True if all files can be measured and have one size; note those that do not."""
    sizes: dict[Path, tuple[int, int]] = {}
    for path, measure in measures.items():
        try:
            sizes[path] = measure(path)
        except KpacError as error:
            faults.add(path, str(error).removeprefix(f"{path}: "))
    first = next(iter(sizes), None)
    for path, size in sizes.items():
        if min(size) < smallest:
            faults.add(path, f"is {_text(size)} pixels; at least {smallest}x{smallest} are needed")
        if first is not None and size != sizes[first]:
            faults.add(path, f"is {_text(size)} pixels, but {first} is {_text(sizes[first])}")
    return not any(str(path) in faults.found for path in measures)


def _text(size: tuple[int, int]) -> str:
    return f"{size[1]}x{size[0]}"


def find_images(folder: Path) -> list[Path]:
    """Return the images of a folder, of which there must be some, each with its own stem."""
    images = list_images(folder)
    if not images:
        raise FileError(f"there are no images in {folder}")
    seen: dict[str, Path] = {}
    for path in images:
        if path.stem in seen:
            raise FileError(
                f"{seen[path.stem]} and {path.name} differ only in their endings;"
                " keep one of them in the folder"
            )
        seen[path.stem] = path
    return images


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
        faults.add(path, "belongs to no image")
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
            f"{folders[0]} holds {len(first)} images and {folders[1]} {len(second)}, and their"
            " names do not tell which belong together; make the counts equal"
        )
    return dict(zip(first, second, strict=True))
