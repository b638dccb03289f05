"""What is wrong with the files of a dataset, told all at once.

Not for: which files belong together (matching).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from napari_kpac.core.errors import FileError, KpacError
from napari_kpac.optics.pixels import SMALLEST

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


def same_size(measures: Mapping[Path, Measure], faults: Faults, smallest: int = SMALLEST) -> bool:
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
