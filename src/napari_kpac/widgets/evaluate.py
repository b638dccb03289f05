"""The Evaluate widget: models and methods compared on a dataset, in tables that sort.

Not for: measuring (evaluation).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from magicgui.widgets import ComboBox, SpinBox
from napari.viewer import Viewer
from qtpy.QtCore import QModelIndex
from qtpy.QtWidgets import QFileDialog, QLabel, QTabWidget, QVBoxLayout, QWidget

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError, split_place
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.layout import recognise, splits_of
from napari_kpac.datasets.options import SPLITS
from napari_kpac.evaluation import paper
from napari_kpac.evaluation.options import METHODS, EvaluateOptions
from napari_kpac.widgets.choices import ChoiceFiller, Choices, DeviceBox
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.form import (
    Form,
    OptionControls,
    button,
    choice_box,
    folder_edit,
    read_folder,
)
from napari_kpac.widgets.layers import METADATA
from napari_kpac.widgets.run_panel import RunPanel
from napari_kpac.widgets.tables import Cell, CheckList, SortedTable
from napari_kpac.widgets.task import Latest

if TYPE_CHECKING:
    from napari_kpac.evaluation import Evaluation

KINDS = (
    ("sharp photographs", "synthetic"),
    ("DPDD", "dpdd"),
    ("folders of pairs", "pairs"),
    ("CUHK blur masks", "cuhk"),
)
GOES_WITH = {
    "split": ("synthetic", "dpdd", "pairs"),
    "dual": ("synthetic", "dpdd"),
    "fit_exposure": ("dpdd", "pairs"),
    "noise": ("synthetic", "dpdd", "pairs"),
    "deconvolution": ("synthetic", "dpdd", "pairs"),
}
"""Kinds of data that an option makes sense for."""
NOISE, COUNT = "noise %", "images"
PAPER_COLUMNS = ("psnr", "ssim", "lpips")
"""Columns for which the paper prints figures."""


class Controls(QWidget):
    """Makes the options of an evaluation: which data, which models and methods."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = choice_box(
            "data",
            KINDS,
            "What the folder holds: sharp photographs, which are blurred here; DPDD, or "
            "what 'synthesise' wrote; blurred and sharp images; images and masks.",
        )
        self.root = folder_edit("folder", "The folder of the data; what it holds is recognised.")
        self.sharp = folder_edit(
            "sharp folder",
            "Folder of the sharp images of the same names. Not needed where one folder holds both.",
        )
        self.fields = OptionControls(EvaluateOptions, GOES_WITH, choices={"split": SPLITS})
        self.blurred = ComboBox(
            label="blurred is",
            choices=("white", "black"),
            tooltip="What the masks show blurred pixels as.",
        )
        self.limit = SpinBox(
            label="images at most", value=0, min=0, max=100_000, tooltip="0: all of them."
        )
        self.device = DeviceBox()
        self.models = CheckList("models to compare")
        self.models.offer([("default", "default")], ["default"])
        self.methods = CheckList("methods without a network to compare")
        self.methods.offer([(name, name) for name in METHODS], [])
        add = button("Add a model file ...", "Compare a model that is in a file.", self._add_file)
        controls = [self.kind, self.root, self.sharp, *self.fields.controls]
        self._form = Form([*controls, self.blurred, self.limit, self.device])
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._form)
        for part in (
            QLabel("models"), self.models, add, QLabel("methods without a network"), self.methods,
        ):  # fmt: skip
            layout.addWidget(part)
        self.kind.changed.connect(self._follow_kind)
        self.root.changed.connect(self._recognise)
        self._follow_kind()

    def options(self) -> EvaluateOptions:
        """Make the options; raises a ConfigError where they make no sense."""
        root, kind = read_folder(self.root), self.kind.value
        if root is None:
            raise ConfigError("choose the folder of the data first")
        given = {
            name: value for name, value in self.fields.values.items() if kind in GOES_WITH[name]
        }
        if kind == "cuhk":
            given["blurred"] = self.blurred.value
        else:
            given["method"] = self.methods.chosen
        sharp = read_folder(self.sharp)
        if kind == "pairs" and sharp is not None:
            given["sharp"] = str(sharp)
        return EvaluateOptions(
            kind=kind,
            root=str(root),
            model=self.models.chosen,
            limit=int(self.limit.value) or None,
            device=self.device.value,
            **given,
        )

    def offer_models(self, found: Choices) -> None:
        """Offer these models, and the files that were added by hand."""
        first = [value for _, value in found.models[:1]]
        before = [name for name in self.models.chosen if name != "default"]
        files = [entry for entry in self.models.entries if "/" in entry[1]]
        self.models.offer([*found.models, *files], before or first)

    def _follow_kind(self) -> None:
        """Show what goes with the kind of data."""
        kind = self.kind.value
        for name, kinds in GOES_WITH.items():
            self.fields[name].visible = kind in kinds
        self.blurred.visible = kind == "cuhk"
        self.sharp.visible = kind == "pairs"
        self._form.set_label(self.root, "blurred folder" if kind == "pairs" else "folder")
        self.methods.setEnabled(kind != "cuhk")

    def _recognise(self) -> None:
        """Choose the kind of data that the folder holds, and a split that is there."""
        root = read_folder(self.root)
        found = None if root is None else recognise(root)
        if root is None or found is None:
            return
        self.kind.value = found
        there = splits_of(root)
        if found == "dpdd" and self.fields["split"].value not in there:
            self.fields["split"].value = there[-1]

    def _add_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, "A model file", "", "Models (*.safetensors *.npz)"
        )
        if path:
            entries = [*self.models.entries, (Path(path).name, path)]
            self.models.offer(entries, (*self.models.chosen, path))


