"""The layers of the mixer: the image that is mixed, painted labels, alpha maps, the result.

Not for: the controls (controls.py), or running the network (renderer.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.viewer import Viewer

from napari_kpac.core.errors import ImageError, RecipeError
from napari_kpac.widgets.layers import (
    METADATA,
    Region,
    ResultLayers,
    find_layer,
    full_resolution,
    image_size,
    moved,
)
from napari_kpac.widgets.mixer.state import MAX_GAIN, MixerState
from napari_kpac.widgets.mixer.strip import ALPHA_COLORMAP


@dataclass(frozen=True, eq=False)
class ImageSlice:
    """The image that is mixed: a layer, and the index of one of its slices."""

    viewer: Viewer
    source: Image
    index: tuple[int, ...]
    model: str

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
                is_integer_image = type(layer) is Image and values.dtype.kind in "ui"
                white = np.iinfo(values.dtype).max if is_integer_image else 1
                found[key] = np.clip(values.astype(np.float64) / white, 0, 1)
        return found

    def load(self, modulation: Any, shape: tuple[int, int]) -> tuple[MixerState, Labels | None]:
        """Turn a recipe's modulation into settings and a layer of its labels, if it has any.

        Replaced alpha maps come as layers, too.
        """

        def rows(gains: Any) -> Any:
            values = np.broadcast_to(1.0 if gains is None else np.asarray(gains, float), shape)
            if values.max() > MAX_GAIN or values.min() < 0:
                raise RecipeError(f"the recipe has gains outside 0..{MAX_GAIN:g}")
            return tuple(map(tuple, values.tolist()))

        state = replace(
            MixerState.neutral(*shape),
            gains=rows(modulation.gains),
            strength=float(modulation.strength),
            label_gains={label: rows(gains) for label, gains in modulation.label_gains.items()},
            override={
                key: self._add_loaded(value, key) if np.ndim(value) else float(value)
                for key, value in modulation.override.items()
            },
        )
        if modulation.labels is None:
            return state, None
        labels = np.asarray(modulation.labels)[self.lead]
        name = "labels of the recipe"
        return state, self.viewer.add_labels(labels, name=name, **self.where())

    def _add_loaded(self, value: Any, key: tuple[int, int]) -> Any:
        layer = self.viewer.add_image(
            np.asarray(value, np.float32)[self.lead],
            name=f"α{key[1]} of block {key[0]} (loaded)",
            contrast_limits=(0, 1), visible=False, metadata={METADATA: "map"}, **self.where(),
        )  # fmt: skip
        return layer.unique_id


class ResultLayer:
    """Puts results of the mixer beside their images: one layer per image and model."""

    def __init__(self, viewer: Viewer) -> None:
        self._layers = ResultLayers(viewer)
        self.whole: Any = None
        """The last exact result of a whole image."""
        self._image: ImageSlice | None = None
        """The image that it was made of."""
        self.region: Region | None = None
        """(top, bottom, left, right) of the part on show; None: the whole image."""
        self._key: Any = None

    @property
    def layer(self) -> Any:
        """The layer of the last result, None where there is none (any more)."""
        return self._layers.find(self._key)

    def show(self, image: ImageSlice, result: Any) -> None:
        """Show a result: whole, of a region, or a draft of either."""
        if result.region is None and not result.draft:
            self.whole, self._image = result, image
        self.region = result.region
        top, _, left, _ = result.region or (0, 0, 0, 0)
        key = ("mixer", image.source.unique_id, image.model)
        self._layers.put(
            key, result.image[image.lead], image.where((top, left)),
            name=f"{image.source.name} (mixer)", beside=image.source,
            # A draft has no recipe, for it cannot be made again.
            record=None if result.draft else result.recipe.to_dict(),
        )  # fmt: skip
        if key != self._key:
            self._layers.raise_above(image.source, key)
            self._key = key

    def add_map(self, block: int, index: int) -> None:
        """Add alpha of a block and dilation as a layer, or update the one there is."""
        image, result = self._image, self.whole
        if image is None:
            return
        step = (1,) * len(image.index) + (result.scale, result.scale)
        self._layers.put(
            ("alpha", image.source.unique_id, image.model, block, index),
            result.alpha[block, index][image.lead],
            moved(image.source, (*image.index, *result.offset), step),
            name=f"α{index + 1} of block {block + 1}", record="attention",
            colormap=ALPHA_COLORMAP, contrast_limits=(0, 1), opacity=0.6, interpolation2d="linear",
        )  # fmt: skip

    def complete(self) -> None:
        """Show the last whole image again where only a part or a draft is on show."""
        layer = self.layer
        if layer is not None and self._image is not None:
            if layer.metadata.get(METADATA) is None or self.region is not None:
                self.show(self._image, self.whole)
