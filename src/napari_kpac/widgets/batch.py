"""The Batch widget: files and folders in, a folder of results out, a table of what was done.

Not for: the work (napari_kpac.batch, which the terminal uses too).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from magicgui.widgets import CheckBox
from napari.viewer import Viewer
from qtpy.QtCore import QModelIndex
from qtpy.QtWidgets import QHeaderView

from napari_kpac.core.errors import NotReadyError, split_place
from napari_kpac.core.files import naming
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, Choices, DeviceBox, ModelBox
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.files import LayerTuple, add_result, read_result
from napari_kpac.widgets.form import Form, choice_box, folder_edit, read_folder
from napari_kpac.widgets.input_list import InputList
from napari_kpac.widgets.recipe import RecipeEdit
from napari_kpac.widgets.run_panel import RunPanel, duration
from napari_kpac.widgets.tables import SortedTable
from napari_kpac.widgets.task import Latest

if TYPE_CHECKING:
    from napari_kpac.batch import FileProgress, Outcome, Report
    from napari_kpac.batch.inputs import Item
    from napari_kpac.weights.store import Config

FORMATS = (
    ("that of the input", ""),
    ("TIFF", ".tif"),
    ("PNG", ".png"),
    ("JPEG", ".jpg"),
    ("Zarr", ".zarr"),
)
HEADINGS = ("file", "state", "result or reason")
FILE, STATE, WHAT = range(3)
STATE_WIDTH_PX, FILE_WIDTH_PX = 84, 120
STOPPED = "stopped"


class BatchWidget(DockedWidget):
    """Deblurs files with a model or by a recipe, and says of each what became of it."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._rows: dict[Item, int] = {}
        self._outcomes: dict[int, Outcome] = {}
        """What became of the files, by row."""
        self._inputs = InputList()
        self._output = folder_edit("into folder", "Where results go; folders inside are kept.")
        self._recipe = RecipeEdit(
            "Optional: how to deblur, as the mixer saved it, or a result that carries it."
        )
        self._model = ModelBox()
        self._left, self._right = (
            folder_edit(
                f"{side} views",
                f"Folder of the {side} views of a dual-pixel camera, matched with the others by "
                "name, or else by order. Without images the mean of the views stands for them.",
            )
            for side in ("left", "right")
        )
        self._configs: Mapping[str, Config] = {}
        self._device = DeviceBox()
        self._format = choice_box("format", FORMATS, "Of the results.")
        self._overwrite = CheckBox(
            label="overwrite",
            tooltip="Make results again that are there; otherwise what is done is skipped.",
        )
        self._overwrite.native.setText("")  # its label stands beside it
        filler = self.kept(ChoiceFiller(self._model, self._device, self))
        filler.filled.connect(self._learn_configs)
        self._panel = RunPanel(
            "Deblur files", "Deblur all files; again to cancel.", describe=self._describe
        )
        self._message = self._panel.message
        self._message.setText("Add files or a folder, choose where results go, press Deblur files.")
        self._opener = Latest(self)
        self._table = SortedTable()
        self._build()
        self._recipe.read.connect(self._show_controls)
        self._model.changed.connect(self._show_controls)
        self._panel.wanted.connect(self.run)
        task = self._panel.task
        task.progressed.connect(self._show_file)
        task.cancelled.connect(self._show_cancelled)
        task.failed.connect(self._stop_rows)
        self._opener.failed.connect(self._message.show_error)
        self._table.doubleClicked.connect(self._open)

    def _build(self) -> None:
        self._table.setToolTip("Double-click a row to open its result.")
        self._clear_table()
        form = Form([
            self._inputs, self._output, self._recipe, self._model, self._left, self._right,
            self._device, self._format, self._overwrite,
        ])  # fmt: skip
        layout = self.fill_scrolling()
        layout.addWidget(form)
        layout.addWidget(self._panel)
        layout.addWidget(self._table, 1)
        self.preferred_width = 380
        self._show_controls()

    def _show_controls(self) -> None:
        """Show the model where no recipe names one, and the views where it takes them."""
        self._model.visible = self._recipe.recipe is None
        self._left.visible = self._right.visible = self._takes_views()

    def _learn_configs(self, found: Choices) -> None:
        self._configs = found.configs
        self._show_controls()

    def _takes_views(self) -> bool:
        recipe = self._recipe.recipe
        model = self._model.value if recipe is None else recipe.options.model
        config = self._configs.get(preferences.model(model))
        return config is not None and config.views == 2

    def _views(self) -> tuple[Path, Path] | None:
        """Return the folders of the views where the model takes them."""
        if not self._takes_views():
            return None
        left, right = read_folder(self._left), read_folder(self._right)
        if left is None or right is None:
            raise NotReadyError(
                "this model takes the two views of a dual-pixel camera: choose the folders of the "
                "left and the right views, or another model"
            )
        return left, right

    def run(self) -> None:
        """Start deblurring the files."""
        with self._message.showing_errors():
            inputs, output = list(self._inputs.paths), read_folder(self._output)
            views = self._views()
            if not inputs and views is None:
                raise NotReadyError("add files or a folder of images first")
            if output is None:
                raise NotReadyError("choose the folder for the results first")
            options = preferences.apply(
                DeblurOptions(model=self._model.value, device=self._device.value)
            )
            recipe, ending = self._recipe.path, self._format.value or None
            overwrite = bool(self._overwrite.value)
            self._clear_table()
            self._panel.start(
                lambda: _steps(inputs, views, output, options, recipe, ending, overwrite=overwrite),
                "Loading the model ...",
                self._show_report,
            )

    # -- the table --------------------------------------------------------------------------

    def _clear_table(self) -> None:
        self._rows.clear()
        self._outcomes.clear()
        self._table.show_rows(HEADINGS)
        header = self._table.horizontalHeader()
        if header is not None:
            header.setSectionResizeMode(WHAT, QHeaderView.ResizeMode.Stretch)
            header.resizeSection(FILE, FILE_WIDTH_PX)
            header.resizeSection(STATE, STATE_WIDTH_PX)

    def _describe(self, progress: Progress) -> str:
        """Return how far the whole batch is."""
        files = progress.total // max(1, _steps_per_file())
        left = self._panel.seconds / max(1, progress.done) * (progress.total - progress.done)
        note = f"about {duration(left)} left" if progress.done else progress.stage
        return f"{len(self._outcomes)} of {files} files done, {note}"

    def _show_file(self, progress: FileProgress) -> None:
        """Show how far a file is, or what became of it."""
        item, outcome = progress.item, progress.outcome
        if item is None:
            return
        if item not in self._rows:
            self._rows[item] = len(self._rows)
            self._table.append((item.first.name, "", ""))
        row = self._rows[item]
        if outcome is None:
            if row not in self._outcomes:
                self._change(item, f"{progress.share:.0%}", progress.note)
            return
        self._outcomes[row] = outcome
        self._change(item, _word(outcome), _what(outcome))
        self._message.setText(self._describe(progress))

    def _change(self, item: Item, state: str, what: str) -> None:
        row = self._rows[item]
        self._table.change(row, (item.first.name, state, what))
        cell = self._table.content.item(row, FILE)
        if cell is not None:
            cell.setToolTip(str(item.first))
        shown = self._table.order.mapFromSource(self._table.content.index(row, WHAT))
        self._table.resizeRowToContents(shown.row())

    def _stop_rows(self) -> None:
        """Say of the files under way that they were not finished."""
        for item, row in self._rows.items():
            if row not in self._outcomes:
                self._change(item, STOPPED, "not finished; start again to make it")

    def _show_cancelled(self) -> None:
        self._stop_rows()
        self._message.setText(
            f"Cancelled after {len(self._outcomes)} files. Start again to go on: what is done is "
            "skipped."
        )

    def _show_report(self, report: Report) -> None:
        summary = next(report.lines())
        failed = " The table says why: double-click for help." if report.failed else ""
        self._message.setText(
            f"{summary}, in {duration(self._panel.seconds)}.{failed} Double-click a row to open "
            "its result."
        )

    # -- results ----------------------------------------------------------------------------

    def _open(self, index: QModelIndex) -> None:
        """Open the result of the row that was double-clicked."""
        outcome = self._outcomes.get(self._table.row_of(index))
        if outcome is None:
            self._message.setText("This file is not done.")
        elif outcome.state == "failed":
            self._message.setText(f"⚠ {outcome.problem}")
        else:
            path = outcome.written[0]
            self._message.setText(f"Opening {path.name} ...")
            self._opener.ask(lambda: read_result(path), self._add)

    def _add(self, found: LayerTuple) -> None:
        layer = add_result(self._viewer, found)
        self._message.setText(f"Opened “{layer.name}”.")


