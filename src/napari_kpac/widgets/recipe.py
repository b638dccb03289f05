"""A control for a recipe: a file, and in words what it does.

Not for: applying it.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from magicgui.types import FileDialogMode
from qtpy.QtCore import Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_kpac.core.errors import NotReadyError
from napari_kpac.widgets.form import file_edit, read_folder
from napari_kpac.widgets.run_panel import Message
from napari_kpac.widgets.task import Latest, later

READ_MS = 300
"""A name that is being typed is looked at after this long."""
FILES = "Recipes and results (*.json *.tif *.tiff *.png *.jpg *.jpeg);;All files (*)"


class RecipeEdit(QWidget):
    """Chooses a recipe, or a result that carries one, and shows what is in it."""

    read = Signal(object)
    """A Recipe was read, or None where there is none (any more)."""

    label = "recipe"

    def __init__(self, tooltip: str) -> None:
        super().__init__()
        self.native, self.tooltip = self, tooltip
        """With these and ``label`` it can stand in a Form."""
        self.recipe: Any = None
        """What the file holds, once it has been read."""
        self.edit = file_edit("recipe", tooltip, FileDialogMode.EXISTING_FILE, FILES)
        self.edit.line_edit.native.setPlaceholderText("a recipe, or a result")
        self._summary = Message()
        self._reading = Latest(self)
        self._soon = later(self, READ_MS, self._ask)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.edit.native)
        layout.addWidget(self._summary)
        self._summary.hide()
        self.edit.line_edit.changed.connect(lambda _: self._soon.start())
        self._reading.failed.connect(self._show_problem)

    @property
    def path(self) -> Path | None:
        """The file that is named, None where there is none."""
        return read_folder(self.edit)

    def chosen(self) -> Path:
        """Return the file; raises NotReadyError where none is named."""
        if self.path is None:
            raise NotReadyError(
                "choose a recipe first: a file that the mixer saved, or a result that carries one"
            )
        return self.path

    def choose(self, path: str | Path) -> None:
        """Name a file."""
        self.edit.line_edit.value = str(path)

    def _ask(self) -> None:
        if self.path is None:
            self._reading.cancel(forget=True)
            self._show(None, "")
        else:
            self._reading.ask(partial(_read, self.path), lambda found: self._show(*found))

    def _show(self, recipe: Any, text: str) -> None:
        self.recipe = recipe
        self._summary.setText(text)
        self._summary.setVisible(bool(text))
        self.read.emit(recipe)

    def _show_problem(self, text: str) -> None:
        self._show(None, f"⚠ {text}")


def _read(path: Path) -> tuple[Any, str]:
    """Return a recipe and its description; loads torch on first use."""
    from napari_kpac.engine import load_recipe

    recipe = load_recipe(path)
    return recipe, describe(recipe)


def describe(recipe: Any) -> str:
    """Return what a recipe does, in a line."""
    if recipe.options.method != "kpac":
        return f"method {recipe.options.method}, without a network"
    modulation, found = recipe.modulation, [f"model {recipe.model_name}"]
    if modulation.gains is not None and not np.all(np.asarray(modulation.gains) == 1):
        rows = np.atleast_2d(np.asarray(modulation.gains, float)).tolist()
        found.append("gains " + "; ".join(", ".join(f"{gain:g}" for gain in row) for row in rows))
    if modulation.strength != 1:
        found.append(f"strength {float(modulation.strength):g}")
    if modulation.override:
        found.append(f"{len(modulation.override)} replaced alpha")
    if modulation.labels is not None:
        height, width = np.shape(modulation.labels)[-2:]
        found.append(f"painted, for images of {width} x {height} pixels")
    if not isinstance(recipe.options.range, str):
        low, high = recipe.options.range
        found.append(f"black {low:g}, white {high:g}")
    return ", ".join(found)
