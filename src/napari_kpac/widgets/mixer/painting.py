"""The labels layer that a person paints in to steer: which it is, and when it changed.

Not for: what the labels do (state.py), or their pixels (materials.py).
"""

from __future__ import annotations

from typing import Any

from napari.layers import Labels
from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]

from napari_kpac.widgets.choices import LayerBox

CHANGES = ("paint", "data", "labels_update")
"""Events of a labels layer after which its pixels may be others."""


class Painting(QObject):
    """Follows the layer that is chosen in a box."""

    chosen = Signal()
    """Another layer, or none."""
    painted = Signal()

    def __init__(self, box: LayerBox) -> None:
        super().__init__()
        self._box = box
        self._followed: Labels | None = None
        box.changed.connect(self._follow)

    @property
    def layer(self) -> Any:
        """The layer, None where none is chosen."""
        return self._box.layer

    def forget(self, layer: Any) -> None:
        """Stop following a layer that is gone."""
        if layer is self._followed:
            self._followed = None

    def _follow(self) -> None:
        for layer, change in ((self._followed, "disconnect"), (self.layer, "connect")):
            if layer is not None:
                for name in CHANGES:
                    getattr(getattr(layer.events, name), change)(self._tell)
        self._followed = self.layer
        self.chosen.emit()

    def _tell(self, event: object = None) -> None:
        del event
        self.painted.emit()
