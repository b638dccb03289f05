"""Training: options and presets, batches, the loop, and what a run keeps.

Loads nothing heavy before it is used. Not for: data (datasets), or scores for papers (evaluation).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.training.loop import Trained as Trained
    from napari_kpac.training.loop import TrainProgress as TrainProgress
    from napari_kpac.training.loop import read_trained as read_trained
    from napari_kpac.training.loop import resume as resume
    from napari_kpac.training.loop import train as train
    from napari_kpac.training.options import PRESETS as PRESETS
    from napari_kpac.training.options import TrainOptions as TrainOptions
    from napari_kpac.training.options import preset as preset

_HOMES = {
    "PRESETS": "options",
    "TrainOptions": "options",
    "TrainProgress": "loop",
    "Trained": "loop",
    "preset": "options",
    "read_trained": "loop",
    "resume": "loop",
    "train": "loop",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
