"""Which images go in, and where their results go.

Not for: reading and writing them (napari_kpac.images).
"""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.images import SUFFIXES, ZARR, Location, RemotePath, is_image_file, location

Name = str | os.PathLike[str] | RemotePath
"""A file, a folder, a pattern; or a URL, as text."""
FILE_SUFFIXES = (*SUFFIXES, ".zarr", ".npy", ".csv")
"""Endings by which a name is taken for that of a file, and not of a folder."""


@dataclass(frozen=True)
class Found:
    """An image, and its place below the folder that was named."""

    path: Location
    relative: Path


@dataclass(frozen=True)
class Item:
    """One image or dual-pixel pair of a batch, and the file that is made of it."""

    source: Location | None
    """None where the mean of the views stands for it."""
    target: Location
    views: tuple[Location, Location] | None = None

    @property
    def first(self) -> Location:
        """The image, or its left view."""
        return self.files[0]

    @property
    def files(self) -> tuple[Location, ...]:
        """Everything that is read."""
        return (*(() if self.source is None else (self.source,)), *(self.views or ()))


def plan_items(
    inputs: Iterable[Name],
    output: Name | None,
    left: Name | None = None,
    right: Name | None = None,
    *,
    suffixes: tuple[str, ...],
    tail: str = "",
    suffix: str | None = None,
    fallback: str = ".png",
) -> list[Item]:
    """Find the images, and name the file or the files in a folder that are made of them.

    In a folder, names end in ``tail`` and ``suffix``; without one, in the input's own where
    that is among the suffixes, else in ``fallback``. Where that would give two results the
    same name, the whole names of the inputs are used. Nothing is written over an input.

    An output of None is the folder of the image, if that is one file. A new folder for one file
    must not have a name like that of a file: it would be a typing error more often than not.
    """
    if (left is None) != (right is None):
        raise ConfigError("the left and the right view go together: give both")
    inputs, place = list(inputs), None if output is None else location(output)
    images = find_images(inputs, place)
    lefts = [] if left is None else find_images([left], place)
    rights = [] if right is None else find_images([right], place)
    if not images and not lefts:
        raise FileError("there are no images to work on")
    pairs = _pairs(images, lefts, rights) if left is not None else []
    named = location((inputs or [left or ""])[0])
    one_file = len(images or lefts) == 1 and (not named.is_dir() or is_image_file(named))
    if place is None:
        only = (images or lefts)[0].path
        if not one_file:
            raise ConfigError("several images need a folder for their results: name one")
        if isinstance(only, RemotePath):
            raise ConfigError(f"{only}: name the file for its result too")
        place = only.parent
    elif one_file and suffixes and not place.is_dir() and place.suffix:
        _check_ending(place, suffixes)
    if isinstance(place, RemotePath):
        _check_url(place, suffixes)
    targets = _targets(images or lefts, place, suffixes, tail, suffix, fallback)
    items = [
        Item(images[n].path if images else None, target, pairs[n] if pairs else None)
        for n, target in enumerate(targets)
    ]
    sources = {path.resolve() for item in items for path in item.files}
    for item in items:
        if item.target.resolve() in sources:
            raise ConfigError(
                f"{item.target}: refusing to write over the input; choose another name"
            )
    return items


def find_images(inputs: Iterable[Name], output: Location | None = None) -> list[Found]:
    """List the images that files, folders, patterns like ``*.tif`` and URLs stand for.

    Folders are searched to the bottom; hidden files and the output folder are left out. A
    file that is named is taken whatever it is; what is wrong with it shows when it is read. A
    URL is one image.
    """
    found: list[Found] = []
    seen: set[Location] = set()
    for given in inputs:
        for path in _matches(location(given)):
            if isinstance(path, Path) and path.is_dir() and not is_image_file(path):
                inside = [Found(each, each.relative_to(path)) for each in _walk(path, output)]
                if not inside:
                    raise FileError(f"{path}: there are no images in this folder")
                inside = [each for each in inside if each.path.absolute() not in seen]
            else:
                inside = [Found(path, Path(path.name))]
            found += inside
            seen.update(each.path.absolute() for each in inside)
    return found


