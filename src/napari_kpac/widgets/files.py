"""napari's own Open and Save: recipes in, blur maps out.

Not for: the formats themselves (engine.recipe, detection.files).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from napari import current_viewer
from napari.layers import Image
from qtpy.QtWidgets import QFileDialog

from napari_kpac.core.errors import ImageError, NotReadyError
from napari_kpac.widgets.layers import METADATA

LayerTuple = tuple[Any, dict[str, Any], str]
MAP_FILES = "TIFF (*.tif);;PNG (*.png);;NumPy (*.npy)"


def recipe_reader(
    path: str | list[str] | None = None,
) -> Callable[[Any], list[LayerTuple]] | None:
    """Return a reader if the file is a recipe, else None; without a file, ask for one and open it.

    The command palette calls it without.
    """
    if path is None:
        chosen, _ = QFileDialog.getOpenFileName(None, "Open recipe", "", "Recipe (*.json)")
        if chosen:
            _viewer().open(chosen, plugin="napari-kpac")
        return None
    if isinstance(path, list):
        path = path[0]
    try:
        with Path(path).open(encoding="utf-8") as file:
            start = file.read(200)
    except (OSError, UnicodeDecodeError):
        return None
    return read_recipe if '"napari-kpac-recipe"' in start else None


def _viewer() -> Any:
    viewer = current_viewer()
    if viewer is None:
        raise NotReadyError("there is no napari window")
    return viewer


def read_recipe(path: str | list[str]) -> list[LayerTuple]:
    """Return the images of a recipe as layers: what was painted, and replaced alpha maps."""
    from napari_kpac.engine import load_recipe

    recipe = load_recipe(path[0] if isinstance(path, list) else path)
    record = {METADATA: recipe.to_dict()}
    found: list[LayerTuple] = []
    if recipe.modulation.labels is not None:
        labels = np.asarray(recipe.modulation.labels)
        found.append((labels, {"name": "labels of the recipe", "metadata": record}, "labels"))
    for (block, index), value in recipe.modulation.override.items():
        if np.ndim(value):
            name = f"α{index} of block {block} (loaded)"
            options = {"name": name, "contrast_limits": (0, 1), "metadata": record}
            found.append((np.asarray(value, np.float32), options, "image"))
    if not found:
        from napari.utils.notifications import show_info

        show_info("This recipe has settings only: load it in the attention mixer.")
        return [(None,)]  # type: ignore[list-item]
    return found


def write_map(
    path: str | None = None, data: Any = None, attributes: dict[str, Any] | None = None
) -> list[str]:
    """Write an image layer in 0..1 as a blur map; model and settings go into the file.

    Without a file (so the command palette calls it) ask for one, and write the selected layer.
    """
    from napari_kpac.detection.files import export

    if path is None or attributes is None:
        layer = _viewer().layers.selection.active
        if not isinstance(layer, Image):
            raise NotReadyError("select the layer of a blur map first")
        path, _ = QFileDialog.getSaveFileName(None, "Save blur map", "blur.tif", MAP_FILES)
        return list(layer.save(path, plugin="napari-kpac")) if path else []
    values = np.asarray(data)
    if values.dtype.kind != "f" or np.nanmin(values) < 0 or np.nanmax(values) > 1:
        raise ImageError(
            "only maps with values from 0 to 1 are saved as blur maps; save other images with "
            "napari's own writers"
        )
    record = attributes.get("metadata", {}).get(METADATA, {})
    units = [str(unit) for unit in attributes.get("units") or ()] or None
    written = export(
        path,
        values,
        scale=tuple(attributes.get("scale") or ()) or None,
        units=units,
        description=json.dumps(record),
    )
    return [str(each) for each in written]