class EvaluateWidget(DockedWidget):
    """Compares models and methods on a dataset."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._found: Evaluation | None = None
        self._last: Any = None
        """The last step of the evaluation that runs."""
        self._controls = Controls()
        filler = self.kept(ChoiceFiller(None, self._controls.device, self))
        filler.filled.connect(self._controls.offer_models)
        self._panel = RunPanel("Evaluate", describe=lambda progress: progress.stage)
        self._panel.wanted.connect(self.run)
        self._panel.task.progressed.connect(self._show_row)
        self._panel.task.ended.connect(self._follow_found)
        self._message = self._panel.message
        self._message.setText("Choose a folder of data and press Evaluate.")
        self._opener = Latest(self)
        self._opener.failed.connect(self._message.show_error)
        self._summariser = Latest(self)
        self._means, self._images = SortedTable(), SortedTable()
        self._images.setToolTip("Double-click a row to open its images as layers.")
        self._images.doubleClicked.connect(self._open)
        self._tabs = QTabWidget()
        self._tabs.addTab(self._means, "Means")
        self._tabs.addTab(self._images, "Images")
        self._export = button(
            "Export CSV and HTML ...", "Write the evaluation into a folder.", self._choose_folder
        )
        self.preferred_width = 380
        self.fill_scrolling(self._controls, self._panel, self._tabs, self._export)
        self._follow_found()

    def run(self) -> None:
        """Start the evaluation that the controls describe."""
        with self._message.showing_errors():
            options = self._controls.options()
            self._found = self._last = None
            self._tabs.setCurrentWidget(self._images)
            self._means.show_rows([])
            self._images.show_rows([])
            self._export.setEnabled(False)
            self._panel.start(lambda: kpac.evaluate(options), "Loading ...", self._show_result)

    def export(self, folder: Path) -> None:
        """Write the evaluation on display into a folder."""
        found = self._found
        if found is not None:
            self._export.setEnabled(False)
            self._panel.start(lambda: _export(found, folder), "Writing ...", self._show_result)

    def _follow_found(self) -> None:
        """Show the means of an evaluation that did not come to its end."""
        last, self._last = self._last, None
        self._export.setEnabled(self._found is not None)
        if self._found is None and last is not None:
            self._summariser.ask(lambda: _so_far(last), self._show_so_far)

    def _show_so_far(self, found: Evaluation | None) -> None:
        if found is None or self._found is not None or self._panel.task.is_running:
            return
        said, place = split_place(self._message.text())
        for row in found.results.rows[self._images.content.rowCount() :]:
            self._add_row(row)  # it was being measured when the work was cancelled
        self._show_result(found)
        self._export.setEnabled(True)
        count = max(line.images for line in found.lines)
        tried = f"{count} image{'s' * (count != 1)} that all methods were tried on"
        see = f" (see {place})" if place else ""
        self._message.setText(f"{said} The means are over the {tried}.{see}")

    def _show_row(self, progress: Progress) -> None:
        row = getattr(progress, "row", None)
        if row is None:
            return
        self._last = progress
        self._add_row(row)

    def _add_row(self, row: Any) -> None:
        table = self._images
        if not table.headings:
            table.show_rows(("image", "method", *_columns(row.scores), NOISE))
        scores = [row.scores.get(name) for name in table.headings[2:-1]]
        table.append((row.image, row.method, *scores, row.noise))

    def _show_result(self, found: Evaluation) -> None:
        self._found = found
        columns = _columns(found.results.columns)
        rows: list[tuple[Cell, ...]] = [
            (line.method, *(line.means.get(c) for c in columns), line.noise, float(line.images))
            for line in found.lines
        ]
        if "psnr" in columns:
            for row in paper.QUALITY:
                figures = (getattr(row, c) if c in PAPER_COLUMNS else None for c in columns)
                rows.append((f"paper, on DPDD: {row.label}", *figures, None, None))
        self._means.show_rows(("method", *columns, NOISE, COUNT), rows)
        self._images.resizeColumnsToContents()
        self._tabs.setCurrentWidget(self._means)
        self.scroll_to(self._export)
        self.scroll_to(self._tabs)
        if found.report is not None:
            self._message.setText(f"Wrote {found.report}")
        else:
            images = len({row.image for row in found.results.rows})
            self._message.setText(
                f"{images} images. The paper's figures are the paper's, on the test set of "
                "DPDD, SSIM of preset paper; ours are of this data, SSIM of preset "
                f"{found.options.ssim}."
            )

    def _choose_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder for the report")
        if folder:
            self.export(Path(folder))

    def _open(self, index: QModelIndex) -> None:
        """Open the images of the row that was double-clicked."""
        if self._found is None:
            self._message.setText("Images can be opened when the evaluation is done.")
            return
        study, row = self._found.study, self._images.row_of(index)
        name = self._found.results.rows[row].image
        self._message.setText("Making the images of this row again ...")
        self._opener.ask(lambda: study.images(row), lambda images: self._add(name, images))

    def _add(self, name: str, images: Mapping[str, npt.NDArray[Any]]) -> None:
        """Add the images of a row as layers."""
        for what, image in images.items():
            signed = bool(image.min() < 0)
            extent = max(float(np.abs(image).max()), 1e-6)
            self._viewer.add_image(
                image,
                name=f"{name}: {what}",
                rgb=image.ndim == 3,
                contrast_limits=(-extent, extent) if signed else (0, 1),
                colormap="PiYG" if signed else "gray",
                metadata={METADATA: "evaluation"},
            )
        self._message.setText(f"Opened {len(images)} layers of {name}.")


def _columns(names: Any) -> list[str]:
    """Return the columns that are shown: scores of images, or else all."""
    return [name for name in names if name in (*PAPER_COLUMNS, "mae")] or list(names)


def _so_far(last: Any) -> Evaluation | None:
    from napari_kpac.evaluation.study import evaluated_so_far

    return evaluated_so_far(last)


def _export(found: Evaluation, folder: Path) -> Steps[Evaluation]:
    from napari_kpac.evaluation.study import export_steps

    return export_steps(found, folder)
