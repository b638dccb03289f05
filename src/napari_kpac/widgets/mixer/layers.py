"""The layers of the mixer: the image that is mixed, painted labels, alpha maps, the result.

Not for: the controls (controls.py), or running the network (renderer.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image, Labels
from napari.viewer import Viewer

from napari_kpac.core.errors import ImageError, RecipeError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.widgets.layers import (
    METADATA,
    Region,
    ResultLayers,
    find_layer,
    full_resolution,
    image_size,
    moved,
    placement,
)
from napari_kpac.widgets.mixer.state import MAX_GAIN, MixerState
from napari_kpac.widgets.mixer.strip import ALPHA_COLORMAP

PAINT_OPACITY = 0.35
"""Of a layer to paint in: what the paint does to the image is to be seen through it."""


class LayerPlane:
    """A plane of a layer's data, read when and where it is wanted.

    What NumPy holds is read every time, for anybody may write to it; from elsewhere (a disk, a
    network) once.
    """

    def __init__(self, data: Any, index: tuple[int, ...], is_image: bool) -> None:
        self._data = data
        self._index = index
        self._is_image = is_image
        self._kept: npt.NDArray[Any] | None = None

    @property
    def is_stack(self) -> bool:
        """Whether the data have more than this plane."""
        return bool(math.prod(self._data.shape[:-2]) > 1)

    def read(self) -> npt.NDArray[Any]:
        """Return the pixels."""
        if isinstance(self._data, np.ndarray):
            return np.array(self._data[self._index])
        if self._kept is None:
            self._kept = np.asarray(self._data[self._index])
        return self._kept

    def stack(self) -> Any:
        """Return the data of all planes: a copy of what is in memory, else what reads them."""
        return np.array(self._data) if isinstance(self._data, np.ndarray) else self._data

    def read_unit(self) -> npt.NDArray[np.float64]:
        """Return the pixels in 0..1: integers of an image as a share of their type's range."""
        values = self.read()
        white = np.iinfo(values.dtype).max if self._is_image and values.dtype.kind in "ui" else 1
        return np.clip(values.astype(np.float64) / white, 0, 1)


@dataclass(frozen=True, eq=False)
class ImageSlice:
    """The image that is mixed: a layer, and the index of one of its slices."""

    viewer: Viewer
    source: Image
    index: tuple[int, ...]
    options: DeblurOptions

    @property
    def model(self) -> str:
        """The name of the network."""
        return self.options.model

    @property
    def lead(self) -> tuple[None, ...]:
        """For giving an image the leading axes of its layer."""
        return (np.newaxis,) * len(self.index)

    def where(self, corner: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        """Return the placement of the slice, or of a part of it with this first pixel."""
        return moved(self.source, (*self.index, *corner))

    @property
    def is_stack(self) -> bool:
        """Whether there are other slices."""
        return bool(math.prod(full_resolution(self.source).shape[: len(self.index)]) > 1)

    def plane(self, layer: Any, what: str) -> LayerPlane:
        """Return the slice on display of a layer, which must be of the image's size.

        No pixel is read.
        """
        data = full_resolution(layer)
        leading, size = tuple(data.shape[:-2]), tuple(data.shape[-2:])
        own = full_resolution(self.source).shape[: len(self.index)]
        fits = not leading or (
            len(leading) == len(own)
            and all(n in (1, whole) for n, whole in zip(leading, own, strict=True))
        )
        wanted = image_size(self.source)
        if size != wanted or not fits:
            raise ImageError(
                f"the {what} layer “{layer.name}” has {tuple(data.shape)} pixels, the image "
                f"{(*own, *wanted)}: choose one of the same size"
            )
        index = (0 if n == 1 else place for n, place in zip(leading, self.index, strict=False))
        return LayerPlane(data, tuple(index), bool(type(layer) is Image))

    def mix(
        self, state: MixerState, labels: LayerPlane | None, *, whole: bool = False
    ) -> Callable[[], Any]:
        """Return what makes the engine's modulation of settings, in whatever thread calls it.

        Layers are looked at now, and their pixels read then. With ``whole`` it is that of the
        whole stack, each plane with labels of its own where the layer has them.
        """
        maps: dict[tuple[int, int], LayerPlane | float] = {}
        for key, source in state.override.items():
            layer = None if isinstance(source, float) else find_layer(self.viewer, source)
            if isinstance(source, float):
                maps[key] = source
            elif layer is not None:
                maps[key] = self.plane(layer, "map")
        if whole and any(isinstance(each, LayerPlane) and each.is_stack for each in maps.values()):
            raise ImageError(
                "an alpha is replaced by a layer with several slices, and a mix of all slices "
                "takes one map for all of them: replace it by a layer of one image"
            )

        def make() -> Any:
            painted = None
            if labels is not None and state.labels:
                painted = labels.stack() if whole else labels.read()
            values = {
                key: each if isinstance(each, float) else each.read_unit()
                for key, each in maps.items()
            }
            return state.modulation(painted, values)

        return make

    def add_labels(self) -> Labels:
        """Add a labels layer of the image's size, ready to be painted in."""
        size = image_size(self.source)
        data = np.zeros(size, np.uint8)[self.lead]
        name = f"{self.source.name} (paint)"
        layer = self.viewer.add_labels(data, name=name, **self.where())
        layer.mode = "paint"
        layer.brush_size = max(10, min(size) // 12)
        layer.opacity = PAINT_OPACITY
        return layer

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
            label_strength=dict(modulation.label_strength),
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
        self.is_to_be_raised = False
        """Whether the next result goes above all that would hide it."""

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
        if key != self._key or self.is_to_be_raised:
            self._layers.raise_above(image.source, key)
            self._key, self.is_to_be_raised = key, False

    def show_stack(self, image: ImageSlice, pixels: Any, record: Any) -> Any:
        """Put the result of all slices below the slice that is being mixed; returns the layer."""
        source = image.source
        layer = self._layers.put(
            ("mixer, all slices", source.unique_id, image.model), pixels, placement(source),
            name=f"{source.name} (mixer, all slices)", beside=source, record=record,
        )  # fmt: skip
        self._layers.raise_above(source, self._key)
        return layer

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
