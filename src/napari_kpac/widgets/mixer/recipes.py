"""Recipes of the mixer: its settings in a file, and from a file into the mixer again.

Not for: what a recipe is (engine), or applying one to other images (deblur.py, batch.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from napari.layers import Labels
from qtpy.QtWidgets import QFileDialog, QWidget

from napari_kpac.core.errors import NotReadyError
from napari_kpac.widgets.dialogs import ask_save_name
from napari_kpac.widgets.mixer.layers import ImageSlice
from napari_kpac.widgets.mixer.state import MixerState

KIND = "Recipe (*.json)"


@dataclass(frozen=True)
class Loaded:
    """What the mixer takes over from a recipe."""

    state: MixerState
    labels: Labels | None
    """The layer of the painted labels, if there are any."""
    problem: str
    """Why the result may be another one, for example because the model has changed."""


def saving(result: Any, mix: Callable[[], Any] | None, path: str | Path) -> Callable[[], None]:
    """Return what writes the settings, the file that ``napari-kpac deblur --recipe`` takes.

    It is for a thread, for the painted labels are read for it. ``result`` is the last one of the
    whole image, ``mix`` makes the modulation; either is None where no image is open.
    """
    if result is None or mix is None:
        raise NotReadyError("there is nothing to save yet: open an image first")
    recipe = result.recipe
    return lambda: replace(recipe, modulation=mix()).save(path)


def load(path: str | Path, image: ImageSlice | None, shape: tuple[int, int]) -> Loaded:
    """Read settings for so many blocks and dilations; painted labels come as a layer."""
    from napari_kpac.engine import load_recipe
    from napari_kpac.engine.recipe import changed_model

    if image is None or not all(shape):
        raise NotReadyError("open an image first, then load the recipe")
    recipe = load_recipe(path)
    state, labels = image.load(recipe.modulation, shape)
    return Loaded(state, labels, changed_model(recipe) or "")


def ask_save(parent: QWidget) -> Path | None:
    """Ask where to save a recipe; None where the dialog is cancelled."""
    asked = ask_save_name(parent, "Save recipe", "recipe.json", KIND)
    return None if asked is None else Path(asked[0])


def ask_load(parent: QWidget) -> Path | None:
    """Ask which recipe to load; None where the dialog is cancelled."""
    path, _ = QFileDialog.getOpenFileName(parent, "Load recipe", "", KIND)
    return Path(path) if path else None
