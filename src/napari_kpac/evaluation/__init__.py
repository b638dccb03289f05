"""How good, how large, how fast: models and methods compared, the paper's tables beside ours.

Loads nothing heavy before it is used. Not for: training, or images themselves (engine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.evaluation.counts import CountRow as CountRow
    from napari_kpac.evaluation.counts import flops_tables as flops_tables
    from napari_kpac.evaluation.counts import parameter_tables as parameter_tables
    from napari_kpac.evaluation.evaluating import Evaluation as Evaluation
    from napari_kpac.evaluation.evaluating import evaluate as evaluate
    from napari_kpac.evaluation.inverse_kernels import Figure as Figure
    from napari_kpac.evaluation.inverse_kernels import (
        inverse_kernel_figures as inverse_kernel_figures,
    )
    from napari_kpac.evaluation.options import EvaluateOptions as EvaluateOptions

_HOMES = {
    "CountRow": "counts",
    "EvaluateOptions": "options",
    "Evaluation": "evaluating",
    "Figure": "inverse_kernels",
    "evaluate": "evaluating",
    "flops_tables": "counts",
    "inverse_kernel_figures": "inverse_kernels",
    "parameter_tables": "counts",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
