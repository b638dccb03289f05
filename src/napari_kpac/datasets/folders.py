"""Datasets that lie in folders: DPDD, plain pairs, and CUHK's images with masks of their blur.

Files are checked by their headers when a dataset is opened, and read when asked for. Not for:
which files belong together (matching), or writing pairs (synthesis).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError, FileError, KpacError
from napari_kpac.core.progress import Steps, finish
from napari_kpac.datasets.layout import FOLDERS, IMAGES, MASKS, folders_of_pairs, splits_of
from napari_kpac.datasets.matching import (
    Measure,
    Problems,
    check_problems,
    choose_split,
    find_images,
    match,
    match_stems,
    same_size,
    sound_steps,
)
from napari_kpac.datasets.options import SPLITS, BlurredAs, DataOptions, check_blurred_as
from napari_kpac.datasets.pairs import Floats, Pair, radius_size, read_radius, read_rgb
from napari_kpac.images import image_size, list_images, read_mask
from napari_kpac.optics.pixels import MIN_SIDE_PX, to_unit


@dataclass(frozen=True)
class PairFiles:
    """The files of one pair."""

    blurred: Path
    sharp: Path
    views: tuple[Path, Path] | None = None
    radius: Path | None = None

    def measures(self) -> dict[Path, Measure]:
        """Return how the size of each file is read."""
        images = (self.blurred, self.sharp, *(self.views or ()))
        measures: dict[Path, Measure] = dict.fromkeys(images, image_size)
        if self.radius is not None:
            measures[self.radius] = radius_size
        return measures

    def read(self, bits: int) -> Pair:
        """Read the pair."""
        pair = Pair(
            self.blurred.stem,
            read_rgb(self.blurred, bits),
            read_rgb(self.sharp, bits),
            self.views and (read_rgb(self.views[0], bits), read_rgb(self.views[1], bits)),
            None if self.radius is None else read_radius(self.radius),
        )
        maps = [pair.blurred, pair.sharp, *(pair.views or ())]
        maps += [] if pair.radius is None else [pair.radius]
        if len({values.shape[:2] for values in maps}) > 1:
            raise FileError(f"{self.blurred}: the sizes within the pair differ; open it again")
        return pair


class FilePairs:
    """Pairs in files, read one at a time.

    Attributes
    ----------
    skipped
        Files that could not be used, and why.
    """

    def __init__(
        self,
        files: Sequence[PairFiles],
        skipped: Problems,
        *,
        dual: bool = False,
        bits: int = 8,
    ) -> None:
        if bits not in (8, 16):
            raise ConfigError(f"images are read with 8 or 16 bits, not {bits}")
        self.dual = dual
        self.bits = bits
        self._files = files
        self.skipped = skipped

    def __len__(self) -> int:
        return len(self._files)

    def name(self, index: int) -> str:
        """Return what pair ``index`` is called: its blurred file, without the ending."""
        return self._files[index].blurred.stem

    def __getitem__(self, index: int) -> Pair:
        return self._files[index].read(self.bits)


def open_dpdd(
    root: Path,
    split: str,
    *,
    dual: bool = False,
    bits: int = 8,
    skip_bad: bool = False,
    smallest: int = MIN_SIDE_PX,
) -> FilePairs:
    """Open one split of DPDD, or of pairs that ``napari-kpac synthesise`` wrote.

    Source and target have different names in DPDD, so that the sorted order pairs them; where
    most names agree, as in synthetic pairs, the names do. Every header is read and checked.

    Parameters
    ----------
    root
        Folder that holds ``{train,val,test}_{c,l,r}/{source,target}``.
    split
        ``train``, ``val`` or ``test``.
    dual
        Read the dual-pixel views of ``_l`` and ``_r`` as well; the targets are those of ``_c``.
    bits
        8 rounds 16-bit images to 8 bits, as the paper did; 16 takes them as they are.
    skip_bad
        Go on without pairs that cannot be used; they are in ``skipped``.
    smallest
        Side in pixels that every image must have at least.

    Raises
    ------
    FileError
        If a folder is missing or files cannot be used; all of them are named.
    """
    return finish(
        _dpdd_steps(root, split, dual=dual, bits=bits, skip_bad=skip_bad, smallest=smallest)
    )


def _dpdd_steps(root: Path, split: str, *, dual: bool, **how: Any) -> Steps[FilePairs]:
    """Open one split of DPDD, yielding after each pair."""
    if split not in SPLITS:
        raise ConfigError(f"no split is called {split!r}; choose one of {', '.join(SPLITS)}")
    centre = root / f"{split}_c"
    if not centre.is_dir():
        there = splits_of(root)
        raise FileError(
            f"there is no folder {centre}; {root} holds "
            + (f"the splits {', '.join(there)}" if there else "no split of DPDD")
        )
    problems: Problems = {}
    sources = find_images(centre / "source")
    sharp = match(sources, find_images(centre / "target"), problems)
    views = [
        match(sources, find_images(root / f"{split}_{side}" / "source"), problems)
        for side in ("lr" if dual else "")
    ]
    radius = {}
    if (maps := centre / "radius").is_dir():
        radius = match_stems(sources, list_images(maps), problems, maps)
    files = [
        PairFiles(
            path,
            sharp[path],
            (views[0][path], views[1][path]) if dual else None,
            radius.get(path),
        )
        for path in sources
        if str(path) not in problems
    ]
    return (yield from _sound_pairs(files, problems, dual=dual, **how))


def open_folders(
    blurred: Path,
    sharp: Path | None = None,
    *,
    bits: int = 8,
    skip_bad: bool = False,
    smallest: int = MIN_SIDE_PX,
    split: str | None = None,
) -> FilePairs:
    """Open pairs in two folders, matched by their names, or else by their order.

    Parameters
    ----------
    blurred
        Folder of the blurred images; without ``sharp``, the folder that holds both folders,
        called ``source`` and ``target``, ``blurred`` or ``blur`` and ``sharp``, or ``input``
        and ``target``.
    sharp
        Folder of the sharp images.
    bits
        8 rounds deeper images to 8 bits; 16 takes them as they are.
    skip_bad
        Go on without pairs that cannot be used; they are in ``skipped``.
    smallest
        Side in pixels that every image must have at least.
    split
        Open only the pairs whose blurred images are of this split, by a ``MANIFEST.csv`` in
        the folder ``blurred``; without one, all pairs. None: all pairs.

    Raises
    ------
    FileError
        If a folder is missing or files cannot be used; all of them are named.
    ConfigError
        If the manifest has no pairs of the split.
    """
    how = {"bits": bits, "skip_bad": skip_bad, "smallest": smallest}
    return finish(_folders_steps(blurred, sharp, split=split, **how))


def _folders_steps(
    blurred: Path, sharp: Path | None, *, split: str | None, **how: Any
) -> Steps[FilePairs]:
    """Open pairs in two folders, yielding after each pair."""
    root = blurred
    if sharp is None:
        found = folders_of_pairs(root)
        if len(found) != 1:
            known = ", ".join(" and ".join(names) for names in FOLDERS)
            problem = (
                "holds more than one pair of folders called" if found else "needs folders called"
            )
            raise FileError(f"{root} {problem} {known}; or name both folders")
        blurred, sharp = found[0]
    problems: Problems = {}
    matched = match(find_images(blurred), find_images(sharp), problems)
    chosen = matched if split is None else choose_split(matched, root, split)
    files = [PairFiles(path, matched[path]) for path in chosen]
    return (yield from _sound_pairs(files, problems, **how))


def _sound_pairs(
    files: Sequence[PairFiles],
    problems: Problems,
    *,
    dual: bool = False,
    bits: int,
    skip_bad: bool,
    smallest: int,
) -> Steps[FilePairs]:
    measures = {pair: pair.measures() for pair in files}
    sound = yield from sound_steps(measures, problems, smallest, skip_bad=skip_bad)
    return FilePairs(sound, problems, dual=dual, bits=bits)


def open_pairs(options: DataOptions, *, by_manifest: bool = False) -> FilePairs:
    """Open a dataset of pairs; problems with its files are raised at once.

    Parameters
    ----------
    options
        Which dataset.
    by_manifest
        Of plain folders, open only the pairs that their MANIFEST.csv puts into the split.
    """
    return finish(open_pairs_steps(options, by_manifest=by_manifest))


def open_pairs_steps(options: DataOptions, *, by_manifest: bool = False) -> Steps[FilePairs]:
    """Open a dataset as :func:`open_pairs` does, yielding after each pair."""
    root = Path(options.root)
    how: dict[str, Any] = {
        name: getattr(options, name) for name in ("bits", "skip_bad", "smallest")
    }
    if options.kind == "dpdd":
        return (yield from _dpdd_steps(root, options.split, dual=options.dual, **how))
    if options.kind == "pairs":
        sharp = None if options.sharp is None else Path(options.sharp)
        split = options.split if by_manifest else None
        return (yield from _folders_steps(root, sharp, split=split, **how))
    raise ConfigError(f"a {options.kind} dataset has no pairs to open; choose dpdd or pairs")


class MaskedImage(NamedTuple):
    """An image and where it is blurred."""

    name: str
    image: Floats
    """(H, W, 3) in 0..1."""
    mask: npt.NDArray[np.bool_]
    """(H, W), True where it is blurred."""


@dataclass(frozen=True)
class MaskedImages:
    """Images and masks in files, read one at a time."""

    files: tuple[tuple[Path, Path], ...]
    blurred: BlurredAs
    skipped: dict[str, str]
    """Files that could not be used, and why."""

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        """Return what image ``index`` is called: its file, without the ending."""
        return self.files[index][0].stem

    def __getitem__(self, index: int) -> MaskedImage:
        file, mask = self.files[index]
        white = _read_white(mask)
        image = read_rgb(file)
        if image.shape[:2] != white.shape:
            raise FileError(f"{mask}: is not as large as its image; open the dataset again")
        return MaskedImage(file.stem, image, white if self.blurred == "white" else ~white)


def open_cuhk(
    root: Path,
    *,
    blurred: BlurredAs,
    images: str | Path = IMAGES,
    masks: str | Path = MASKS,
    prefix: str = "",
    skip_bad: bool = False,
) -> MaskedImages:
    """Open images and masks of equal names in two folders.

    Parameters
    ----------
    root
        Folder that holds both folders.
    blurred
        What the masks show blurred pixels as, ``white`` or ``black``.
    images, masks
        The two folders, below the root or anywhere.
    prefix
        Take only images and masks whose names begin so, for example ``out_of_focus``.
    skip_bad
        Go on without images that cannot be used; they are in ``skipped``.

    Raises
    ------
    FileError
        If a folder is missing or files cannot be used; all of them are named.
    """
    check_blurred_as(blurred)
    blurry, truths = (
        [path for path in find_images(folder) if path.name.startswith(prefix)]
        for folder in (root / images, root / masks)
    )
    if not blurry:
        raise FileError(f"no name in {root / images} begins with {prefix!r}")
    problems: Problems = {}
    matched = match_stems(blurry, truths, problems, root / masks)
    files = tuple(
        both for both in matched.items() if same_size(dict.fromkeys(both, image_size), problems)
    )
    check_problems(problems, skip_bad=skip_bad, left=len(files))
    return MaskedImages(files, blurred, problems)


def open_masked(options: DataOptions) -> MaskedImages:
    """Open a dataset of images and masks of their blur."""
    if options.kind != "cuhk":
        raise ConfigError(f"a {options.kind} dataset has no masks; choose cuhk")
    return open_cuhk(
        Path(options.root),
        blurred=check_blurred_as(options.blurred),
        prefix=options.prefix,
        skip_bad=options.skip_bad,
    )


def _read_white(path: Path) -> npt.NDArray[np.bool_]:
    """Read a mask, True where it is nearer to white than to black."""
    values = read_mask(path)
    if values.ndim == 3 and values.shape[2] <= 2:
        values = values[:, :, 0]
    if values.ndim != 2:
        raise FileError(f"{path}: a mask has one value a pixel, not shape {values.shape}")
    try:
        # Masks of 0 and 1 are common too, whatever their type could hold.
        white: npt.NDArray[np.bool_] = (values if values.max() <= 1 else to_unit(values)) > 0.5
    except KpacError as error:
        raise FileError(f"{path}: cannot be used as a mask ({error})") from error
    return white
