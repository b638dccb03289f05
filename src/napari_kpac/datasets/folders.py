"""Plain pairs in two folders; and any dataset from its options.

Not for: splits or dual-pixel views (dpdd).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.datasets.cuhk import MaskedImages, open_cuhk
from napari_kpac.datasets.dpdd import open_dpdd
from napari_kpac.datasets.matching import Faults, find_images, match
from napari_kpac.datasets.options import DataOptions, check_blurred_as
from napari_kpac.datasets.pairs import FilePairs, PairFiles, Pairs
from napari_kpac.datasets.photographs import choose_split
from napari_kpac.optics.pixels import MIN_SIDE_PX

NAMES = (("source", "target"), ("blurred", "sharp"), ("blur", "sharp"), ("input", "target"))
"""What the two folders may be called where only the folder above them is given."""


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
    root = blurred
    if sharp is None:
        blurred, sharp = _inside(blurred)
    faults = Faults()
    images = find_images(blurred)
    matched = match(images, find_images(sharp), faults)
    chosen = matched if split is None else choose_split(matched, root, split)
    files = [PairFiles(path, matched[path]) for path in chosen]
    return FilePairs(files, faults, bits=bits, skip_bad=skip_bad, smallest=smallest)


def _inside(root: Path) -> tuple[Path, Path]:
    found = [(root / a, root / b) for a, b in NAMES if (root / a).is_dir() and (root / b).is_dir()]
    if len(found) == 1:
        return found[0]
    known = ", ".join(" and ".join(both) for both in NAMES)
    problem = "holds more than one pair of folders called" if found else "needs folders called"
    raise FileError(f"{root} {problem} {known}; or name both folders")


def open_pairs(options: DataOptions, *, by_manifest: bool = False) -> Pairs:
    """Open a dataset of pairs; what is wrong with it is said at once.

    Parameters
    ----------
    options
        Which dataset.
    by_manifest
        Of plain folders, open only the pairs that their MANIFEST.csv puts into the split.
    """
    if by_manifest and options.kind == "pairs":
        return _folders(options, options.split)
    if options.kind not in _OPENERS:
        raise ConfigError(
            f"a {options.kind} dataset has no pairs to open; choose one of {', '.join(_OPENERS)}"
        )
    return _OPENERS[options.kind](options)


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


def _dpdd(options: DataOptions) -> Pairs:
    return open_dpdd(
        Path(options.root),
        options.split,
        dual=options.dual,
        bits=options.bits,
        skip_bad=options.skip_bad,
        smallest=options.smallest,
    )


def _folders(options: DataOptions, split: str | None = None) -> Pairs:
    return open_folders(
        Path(options.root),
        None if options.sharp is None else Path(options.sharp),
        bits=options.bits,
        skip_bad=options.skip_bad,
        smallest=options.smallest,
        split=split,
    )


_OPENERS: dict[str, Callable[[DataOptions], Pairs]] = {
    "dpdd": _dpdd,
    "pairs": _folders,
}
