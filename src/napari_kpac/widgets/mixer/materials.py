"""Layers as material for the mixer: painted labels, alpha maps, and their recipes.

Not for: settings (state.py) or controls (desk.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.viewer import Viewer

from napari_kpac.core.errors import ImageError, RecipeError
from napari_kpac.widgets.mixer.state import MOST_GAIN, MixerState
from napari_kpac.widgets.mixer.strip import COLOURS
from napari_kpac.widgets.placement import (
    METADATA,
    find_layer,
    full_resolution,
    moved,
    picture_size,
)


class Materials:
    """One picture of a viewer: a layer, and the index of the slice that is mixed."""

    def __init__(self, viewer: Viewer, source: Image, index: tuple[int, ...]) -> None:
        self.viewer = viewer
        self.source = source
        self.index = index

    @property
    def lead(self) -> tuple[None, ...]:
        """For giving a picture the leading axes of its layer."""
        return (np.newaxis,) * len(self.index)

    def where(self, corner: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        """Return the placement of the slice, or of a part of it with this first pixel."""
        return moved(self.source, (*self.index, *corner))

    def plane(self, layer: Any, what: str) -> npt.NDArray[Any]:
        """Return the slice on display of a layer, which must be of the picture's size."""
        data = np.asarray(full_resolution(layer))
        index = tuple(0 if data.shape[i] == 1 else n for i, n in enumerate(self.index))
        plane = data[index] if data.ndim > 2 else data
        wanted = picture_size(self.source)
        if plane.shape != wanted:
            raise ImageError(
                f"the {what} layer “{layer.name}” has {plane.shape} pixels, the picture "
                f"{wanted}: choose one of the same size"
            )
        return plane

    def add_labels(self) -> Labels:
        """Add a labels layer of the picture's size, ready to be painted in."""
        size = picture_size(self.source)
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
