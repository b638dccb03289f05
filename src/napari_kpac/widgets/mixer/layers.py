"""The layers of the mixer: what is mixed, what is painted, and what is shown.

Not for: the strips (strips.py), or running the network (live.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.viewer import Viewer
from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]

from napari_kpac.core.errors import ImageError, RecipeError
from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.mixer.state import MOST_GAIN, MixerState
from napari_kpac.widgets.mixer.strip import COLOURS
from napari_kpac.widgets.placement import (
    METADATA,
    find_layer,
    full_resolution,
    image_size,
    moved,
)


class Materials:
    """One image of a viewer: a layer, and the index of the slice that is mixed."""

    def __init__(self, viewer: Viewer, source: Image, index: tuple[int, ...]) -> None:
        self.viewer = viewer
        self.source = source
        self.index = index

    @property
    def lead(self) -> tuple[None, ...]:
        """For giving an image the leading axes of its layer."""
        return (np.newaxis,) * len(self.index)

    def where(self, corner: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        """Return the placement of the slice, or of a part of it with this first pixel."""
        return moved(self.source, (*self.index, *corner))

    def plane(self, layer: Any, what: str) -> npt.NDArray[Any]:
        """Return the slice on display of a layer, which must be of the image's size."""
        data = np.asarray(full_resolution(layer))
        index = tuple(0 if data.shape[i] == 1 else n for i, n in enumerate(self.index))
        plane = data[index] if data.ndim > 2 else data
        wanted = image_size(self.source)
        if plane.shape != wanted:
            raise ImageError(
                f"the {what} layer “{layer.name}” has {plane.shape} pixels, the image "
                f"{wanted}: choose one of the same size"
            )
        return plane

    def add_labels(self) -> Labels:
        """Add a labels layer of the image's size, ready to be painted in."""
        size = image_size(self.source)
        data = np.zeros(size, np.uint8)[self.lead]
        name = f"{self.source.name} (paint)"
        layer = self.viewer.add_labels(data, name=name, **self.where())
        layer.mode = "paint"
        layer.brush_size = max(10, min(size) // 12)
        return layer

    def add_map(self, result: Any, block: int, index: int) -> None:
        """Add alpha of a block and dilation as a layer, or update the one there is."""
        values = result.alpha[block, index][self.lead]
        name = f"α{index + 1} of block {block + 1}"
        for layer in self.viewer.layers:
            if layer.name == name and layer.metadata.get(METADATA) == "attention":
                layer.data = values
                return
        step = (1,) * len(self.index) + (result.scale, result.scale)
        self.viewer.add_image(
            values, name=name, colormap=COLOURS, contrast_limits=(0, 1), opacity=0.6,
            interpolation2d="linear", metadata={METADATA: "attention"},
            **moved(self.source, (*self.index, *result.offset), step),
        )  # fmt: skip

    def override_maps(self, override: Mapping[tuple[int, int], Any]) -> dict[tuple[int, int], Any]:
        """Return the values of layers that stand in for alphas, in 0..1."""
        found: dict[tuple[int, int], Any] = {}
        for key, source in override.items():
            if isinstance(source, float):
                found[key] = source
                continue
            layer = find_layer(self.viewer, source)
            if layer is not None:
                values = self.plane(layer, "map")
                whole = np.iinfo(values.dtype).max if type(layer) is Image and (
                    values.dtype.kind in "ui"
                ) else 1  # fmt: skip
                found[key] = np.clip(values.astype(np.float64) / whole, 0, 1)
        return found

    def state_of(self, modulation: Any, shape: tuple[int, int]) -> MixerState:
        """Turn a recipe's modulation into settings; replaced alpha maps come as layers."""

        def rows(gains: Any) -> Any:
            values = np.broadcast_to(1.0 if gains is None else np.asarray(gains, float), shape)
            if values.max() > MOST_GAIN or values.min() < 0:
                raise RecipeError(f"the recipe has gains outside 0..{MOST_GAIN:g}")
            return tuple(map(tuple, values.tolist()))

        override = {
            key: float(value) if not np.ndim(value) else self._add_loaded(value, key)
            for key, value in modulation.override.items()
        }
        return replace(
            MixerState.neutral(*shape),
            gains=rows(modulation.gains),
            strength=float(modulation.strength),
            label_gains={label: rows(gains) for label, gains in modulation.label_gains.items()},
            override=override,
        )

    def add_recipe_labels(self, labels: Any) -> Labels:
        """Add the labels of a recipe as a layer."""
        return self.viewer.add_labels(
            np.asarray(labels)[self.lead], name="labels of the recipe", **self.where()
        )

    def _add_loaded(self, value: Any, key: tuple[int, int]) -> Any:
        layer = self.viewer.add_image(
            np.asarray(value, np.float32)[self.lead],
            name=f"α{key[1]} of block {key[0]} (loaded)",
            contrast_limits=(0, 1), visible=False, **self.where(),
        )  # fmt: skip
        return layer.unique_id


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


class Shown:
    """Puts results of the mixer into one layer beside their image."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._material: Materials | None = None
        self._whole: Any = None
        self.unique_id: Any = None
        """Of the layer."""
        self.region: tuple[int, int, int, int] | None = None
        """(top, bottom, left, right) of the part on show; None: the whole image."""

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
        """Show the last whole image again where only a part or a draft is on show."""
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
    smaller of the two images is in the layer.
    """
    growing = np.size(image) > np.size(layer.data)
    if not growing:
        layer.data = image
    if not np.array_equal(layer.translate, translate):
        layer.translate = translate
    if growing:
        layer.data = image
