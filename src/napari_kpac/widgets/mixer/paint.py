"""What is painted: the labels layer that is chosen, and its slice on display.

Not for: what a label does to the image (state.py), or making such a layer (layers.py).
"""

from __future__ import annotations

from collections.abc import Callable

from napari.layers import Labels

from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.mixer.layers import ImageSlice, LayerPlane

EVENTS = ("paint", "data", "labels_update")
"""Of a labels layer, after which its pixels may be others."""


class Paint:
    """Follows the labels layer of a box, and says when it was painted in."""

    def __init__(self, box: LayerBox, painted: Callable[[], None]) -> None:
        self._box = box
        self._painted = painted
        self._layer: Labels | None = None
        self._plane: LayerPlane | None = None
        """What is painted, as far as it is known; None once it has changed."""

    def follow_box(self) -> bool:
        """Follow the layer that is chosen by now; returns whether there is one."""
        for layer, change in ((self._layer, "disconnect"), (self._box.layer, "connect")):
            if layer is not None:
                for name in EVENTS:
                    getattr(getattr(layer.events, name), change)(self._follow)
        self._layer = self._box.layer
        self.forget()
        return self._layer is not None

    def forget(self) -> None:
        """Look at the layer again when its slice is asked for."""
        self._plane = None

    def plane(self, image: ImageSlice) -> LayerPlane | None:
        """Return the slice on display of the layer, None where nothing is chosen."""
        layer = self._box.layer
        if self._plane is None and layer is not None:
            self._plane = image.plane(layer, "labels")
        return self._plane

    def _follow(self) -> None:
        self.forget()
        self._painted()
