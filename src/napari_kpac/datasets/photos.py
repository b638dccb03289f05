"""Sharp photographs: finding them, reading them, and which split each belongs to.

Not for: what is made of them (synthesis, evaluation.benchmark).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
from skimage.transform import resize

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import read_text
from napari_kpac.datasets.reading import read_rgb
from napari_kpac.images import list_pictures

MANIFEST = "MANIFEST.csv"
"""File of a folder that says in its columns ``file`` and ``split`` what each picture is for."""
MOST_BYTES = 100_000_000


def find_photos(paths: Iterable[Path]) -> list[Path]:
    """List photographs: files as they are given, of folders all pictures by name.

    Raises
    ------
    FileError
        If a file or folder does not exist.
    ConfigError
        If there are no photographs.
    """
    paths = list(paths)
    photos: list[Path] = []
    for path in paths:
        if path.is_dir():
            photos += list_pictures(path)
        elif path.exists():
            photos.append(path)
        else:
            raise FileError(f"there is no photograph or folder {path}")
    if not photos:
        places = ", ".join(map(str, paths)) or "nothing"
        raise ConfigError(f"no photographs in {places}; give pictures or folders with pictures")
    return photos


def read_photo(path: Path, size: int | None = None) -> npt.NDArray[np.float32]:
    """Read a photograph as RGB in 0..1, made smaller so that no side is longer than ``size``."""
    sharp = read_rgb(path)
    scale = 1.0 if size is None else size / max(sharp.shape[:2])
    if scale < 1:
        shape = [max(2, round(side * scale)) for side in sharp.shape[:2]]
        sharp = resize(sharp, shape, order=1, anti_aliasing=True).astype(np.float32)
    return sharp


def split_of(root: Path) -> dict[str, str] | None:
    """Read which split each file of a folder belongs to; None where no manifest says so."""
    path = root / MANIFEST
    if not path.exists():
        return None
    try:
        rows = csv.DictReader(io.StringIO(read_text(path, MOST_BYTES), newline=""))
        return {row["file"] or "": row["split"] or "" for row in rows}
    except (FileError, ValueError, KeyError, csv.Error) as error:
        raise FileError(
            f"cannot read {path}: {error}; it needs the columns file and split"
        ) from error


def photos_of_split(root: Path, split: str) -> list[Path]:
    """List the photographs of one split of a folder; without a manifest, all of them."""
    return choose_split(find_photos([root]), root, split)


def choose_split(pictures: Iterable[Path], root: Path, split: str) -> list[Path]:
    """Return the pictures that a folder's manifest puts into a split; without one, all of them.

    The manifest may name a picture with another ending.

    Raises
    ------
    ConfigError
        If the manifest puts none of them there.
    """
    splits = split_of(root)
    if splits is None:
        return list(pictures)
    stems = {Path(name).stem: each for name, each in splits.items()}
    chosen = [
        picture
        for picture in pictures
        if splits.get(picture.name, stems.get(picture.stem)) == split
    ]
    if not chosen:
        known = ", ".join(sorted(set(splits.values()))) or "none"
        raise ConfigError(f"{root} has no pictures of split {split!r}; its splits: {known}")
    return chosen
