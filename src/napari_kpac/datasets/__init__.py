"""Pairs of blurred and sharp pictures: DPDD, folders, made from photographs; masks of blur.

Loads nothing heavy before it is used. Not for: the optics of blur (optics), or training with
the pairs (training).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.datasets.augmentation import augment as augment
    from napari_kpac.datasets.cuhk import MaskedPicture as MaskedPicture
    from napari_kpac.datasets.cuhk import MaskedPictures as MaskedPictures
    from napari_kpac.datasets.cuhk import open_cuhk as open_cuhk
    from napari_kpac.datasets.dpdd import open_dpdd as open_dpdd
    from napari_kpac.datasets.folders import open_folders as open_folders
    from napari_kpac.datasets.opening import open_masked as open_masked
    from napari_kpac.datasets.opening import open_pairs as open_pairs
    from napari_kpac.datasets.options import Augmentation as Augmentation
    from napari_kpac.datasets.options import DataOptions as DataOptions
    from napari_kpac.datasets.options import SynthesisOptions as SynthesisOptions
    from napari_kpac.datasets.pair import Pair as Pair
    from napari_kpac.datasets.pair import Pairs as Pairs
    from napari_kpac.datasets.pair_files import FilePairs as FilePairs
    from napari_kpac.datasets.radius_files import read_radius as read_radius
    from napari_kpac.datasets.synthesis import Synthesis as Synthesis
    from napari_kpac.datasets.synthesis import synthesise as synthesise

_HOMES = {
    "Augmentation": "options",
    "DataOptions": "options",
    "FilePairs": "pair_files",
    "MaskedPicture": "cuhk",
    "MaskedPictures": "cuhk",
    "Pair": "pair",
    "Pairs": "pair",
    "Synthesis": "synthesis",
    "SynthesisOptions": "options",
    "augment": "augmentation",
    "open_cuhk": "cuhk",
    "open_dpdd": "dpdd",
    "open_folders": "folders",
    "open_masked": "opening",
    "open_pairs": "opening",
    "read_radius": "radius_files",
    "synthesise": "synthesis",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
