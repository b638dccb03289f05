"""The layer in which the mixer shows its picture: always of one setting, whole or a part.

While only what is on screen has been rendered, the layer is that part and no more: pixels of
an older setting never stand beside it, and no more than it goes to the graphics card.

Not for: when to render (widget.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from napari.layers import Image
from napari.viewer import Viewer

from napari_kpac.widgets.mixer.materials import Materials
from napari_kpac.widgets.placement import METADATA, find_layer


class Shown:
    """Puts results of the mixer into one layer beside their picture."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._material: Materials | None = None
        self._whole: Any = None
        self.unique_id: Any = None
        """Of the layer."""
        self.region: tuple[int, int, int, int] | None = None
        """(top, bottom, left, right) of the part on show; None: the whole picture."""

    @property
    def layer(self) -> Any:
        """The layer, None where there is none (any more)."""
        return None if self.unique_id is None else find_layer(self._viewer, self.unique_id)

    def show(self, material: Materials, result: Any) -> None:
        """Show a result: whole, of a region, or a draft of either."""
        layer = self.layer
        if result.region is None and not result.draft:
            self._material, self._whole = material, result
        if layer is not None and (layer.ndim, layer.rgb) != (
            material.source.ndim,
            material.source.rgb,
        ):
            self._viewer.layers.remove(layer)
            layer = None
        self.region = result.region
        image = result.image[material.lead]
        top, _, left, _ = result.region or (0, 0, 0, 0)
        where = material.where((top, left))
        if layer is None:
            self._add(material, image, where)
        else:
            _replace(layer, image, where["translate"])
        self._note(result)

    def complete(self) -> None:
        """Show the last whole picture again where only a part or a draft is on show."""
        layer, whole = self.layer, self._whole
        if layer is not None and whole is not None and self._material is not None:
            if layer.metadata.get(METADATA) is None or self.region is not None:
                self.show(self._material, whole)

    def _add(self, material: Materials, image: Any, where: dict[str, Any]) -> None:
        source = material.source
        layer = Image(
            image, name=f"{source.name} (mixer)", rgb=source.rgb, colormap=source.colormap,
            gamma=source.gamma, **where,
        )  # fmt: skip
        if not source.rgb:
            layer.contrast_limits = source.contrast_limits
        self._viewer.layers.insert(self._viewer.layers.index(source) + 1, layer)
        self.unique_id = layer.unique_id
        self._viewer.layers.selection.active = source

    def _note(self, result: Any) -> None:
        """Keep the recipe with the pixels; a draft has none, for it cannot be made again."""
        layer = self.layer
        others = {key: value for key, value in layer.metadata.items() if key != METADATA}
        own = {} if result.draft else {METADATA: result.recipe.to_dict()}
        layer.metadata = {**others, **own}


def _replace(layer: Any, image: Any, translate: Any) -> None:
    """Give a layer other pixels at another place.

    Each of the two sends the layer's pixels to the screen; so the place is changed while the
    smaller of the two pictures is in the layer.
    """
    growing = np.size(image) > np.size(layer.data)
    if not growing:
        layer.data = image
    if not np.array_equal(layer.translate, translate):
        layer.translate = translate
    if growing:
        layer.data = image
