"""What the folders of datasets are called, and which kind of dataset lies in a folder.

Loads nothing heavy, so that a window can ask. Not for: opening a dataset (folders).
"""

from __future__ import annotations

from pathlib import Path

from napari_kpac.datasets.options import SPLITS, DataKind

FOLDERS = (("source", "target"), ("blurred", "sharp"), ("blur", "sharp"), ("input", "target"))
"""What the two folders of pairs may be called where only the folder above them is given."""
IMAGES, MASKS = "image", "gt"
"""Folders of CUHK."""


def recognise(root: Path) -> DataKind | None:
    """Return what kind of dataset a folder holds, by the folders in it; None if they do not tell.

    What ``napari-kpac synthesise`` wrote has the folders of DPDD.
    """
    if splits_of(root):
        return "dpdd"
    if folders_of_pairs(root):
        return "pairs"
    return "cuhk" if all((root / name).is_dir() for name in (IMAGES, MASKS)) else None


def splits_of(root: Path) -> list[str]:
    """Return the splits of DPDD that a folder holds."""
    return [split for split in SPLITS if (root / f"{split}_c").is_dir()]


def folders_of_pairs(root: Path) -> list[tuple[Path, Path]]:
    """Return the folders of blurred and of sharp images that a folder holds."""
    both = [(root / one, root / other) for one, other in FOLDERS]
    return [pair for pair in both if all(folder.is_dir() for folder in pair)]
