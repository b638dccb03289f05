"""Pairs of blurred and sharp images: DPDD, folders, made from photographs; masks of blur.

Loads nothing heavy before it is used. Not for: the optics of blur (optics), or training with
the pairs (training).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.datasets.augmentation import augment as augment
    from napari_kpac.datasets.cuhk import MaskedImage as MaskedImage
    from napari_kpac.datasets.cuhk import MaskedImages as MaskedImages
    from napari_kpac.datasets.cuhk import open_cuhk as open_cuhk
    from napari_kpac.datasets.dpdd import open_dpdd as open_dpdd
    from napari_kpac.datasets.folders import open_folders as open_folders
    from napari_kpac.datasets.folders import open_masked as open_masked
    from napari_kpac.datasets.folders import open_pairs as open_pairs
    from napari_kpac.datasets.options import Augmentation as Augmentation
    from napari_kpac.datasets.options import DataOptions as DataOptions
    from napari_kpac.datasets.options import SynthesisOptions as SynthesisOptions
    from napari_kpac.datasets.pairs import FilePairs as FilePairs
    from napari_kpac.datasets.pairs import Pair as Pair
    from napari_kpac.datasets.pairs import Pairs as Pairs
    from napari_kpac.datasets.pairs import read_radius as read_radius
    from napari_kpac.datasets.synthesis import Synthesis as Synthesis
    from napari_kpac.datasets.synthesis import synthesise as synthesise

_HOMES = {
    "Augmentation": "options",
    "DataOptions": "options",
    "FilePairs": "pairs",
    "MaskedImage": "cuhk",
    "MaskedImages": "cuhk",
    "Pair": "pairs",
    "Pairs": "pairs",
    "Synthesis": "synthesis",
    "SynthesisOptions": "options",
    "augment": "augmentation",
    "open_cuhk": "cuhk",
    "open_dpdd": "dpdd",
    "open_folders": "folders",
    "open_masked": "folders",
    "open_pairs": "folders",
    "read_radius": "pairs",
    "synthesise": "synthesis",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
