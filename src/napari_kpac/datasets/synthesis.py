"""Pairs of defocused and sharp images from sharp photographs, in the folders of DPDD.

Not for: how blur looks (optics), or terminals (cli).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError, FileError, KpacError
from napari_kpac.core.files import read_record, write_record
from napari_kpac.core.options import rename_aliases
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.options import SynthesisOptions
from napari_kpac.datasets.pairs import write_radius
from napari_kpac.datasets.photographs import find_photos, read_photo
from napari_kpac.images import write_image
from napari_kpac.optics import defocus, find_aperture, radius_map
from napari_kpac.optics.pixels import from_unit

RECORD = "synthesis.json"
"""File that says what the pairs in a folder were made with."""


@dataclass(frozen=True)
class Synthesis:
    """What was made."""

    output: Path
    made: int
    kept: int
    """Pairs that were there already."""
    skipped: dict[str, str]
    """Photographs that could not be used, and why."""


@dataclass(frozen=True)
class _Pair:
    photo: Path
    name: str
    split: str
    seed: tuple[int, ...]

    def file(self, output: Path, view: str, what: str) -> Path:
        suffix = "tif" if what == "radius" else "png"
        return output / f"{self.split}_{view}" / what / f"{self.name}.{suffix}"

    def files(self, output: Path, *, dual: bool) -> list[Path]:
        """Every file of the pair."""
        views = "clr" if dual else "c"
        images = [self.file(output, view, what) for view in views for what in ("source", "target")]
        return [*images, self.file(output, "c", "radius")]


def synthesise(
    photos: Iterable[Path], output: Path, options: SynthesisOptions | None = None
) -> Steps[Synthesis]:
    """Make pairs, yielding after each; what is finished already is kept.

    Writes ``{train,val,test}_c/{source,target}`` as PNG and ``{train,val,test}_c/radius`` as
    TIFF, with the same name for what belongs together; with dual-pixel views also
    ``{train,val,test}_{l,r}``, whose targets are the sharp image too.

    Parameters
    ----------
    photos
        Images, or folders whose images are taken.
    output
        Folder for the pairs.
    options
        What pairs are made.

    Raises
    ------
    ConfigError
        If there are no photographs, or the folder holds pairs that were made otherwise.
    FileError
        If a photograph cannot be read and ``skip_bad`` is not set, or a file not be written.
    """
    options = options or SynthesisOptions()
    pairs = list(_plan(find_photos(photos), options))
    _check_record(output, options, pairs)
    made = kept = 0
    skipped: dict[str, str] = {}
    sharp: tuple[Path, npt.NDArray[np.float32]] | None = None
    for done, pair in enumerate(pairs, start=1):
        note = ""
        if all(path.exists() for path in pair.files(output, dual=options.dual)):
            kept += 1
        elif str(pair.photo) not in skipped:
            try:
                if sharp is None or sharp[0] != pair.photo:
                    sharp = pair.photo, read_photo(pair.photo, options.size)
                _make(pair, sharp[1], output, options)
                made += 1
            except MemoryError as error:
                raise FileError(
                    f"out of memory for the photograph {pair.photo}; choose a smaller size"
                ) from error
            except KpacError as error:
                if not options.skip_bad:
                    raise
                note = skipped[str(pair.photo)] = str(error)
        yield Progress(done, len(pairs), pair.name, note)
    return Synthesis(output, made, kept, skipped)


def _plan(photos: Sequence[Path], options: SynthesisOptions) -> Iterator[_Pair]:
    names = _names(photos)
    ranked = sorted(names, key=lambda name: _digest(options.seed, name))
    tests = round(options.test * len(names))
    vals = min(round(options.val * len(names)), len(names) - tests)
    split = dict.fromkeys(ranked, "train")
    split |= dict.fromkeys(ranked[:tests], "test")
    split |= dict.fromkeys(ranked[tests : tests + vals], "val")
    for photo, name in zip(photos, names, strict=True):
        for i in range(options.per_photo):
            label = name if options.per_photo == 1 else f"{name}-{i + 1:02d}"
            seed = (options.seed, int(_digest(options.seed, name)[:8], 16), i)
            yield _Pair(photo, label, split[name], seed)


def _names(photos: Sequence[Path]) -> list[str]:
    """Return a name for each photograph: that of its file, with a number if it is taken."""
    seen: dict[str, int] = {}
    names = []
    for photo in photos:
        seen[photo.stem] = seen.get(photo.stem, 0) + 1
        names.append(photo.stem if seen[photo.stem] == 1 else f"{photo.stem}_{seen[photo.stem]}")
    return names


def _digest(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()


def _check_record(output: Path, options: SynthesisOptions, pairs: Sequence[_Pair]) -> None:
    """Write down what the pairs are made with, or check that it is the same as before."""
    record = {"options": options.record(), "splits": {pair.name: pair.split for pair in pairs}}
    path = output / RECORD
    if not path.exists():
        write_record(path, record)
        return
    before = read_record(path)
    made_with = before.get("options")
    if isinstance(made_with, dict):
        before["options"] = rename_aliases(SynthesisOptions, made_with)
    if before != record:
        what = "options" if before.get("options") != record["options"] else "photographs"
        raise ConfigError(
            f"{output} holds pairs made with other {what}; use the same again,"
            " or choose another folder"
        )


def _make(
    pair: _Pair, sharp: npt.NDArray[np.float32], output: Path, options: SynthesisOptions
) -> None:
    rng = np.random.default_rng(pair.seed)
    aperture = find_aperture(options.aperture, int(rng.integers(2**31)))
    radius = radius_map(
        (sharp.shape[0], sharp.shape[1]),
        rng,
        largest=options.max_radius,
        kind=None if options.scene == "random" else options.scene,
        near=options.near,
    )
    most = (options.shot, options.read, options.highlights)
    shot, read, highlights = rng.uniform(0, 1, 3) * most
    dtype = np.uint8 if options.bits == 8 else np.uint16
    try:
        made = defocus(
            sharp,
            radius,
            aperture,
            int(rng.integers(2**31)),
            layers=options.layers,
            shot=float(shot),
            read=float(read),
            highlights=float(highlights),
            dual=options.dual,
            dtype=dtype,
        )
    except KpacError as error:
        raise FileError(f"cannot use the photograph {pair.photo}: {error}") from error
    target = from_unit(sharp, dtype)
    for view, image in (("c", made.image), ("l", made.left), ("r", made.right)):
        if image is not None:
            write_image(pair.file(output, view, "source"), image)
            write_image(pair.file(output, view, "target"), target)
    # Written last: a pair with a radius map is complete.
    write_radius(pair.file(output, "c", "radius"), made.radius)
