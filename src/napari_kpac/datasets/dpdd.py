"""DPDD, the dual-pixel defocus deblurring dataset, in the folders it is published in.

Not for: writing pairs in those folders (synthesis).
"""

from __future__ import annotations

from pathlib import Path

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.datasets.matching import Faults, find_images, match, match_stems
from napari_kpac.datasets.options import SPLITS
from napari_kpac.datasets.pairs import FilePairs, PairFiles
from napari_kpac.images import list_images
from napari_kpac.optics.pixels import MIN_SIDE_PX


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
    if split not in SPLITS:
        raise ConfigError(f"no split is called {split!r}; choose one of {', '.join(SPLITS)}")
    centre = root / f"{split}_c"
    if not centre.is_dir():
        there = [name for name in SPLITS if (root / f"{name}_c").is_dir()]
        raise FileError(
            f"there is no folder {centre}; {root} holds "
            + (f"the splits {', '.join(there)}" if there else "no split of DPDD")
        )
    faults = Faults()
    sources = find_images(centre / "source")
    sharp = match(sources, find_images(centre / "target"), faults)
    views = [
        match(sources, find_images(root / f"{split}_{side}" / "source"), faults)
        for side in ("lr" if dual else "")
    ]
    radius = {}
    if (maps := centre / "radius").is_dir():
        radius = match_stems(sources, list_images(maps), faults, maps)
    files = [
        PairFiles(
            path,
            sharp[path],
            (views[0][path], views[1][path]) if dual else None,
            radius.get(path),
        )
        for path in sources
        if str(path) not in faults.found
    ]
    return FilePairs(files, faults, dual=dual, bits=bits, skip_bad=skip_bad, smallest=smallest)
