"""The Evaluate widget: models and methods compared on a dataset, in tables that sort.

Not for: measuring (evaluation).
"""

from napari_kpac.widgets.evaluate.widget import EvaluateWidget

__all__ = ["EvaluateWidget"]
