"""Where layers lie, and the layers that widgets make of others.

:func:`placement` and :func:`moved` return the scale, translation, units ... that put a result
where its source lies. A widget keeps the layers that it makes in one :class:`ResultLayers`::

    self._results = ResultLayers(viewer)
    layer = self._results.put(
        ("deblurred", source.unique_id, model), pixels, placement(source),
        name=f"{source.name} (deblurred)", beside=source, record=recipe,
    )

The same key again gives the same layer new pixels and a new place. There is a new one if the user
has removed it, if the user has renamed it (then it is the user's, and stays), or if it cannot hold
the pixels (colour, number of axes).

Not for: pixels.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from napari.layers import Image, Layer
from napari.viewer import Viewer

METADATA = "napari_kpac"
"""Key in the metadata of every layer that we made; its recipe stands there, or what it is."""
SPLIT = "split"
"""What the metadata of such a layer say, and its name."""
Region = tuple[int, int, int, int]
"""(top, bottom, left, right) of a part of an image, in pixels."""
Part = tuple[slice, ...]
"""Index of the pixels of an image that a result covers; empty for all of them."""


def placement(layer: Layer) -> dict[str, Any]:
    """Return what must be given to a new layer so that it lies where this one does."""
    names = ("scale", "translate", "rotate", "shear", "units", "axis_labels")
    return {name: getattr(layer, name) for name in names} | {"affine": layer.affine.affine_matrix}


def moved(
    layer: Layer, offset: Sequence[float], step: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return the placement of a part of a layer.

    ``offset`` is the position of the part's first pixel in pixels of the layer, ``step`` the
    size of one of its pixels in pixels of the layer (default 1).
    """
    found = placement(layer)
    origin = np.asarray(layer.data_to_world(np.zeros(layer.ndim)))
    shift = np.asarray(layer.data_to_world(np.asarray(offset, dtype=float))) - origin
    # The layer's own affine acts after its translation, so the shift is taken back through it.
    found["translate"] = layer.translate + np.linalg.solve(layer.affine.linear_matrix, shift)
    if step is not None:
        found["scale"] = layer.scale * np.asarray(step, dtype=float)
    return found


def find_layer(viewer: Viewer, unique_id: Any) -> Layer | None:
    """Find a layer again, however it is called by now."""
    return next((layer for layer in viewer.layers if layer.unique_id == unique_id), None)


def is_split(layer: Layer) -> bool:
    """Return True if the layer is the right part of a result that is compared with its input."""
    return isinstance(kind := layer.metadata.get(METADATA), str) and kind == SPLIT


def is_ours(layer: Layer) -> bool:
    """Return True if we made the layer: a result, a map, the truth of a sample."""
    return METADATA in layer.metadata


class ResultLayers:
    """The layers that a widget made, by keys of its own."""

    def __init__(self, viewer: Viewer) -> None:
        self._viewer = viewer
        self._made: dict[Hashable, tuple[Any, str]] = {}
        """The unique id and the name that a layer was given."""
        self._ids: set[Any] = set()
        """Of all layers that were made, also those that are the user's by now."""
        self._contrast: dict[Hashable, Any] = {}
        """The contrast limits of the source when the layer took them over."""

    def find(self, key: Hashable) -> Any:
        """Return the layer of a key, None where there is none (any more).

        A layer that was renamed is the user's: it is not found.
        """
        unique_id, name = self._made.get(key, (None, ""))
        layer = find_layer(self._viewer, unique_id)
        return layer if layer is not None and layer.name == name else None

    def raise_above(self, source: Image, key: Hashable) -> None:
        """Put the layer of a key above its source and all images that would hide it."""
        layers, layer = self._viewer.layers, self.find(key)
        if layer is not None and layers.index(layer) < (top := self._top(source, layer)) - 1:
            layers.move(layers.index(layer), top)

    def remove(self, key: Hashable) -> None:
        """Remove the layer of a key, if there is one."""
        layer = self.find(key)
        if layer is not None:
            self._viewer.layers.remove(layer)

    def put(
        self,
        key: Hashable,
        data: Any,
        where: Mapping[str, Any],
        *,
        name: str,
        record: Any = None,
        kind: Literal["image", "labels"] = "image",
        rgb: bool = False,
        beside: Image | None = None,
        **look: Any,
    ) -> Any:
        """Show data in the layer of a key, which is made or replaced if need be.

        Parameters
        ----------
        key
            Names the result: for example what it is and the ``unique_id`` of its source.
        data
            The pixels.
        where
            From :func:`placement` or :func:`moved`; empty leaves the layer where it is.
        name
            Of the layer, when it is made.
        record
            What the layer's metadata say of the plugin, for example a recipe, or None; other
            metadata stay as they are.
        kind
            Of the layer.
        rgb
            Whether the last axis is colour; taken over from ``beside``.
        beside
            An image whose look a new layer takes over, and above which it lies, on top of its
            other results and of images that would hide it; what was selected stays so. Its
            contrast limits are taken over again when they have changed. Without it the new layer
            is the topmost and the active one.
        look
            Further arguments of a new layer.

        Returns
        -------
        Layer
            The layer.
        """
        layer = self.find(key)
        rgb = rgb if beside is None else bool(beside.rgb)
        axes = np.ndim(data) - rgb
        if layer is not None and (layer.ndim, getattr(layer, "rgb", False)) != (axes, rgb):
            # A layer cannot turn from colour to grey, or from an image into a stack.
            self._viewer.layers.remove(layer)
            layer = None
        if layer is None:
            # The metadata now: whoever hears of the layer knows that it is ours.
            options = {"name": name, "metadata": {METADATA: record}, **where, **look}
            if beside is not None:
                layer = self._insert(data, options, beside)
            elif kind == "image":
                layer = self._viewer.add_image(data, rgb=rgb, **options)
            else:
                layer = self._viewer.add_labels(data, **options)
            self._made[key] = layer.unique_id, layer.name
            self._ids.add(layer.unique_id)
        else:
            _update(layer, data, where)
            layer.metadata = {**layer.metadata, METADATA: record}
        if beside is not None and not rgb:
            limits = tuple(beside.contrast_limits)
            if self._contrast.get(key) != limits:
                layer.contrast_limits = self._contrast[key] = limits
        return layer

    def _insert(self, data: Any, options: dict[str, Any], beside: Image) -> Image:
        look = {"rgb": beside.rgb, "colormap": beside.colormap, "gamma": beside.gamma}
        layer = Image(data, **(look | options))
        if not beside.rgb:  # not before: they would limit the range of the contrast slider too
            layer.contrast_limits = beside.contrast_limits
        layers = self._viewer.layers
        selected = set(layers.selection)
        layers.insert(self._top(beside), layer)
        layers.selection = selected
        return layer

    def _top(self, source: Image, layer: Layer | None = None) -> int:
        """Return the index right above a source, what was made of it, and images that cover it."""
        layers = self._viewer.layers
        index = int(layers.index(source)) + 1
        while index < len(layers) and layers[index].unique_id in self._ids:
            index += 1
        covering = [n + 1 for n, each in enumerate(layers) if each is not layer and hides(each)]
        return max([index, *covering])


