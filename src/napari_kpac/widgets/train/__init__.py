"""The Train widget: data in, a model in every list out.

Not for: the training itself (training).
"""

from napari_kpac.widgets.train.widget import TrainWidget

__all__ = ["TrainWidget"]
