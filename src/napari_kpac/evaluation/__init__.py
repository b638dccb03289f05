"""How good and how fast: models and methods compared.

Loads nothing heavy before it is used. Not for: training, or images themselves (engine).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.evaluation.evaluating import Evaluation as Evaluation
    from napari_kpac.evaluation.evaluating import evaluate as evaluate
    from napari_kpac.evaluation.options import EvaluateOptions as EvaluateOptions

_HOMES = {
    "EvaluateOptions": "options",
    "Evaluation": "evaluating",
    "evaluate": "evaluating",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