def hides(layer: Layer) -> bool:
    """Return True if nothing can be seen of what lies below a layer."""
    opaque = layer.blending in ("opaque", "translucent", "translucent_no_depth")
    return type(layer) is Image and bool(layer.visible) and layer.opacity == 1 and opaque


def _update(layer: Any, data: Any, where: Mapping[str, Any]) -> None:
    """Update the pixels and the place of a layer.

    Each of the two sends the layer's pixels to the screen; so the place is changed while the
    smaller of the two images is in the layer.
    """
    growing = np.size(data) > np.size(layer.data)
    if not growing and layer.data is not data:
        layer.data = data
    for name, value in where.items():
        known = getattr(layer, name) if name != "affine" else layer.affine.affine_matrix
        if not (known == value if isinstance(value, tuple) else np.array_equal(known, value)):
            setattr(layer, name, value)
    if growing:
        layer.data = data


def full_resolution(layer: Image) -> Any:
    """Return the data of an image layer; of a multiscale one, its full resolution."""
    return layer.data[0] if layer.multiscale else layer.data


def part_shape(shape: Sequence[int], part: Part) -> tuple[int, ...]:
    """Return the shape of a part of an array of that shape; no pixel is read."""
    sizes = (len(range(*each.indices(n))) for each, n in zip(part, shape, strict=False))
    return (*sizes, *shape[len(part) :])


def image_size(layer: Image) -> tuple[int, int]:
    """Return height and width of a layer's images."""
    shape = full_resolution(layer).shape
    return (shape[-3], shape[-2]) if layer.rgb else (shape[-2], shape[-1])


def rgb_option(layer: Image) -> bool | None:
    """Return the option ``rgb`` for a layer: None where its shape says the same as napari.

    So a recipe says it only of images that would be read wrongly without.
    """
    shape = full_resolution(layer).shape
    return None if (len(shape) >= 3 and shape[-1] in (3, 4)) == layer.rgb else bool(layer.rgb)


def current_index(viewer: Viewer, layer: Image) -> tuple[int, ...]:
    """Return the index of the slice on display along the leading axes of a layer."""
    sizes = full_resolution(layer).shape[: -3 if layer.rgb else -2]
    point = np.rint(layer.world_to_data(viewer.dims.point)[: len(sizes)])
    return tuple(np.clip(point, 0, np.subtract(sizes, 1)).astype(int).tolist())


def visible_region(layer: Image) -> Region | None:
    """Return what is on screen of a layer, None where nothing is."""
    corners = np.asarray(layer.corner_pixels)
    if layer.multiscale:
        corners = corners * layer.downsample_factors[layer.data_level]
    return region_within(layer, corners[0], corners[1] + 1)


def region_within(layer: Image, low: Sequence[float], high: Sequence[float]) -> Region | None:
    """Return the pixels of a layer's images between two points, None where there are none."""
    first, last = np.floor(low[-2:]), np.ceil(high[-2:])
    clipped = np.clip([first, last], 0, image_size(layer)).astype(int).tolist()
    (top, left), (bottom, right) = clipped
    return (top, bottom, left, right) if top < bottom and left < right else None
