"""The attention mixer: one strip per dilation, and the image follows.

Not for: rendering (engine.Session).
"""

from napari_kpac.widgets.mixer.widget import MixerWidget

__all__ = ["MixerWidget"]
