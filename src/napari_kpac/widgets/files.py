"""napari's own Open and Save: recipes in, blur maps and results out.

Not for: the formats themselves (engine.recipe, detection.files, images).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
from napari import current_viewer
from napari.layers import Image
from qtpy.QtWidgets import QFileDialog

from napari_kpac.core.errors import FileError, ImageError, KpacError, NotReadyError
from napari_kpac.core.units import PIXEL, SECONDS, short_unit
from napari_kpac.images import Location, Metadata, description_of, open_image, start_image
from napari_kpac.widgets.dialogs import ask_save_name, with_ending
from napari_kpac.widgets.layers import METADATA, is_split

LayerTuple = tuple[Any, dict[str, Any], str]
RESULT_FILES = "TIFF (*.tif *.tiff);;Zarr (*.zarr)"
AXES = "TCZYX"
"""Axes that files of ours give a size to."""
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


def _write_selected(what: str, files: str, write: Callable[..., list[str]]) -> list[str]:
    """Ask for a file and write the selected layer to it; nothing where nobody gave a name."""
    layer = _viewer().layers.selection.active
    if not isinstance(layer, Image) or is_split(layer):
        raise NotReadyError(f"select the layer of a {what} first")
    asked = ask_save_name(None, f"Save {what}", f"{layer.name}.tif", files)
    return [] if asked is None else write(asked[0], *layer.as_layer_data_tuple()[:2])


def write_map(
    path: str | Path | None = None, data: Any = None, attributes: dict[str, Any] | None = None
) -> list[str]:
    """Write an image layer in 0..1 as a blur map; model and settings go into the file.

    Without a file (so the command palette calls it) ask for one, and write the selected layer.
    """
    from napari_kpac.detection.files import export

    if path is None or attributes is None:
        return _write_selected("blur map", MAP_FILES, write_map)
    values = np.asarray(data)
    if values.dtype.kind != "f" or np.nanmin(values) < 0 or np.nanmax(values) > 1:
        raise ImageError(
            "only maps with values from 0 to 1 are saved as blur maps; save other images as "
            "results, in TIFF or Zarr"
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


def write_result(
    path: str | Path | None = None, data: Any = None, attributes: dict[str, Any] | None = None
) -> list[str]:
    """Write an image layer as TIFF or Zarr, with its scale, its units and its recipe.

    Without a file (so the command palette calls it) ask for one, and write the selected layer.
    """
    if path is None or attributes is None:
        return _write_selected("result", RESULT_FILES, write_result)
    path = Path(path)
    if path.suffix.lower() != ".zarr":
        path = with_ending(path, RESULT_FILES.split(";;")[0])
    record = attributes.get("metadata", {}).get(METADATA)
    pixels = data[0] if attributes.get("multiscale") else data
    metadata = layer_metadata(np.shape(pixels), attributes)
    try:
        target = start_image(path, np.shape(pixels), np.dtype(pixels.dtype), metadata)
        try:
            lead = pixels.ndim - (3 if attributes.get("rgb") else 2)
            for index in np.ndindex(pixels.shape[:lead]):
                target.out[index] = np.asarray(pixels[index])
            target.finish("" if record is None else json.dumps(record))
        finally:
            target.discard()
    except KpacError:
        raise
    except (ValueError, TypeError) as error:
        raise FileError(f"{path}: cannot be written ({error})") from error
    return [str(path)]


def layer_metadata(shape: tuple[int, ...], attributes: dict[str, Any]) -> Metadata:
    """Return what a file says of the pixels of an image layer: axes, scale and units."""
    rgb = bool(attributes.get("rgb"))
    count = len(shape) - rgb
    if count > len(AXES):
        raise FileError(f"a file holds at most {len(AXES)} axes, this layer has {count}")
    units = [short_unit(unit) for unit in attributes.get("units") or (PIXEL,) * count]
    names = [str(label)[:1].upper() for label in attributes.get("axis_labels") or ()]
    axes = "".join(names)
    known = set(axes) <= set(AXES) and len(set(axes)) == count and axes.endswith("YX")
    if len(axes) != count or not known:
        lead = {0: "", 1: "T" if units[0] in SECONDS else "Z", 2: "TZ", 3: "TCZ"}[count - 2]
        axes = f"{lead}YX"
    scale = [float(size) for size in attributes.get("scale", (1.0,) * count)]
    named = zip(axes, scale, units, strict=True)
    sizes = {axis: size for axis, size, unit in named if size != 1 or unit != PIXEL}
    kinds = {axis: unit for axis, unit in zip(axes, units, strict=True) if unit != PIXEL}
    return Metadata(axes=axes + "S" * rgb, scale=sizes, units=kinds)


def read_result(path: Location) -> LayerTuple:
    """Read an image file as a layer, with its scale, its units and the recipe that made it."""
    with open_image(path, whole=True) as image:
        pixels, about = np.asarray(image.array), image.metadata
    rgb = about.has_colour(pixels.shape)
    attributes: dict[str, Any] = {
        "name": path.stem,
        "rgb": rgb,
        "metadata": {METADATA: description_of(path)},
    }
    axes = about.axes.removesuffix("S") if rgb else about.axes
    if len(axes) == pixels.ndim - rgb and about.scale:
        attributes["scale"] = [about.scale.get(axis, 1.0) for axis in axes]
        attributes["units"] = [about.units.get(axis, PIXEL) for axis in axes]
        attributes["axis_labels"] = list(axes.lower())
    return pixels, attributes, "image"


def add_result(viewer: Any, found: LayerTuple) -> Image:
    """Add what :func:`read_result` returned to a viewer."""
    pixels, attributes, _ = found
    try:
        layer = Image(pixels, **attributes)
    except ValueError:  # a unit that napari does not know
        layer = Image(pixels, **{k: v for k, v in attributes.items() if k != "units"})
    return cast(Image, viewer.add_layer(layer))