def _steps(
    inputs: list[Path],
    views: tuple[Path, Path] | None,
    output: Path,
    options: DeblurOptions,
    recipe_file: Path | None,
    ending: str | None,
    *,
    overwrite: bool,
) -> Steps[Report]:
    """Run the batch; loads torch on first use, so call it in a thread."""
    from napari_kpac.batch import BatchOptions, deblur_files
    from napari_kpac.engine import load_recipe

    recipe = None if recipe_file is None else load_recipe(recipe_file)
    if recipe is not None:
        options = replace(recipe.options, device=options.device, memory=options.memory)
    with naming(output):  # there is no doubt that a folder is meant, whatever it is called
        output.mkdir(parents=True, exist_ok=True)
    batch = BatchOptions(to=ending, overwrite=overwrite)
    left, right = views or (None, None)
    return (
        yield from deblur_files(
            inputs, output, options, batch=batch, recipe=recipe, left=left, right=right
        )
    )


def _steps_per_file() -> int:
    from napari_kpac.batch.report import STEPS_PER_FILE

    return STEPS_PER_FILE


def _word(outcome: Outcome) -> str:
    from napari_kpac.batch.report import WORDS

    return WORDS[outcome.state]


def _what(outcome: Outcome) -> str:
    """Return the name of the result, or the reason for a failure without the name of the file.

    Where the documentation helps is told, as a link, when the row is double-clicked.
    """
    if outcome.state == "failed":
        return split_place(outcome.problem.removeprefix(f"{outcome.item.first}: "))[0]
    return ", ".join(path.name for path in outcome.written)
