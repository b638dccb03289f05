"""Plain pairs: a folder of blurred pictures and one of sharp pictures.

Not for: dual-pixel views (dpdd).
"""

from __future__ import annotations

from pathlib import Path

from napari_kpac.core.errors import FileError
from napari_kpac.datasets.faults import Faults
from napari_kpac.datasets.matching import find_pictures, match
from napari_kpac.datasets.pair_files import FilePairs, PairFiles
from napari_kpac.datasets.photos import choose_split
from napari_kpac.optics.pixels import SMALLEST

NAMES = (("source", "target"), ("blurred", "sharp"), ("blur", "sharp"), ("input", "target"))
"""What the two folders may be called where only the folder above them is given."""


def open_folders(
    blurred: Path,
    sharp: Path | None = None,
    *,
    bits: int = 8,
    skip_bad: bool = False,
    smallest: int = SMALLEST,
    split: str | None = None,
) -> FilePairs:
    """Open pairs in two folders, matched by their names, or else by their order.

    Parameters
    ----------
    blurred
        Folder of the blurred pictures; without ``sharp``, the folder that holds both folders,
        called ``source`` and ``target``, ``blurred`` or ``blur`` and ``sharp``, or ``input``
        and ``target``.
    sharp
        Folder of the sharp pictures.
    bits
        8 rounds deeper pictures to 8 bits; 16 takes them as they are.
    skip_bad
        Go on without pairs that cannot be used; they are in ``skipped``.
    smallest
        Side in pixels that every picture must have at least.
    split
        Open only the pairs whose blurred pictures are of this split, by a ``MANIFEST.csv`` in
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
    pictures = find_pictures(blurred)
    matched = match(pictures, find_pictures(sharp), faults)
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