def _targets(
    inputs: Sequence[Found],
    output: Location,
    suffixes: tuple[str, ...],
    tail: str,
    suffix: str | None,
    fallback: str,
) -> Iterator[Location]:
    is_folder = output.is_dir() and not is_image_file(output)
    if output.suffix.lower() in suffixes and not is_folder:
        if len(inputs) > 1:
            raise ConfigError(f"{output} is one file for {len(inputs)} images; name a folder")
        yield output
        return
    if output.suffix.lower() in FILE_SUFFIXES and not is_folder:
        if not suffixes:
            raise ConfigError(f"{output}: name a folder, for several files are made of an image")
        _check_ending(output, suffixes)
    ends = []
    for found in inputs:
        own = found.path.suffix if found.path.suffix.lower() in suffixes else fallback
        ends.append(f"{tail}{suffix or own}")
    plain = [
        found.relative.with_name(f"{found.relative.stem}{end}")
        for found, end in zip(inputs, ends, strict=True)
    ]
    counts = Counter(plain)
    names: dict[Path, Location] = {}
    for found, end, name in zip(inputs, ends, plain, strict=True):
        if counts[name] > 1:
            # A photograph and its RAW file, for example: the whole name tells them apart.
            name = found.relative.with_name(f"{found.relative.name}{end}")
        if name in names:
            raise FileError(
                f"{names[name]} and {found.path} would both be written to {output / name}"
            )
        names[name] = found.path
        if isinstance(output, RemotePath) and name.suffix.lower() not in ZARR:
            raise ConfigError(
                f"{output / name}: at a URL, results are Zarr images: choose the format zarr"
            )
        yield output / name


def _check_url(output: RemotePath, suffixes: tuple[str, ...]) -> None:
    """Raise where results cannot go to a URL."""
    if not set(ZARR) & set(suffixes):
        raise ConfigError(f"{output}: these results are files of this machine; name a folder")
    if output.suffix.lower() in SUFFIXES:
        raise ConfigError(f"{output}: at a URL, results are Zarr images: end the name in .zarr")
    if output.protocol in ("http", "https"):
        raise ConfigError(
            f"{output}: a web server can only be read; write to a file, s3:// or gs://"
        )


def _check_ending(output: Location, suffixes: tuple[str, ...]) -> None:
    """Raise unless the name of a file has one of the endings."""
    if output.suffix.lower() not in suffixes:
        endings = ", ".join(dict.fromkeys(suffixes))
        raise ConfigError(
            f"{output}: the name must end in one of {endings}; for a folder of that name, make the "
            "folder first"
        )


def _pairs(
    images: Sequence[Found], left: Sequence[Found], right: Sequence[Found]
) -> list[tuple[Location, Location]]:
    """Put left and right views together: by name if the names agree, else in their order."""
    if not len(left) == len(right) == len(images or left):
        raise FileError(
            f"there are {len(left)} left and {len(right)} right views"
            + (f" for {len(images)} images" if images else "")
            + "; every image needs one of each"
        )
    names = [found.relative.with_suffix("") for found in images or left]
    sides = []
    for side in (left, right):
        named = {found.relative.with_suffix(""): found.path for found in side}
        by_name = len(set(names)) == len(names) and set(named) == set(names)
        sides.append([named[n] for n in names] if by_name else [found.path for found in side])
    return list(zip(*sides, strict=True))


def _matches(path: Location) -> Sequence[Location]:
    """Return the files and folders that a name or a pattern stands for."""
    if isinstance(path, RemotePath):
        if not is_image_file(path):
            raise ConfigError(
                f"{path}: a URL names one image, by its ending (.zarr, .tif, .png, ...)"
            )
        return [path]
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    matching = [Path(name) for name in glob.glob(str(path), recursive=True)]  # noqa: PTH207
    matching = [each for each in matching if is_image_file(each) or each.is_dir()]
    if not matching:
        raise FileError(f"{path}: nothing matches this pattern")
    return sorted(matching, key=_natural)


def _walk(folder: Path, output: Location | None) -> Iterator[Path]:
    try:
        inside = sorted(folder.iterdir(), key=_natural)
    except OSError as error:
        raise FileError(f"{folder}: cannot be read ({error.strerror or error})") from error
    for path in inside:
        if path.name.startswith("."):
            continue
        if isinstance(output, Path) and output.exists() and path.samefile(output):
            continue
        if is_image_file(path):
            yield path
        elif path.is_dir() and not path.is_symlink():
            yield from _walk(path, output)


def _natural(path: Path) -> list[tuple[int, int | str]]:
    """Return a key that sorts image 10 behind image 9."""
    parts = re.split(r"(\d+)", str(path))
    return [(1, int(part)) if part.isdigit() else (0, part) for part in parts]
