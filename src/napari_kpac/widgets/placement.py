"""Where layers lie, and how results get beside their input.

Not for: pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from napari.layers import Image, Layer
from napari.viewer import Viewer

METADATA = "napari_kpac"
"""Key in a layer's metadata under which its recipe stands."""

_CARRIED = ("scale", "translate", "rotate", "shear", "affine", "units", "axis_labels")


def placement(layer: Layer) -> dict[str, Any]:
    """Return what must be given to a new layer so that it lies where this one does."""
    return {name: getattr(layer, name) for name in _CARRIED}


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
    for layer in viewer.layers:
        if layer.unique_id == unique_id:
            return layer
    return None


def full_resolution(layer: Image) -> Any:
    """Return the data of an image layer; of a multiscale one, its full resolution."""
    return layer.data[0] if layer.multiscale else layer.data


def image_axes(layer: Image) -> int:
    """Return the number of array axes that belong to one image: 3 with colour, else 2."""
    return 3 if layer.rgb else 2


def current_index(viewer: Viewer, layer: Image) -> tuple[int, ...]:
    """Return the index of the slice on display along the leading axes of a layer."""
    data = full_resolution(layer)
    leading = data.ndim - image_axes(layer)
    point = layer.world_to_data(viewer.dims.point)
    return tuple(
        int(np.clip(round(position), 0, size - 1))
        for position, size in zip(point[:leading], data.shape[:leading], strict=True)
    )


def visible_region(layer: Image) -> tuple[int, int, int, int] | None:
    """Return (top, bottom, left, right) of what is on screen of a layer, in pixels."""
    height, width = image_size(layer)
    corners = np.asarray(layer.corner_pixels)
    if layer.multiscale:
        corners = corners * layer.downsample_factors[layer.data_level]
    top, left = np.floor(corners[0][-2:]).astype(int)
    bottom, right = np.ceil(corners[1][-2:]).astype(int) + 1
    top, bottom = int(np.clip(top, 0, height)), int(np.clip(bottom, 0, height))
    left, right = int(np.clip(left, 0, width)), int(np.clip(right, 0, width))
    if top >= bottom or left >= right:
        return None
    return top, bottom, left, right


def image_size(layer: Image) -> tuple[int, int]:
    """Return height and width of a layer's images."""
    shape = full_resolution(layer).shape
    return (shape[-3], shape[-2]) if layer.rgb else (shape[-2], shape[-1])
