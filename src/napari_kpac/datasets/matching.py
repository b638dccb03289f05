"""Files of a dataset: which belong together, which split they are of, and which cannot be used.

Not for: any dataset's layout (folders).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from napari_kpac.core.errors import ConfigError, FileError, KpacError
from napari_kpac.core.files import read_text
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.images import list_images
from napari_kpac.optics.pixels import MIN_SIDE_PX

MANIFEST = "MANIFEST.csv"
"""File of a folder that says in its columns ``file`` and ``split`` what each image is for."""
MAX_MANIFEST_BYTES = 100_000_000
MAX_NAMED_FILES = 10
"""Files that one message names at most."""

T = TypeVar("T")
Problems = dict[str, str]
"""Files that cannot be used and why, gathered so that one message can name them all."""
Measure = Callable[[Path], tuple[int, int]]
"""Returns height and width of what a file holds, from its header."""


def check_problems(problems: Problems, *, skip_bad: bool, left: int) -> None:
    """Raise if there are problems, unless they may be skipped and something is left."""
    if not problems or (skip_bad and left):
        return
    lines = [f"{path}: {why}" for path, why in problems.items()]
    more = len(lines) - MAX_NAMED_FILES
    named = "\n  ".join(lines[:MAX_NAMED_FILES] + ([f"and {more} more"] if more > 0 else []))
    advice = "nothing else is there" if skip_bad else "fix them, or skip bad files (skip_bad)"
    raise FileError(f"{len(lines)} file(s) cannot be used; {advice}:\n  {named}")


def same_size(
    measures: Mapping[Path, Measure], problems: Problems, smallest: int = MIN_SIDE_PX
) -> bool:
    """Return True if all files can be measured and have one size; others become problems."""
    sizes: dict[Path, tuple[int, int]] = {}
    for path, measure in measures.items():
        try:
            sizes[path] = measure(path)
        except KpacError as error:
            problems.setdefault(str(path), str(error).removeprefix(f"{path}: "))
    for path, size in sizes.items():
        first = next(iter(sizes))
        text, expected = (f"{width}x{height}" for height, width in (size, sizes[first]))
        if min(size) < smallest:
            needed = f"at least {smallest}x{smallest} are needed"
            problems.setdefault(str(path), f"is {text} pixels; {needed}")
        if text != expected:
            problems.setdefault(str(path), f"is {text} pixels, but {first} is {expected}")
    return not any(str(path) in problems for path in measures)


def sound_steps(
    items: Mapping[T, Mapping[Path, Measure]],
    problems: Problems,
    smallest: int = MIN_SIDE_PX,
    *,
    skip_bad: bool,
) -> Steps[list[T]]:
    """Check the files of each item by their headers, yielding after each; return the sound items.

    Files that cannot be used become problems, and raise at the end unless they may be skipped.
    """
    sound = []
    for done, (item, measures) in enumerate(items.items(), start=1):
        if same_size(measures, problems, smallest):
            sound.append(item)
        yield Progress(done, len(items), f"looking at {next(iter(measures)).name}")
    check_problems(problems, skip_bad=skip_bad, left=len(sound))
    return sound


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
    first: Iterable[Path], second: Iterable[Path], problems: Problems, folder: Path
) -> dict[Path, Path]:
    """Match files of equal stem; files without a counterpart become problems.

    ``folder`` is where the second kind of files lies, for the message.
    """
    there = {path.stem: path for path in second}
    matched = {}
    for path in first:
        if path.stem in there:
            matched[path] = there.pop(path.stem)
        else:
            problems.setdefault(str(path), f"has no counterpart in {folder}")
    for path in there.values():
        problems.setdefault(str(path), "belongs to no image")
    return matched


def match(first: Sequence[Path], second: Sequence[Path], problems: Problems) -> dict[Path, Path]:
    """Match by stem where most stems agree, and otherwise by order, if the counts are equal."""
    shared = {path.stem for path in first} & {path.stem for path in second}
    folders = first[0].parent, second[0].parent
    if 2 * len(shared) > min(len(first), len(second)):
        return match_stems(first, second, problems, folders[1])
    if len(first) != len(second):
        raise FileError(
            f"{folders[0]} holds {len(first)} images and {folders[1]} {len(second)}, and their"
            " names do not tell which belong together; make the counts equal"
        )
    return dict(zip(first, second, strict=True))


def read_splits(root: Path) -> dict[str, str] | None:
    """Read which split each file of a folder belongs to; None where no manifest says so."""
    path = root / MANIFEST
    if not path.exists():
        return None
    try:
        rows = csv.DictReader(io.StringIO(read_text(path, MAX_MANIFEST_BYTES), newline=""))
        return {row["file"] or "": row["split"] or "" for row in rows}
    except (FileError, ValueError, KeyError, csv.Error) as error:
        raise FileError(
            f"cannot read {path}: {error}; it needs the columns file and split"
        ) from error


def choose_split(images: Iterable[Path], root: Path, split: str) -> list[Path]:
    """Return the images that a folder's manifest puts into a split; without one, all of them.

    The manifest may name an image with another ending; it must put some of them there.
    """
    splits = read_splits(root)
    if splits is None:
        return list(images)
    stems = {Path(name).stem: each for name, each in splits.items()}
    chosen = [image for image in images if splits.get(image.name, stems.get(image.stem)) == split]
    if not chosen:
        known = ", ".join(sorted(set(splits.values()))) or "none"
        raise ConfigError(f"{root} has no images of split {split!r}; its splits: {known}")
    return chosen
