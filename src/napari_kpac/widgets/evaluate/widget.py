"""The Evaluate widget itself: start, follow, look at single images, export.

Not for: the controls (controls), or tables (table).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from napari.viewer import Viewer
from qtpy.QtCore import QModelIndex, Qt
from qtpy.QtWidgets import QFileDialog, QLabel, QProgressBar, QPushButton, QTabWidget

from napari_kpac.core.errors import KpacError, for_people
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.evaluation import paper
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.evaluate.controls import Controls
from napari_kpac.widgets.evaluate.table import Cell, SortedTable
from napari_kpac.widgets.placement import METADATA
from napari_kpac.widgets.task import Task

if TYPE_CHECKING:
    from napari_kpac.evaluation import EvaluateOptions, Evaluation

NAMES = ("image", "method")
NOISE, COUNT = "noise %", "images"
PAPERS = ("psnr", "ssim", "lpips")
"""Columns for which the paper prints figures."""


class EvaluateWidget(DockedWidget):
    """Compares models and methods on a dataset."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self._found: Evaluation | None = None
        self._controls = Controls()
        self._button = QPushButton("Evaluate")
        self._button.clicked.connect(self._toggle)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._message = QLabel("Choose a folder of data and press Evaluate.")
        self._message.setWordWrap(True)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._means, self._images = SortedTable(), SortedTable()
        self._images.setToolTip("Double-click a row to open its images as layers.")
        self._images.doubleClicked.connect(self._open)
        self._export = QPushButton("Export CSV and HTML ...")
        self._export.clicked.connect(self._choose_folder)
        self._task = Task(self)
        self._task.progressed.connect(self._show_progress)
        self._task.succeeded.connect(self._show_result)
        self._task.failed.connect(lambda text: self._message.setText(f"⚠ {text}"))
        self._task.cancelled.connect(lambda: self._message.setText("Cancelled."))
        self._task.ended.connect(self._show_idle)
        self._looking = Task(self)
        self._looking.succeeded.connect(self._show_layers)
        self._looking.failed.connect(lambda text: self._message.setText(f"⚠ {text}"))
        self._build()
        self._show_idle()

    def _build(self) -> None:
        tabs = QTabWidget()
        tabs.addTab(self._means, "Means")
        tabs.addTab(self._images, "Images")
        self._tabs = tabs
        self.setMinimumWidth(380)
        layout = self.fill_scrolling()
        for part in (
            self._controls, self._button, self._bar, self._message, tabs, self._export,
        ):  # fmt: skip
            layout.addWidget(part)
        layout.addStretch(1)

    def release(self) -> None:
        """Stop work."""
        self._task.cancel(forget=True)
        self._looking.cancel(forget=True)
        self._controls.release()

    def _toggle(self) -> None:
        if self._task.is_running:
            self._message.setText("Stopping after this image ...")
            self._task.cancel()
        else:
            self.run()

    def run(self) -> None:
        """Start the evaluation that the controls describe."""
        try:
            options = self._controls.options()
        except KpacError as error:
            self._message.setText(f"⚠ {for_people(error)}")
            return
        self._found = None
        self._means.reset_to([])
        self._images.reset_to([])
        self._begin("Loading ...")
        self._task.start(lambda: _evaluation(options))

    def export(self, folder: Path) -> None:
        """Write the evaluation on display into a folder."""
        found = self._found
        if found is None:
            return
        self._begin("Writing ...")
        self._task.start(lambda: _export(found, folder))

    def _begin(self, text: str) -> None:
        self._message.setText(text)
        self._button.setText("Cancel")
        self._export.setEnabled(False)
        self._bar.setRange(0, 0)

    def _show_idle(self) -> None:
        self._button.setText("Evaluate")
        self._export.setEnabled(self._found is not None)
        self._bar.setRange(0, 1)
        self._bar.setValue(0)

    def _show_progress(self, progress: Progress) -> None:
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)
        self._message.setText(progress.stage)
        row = getattr(progress, "row", None)
        if row is not None:
            content = self._images.content
            if not content.headings:
                columns = [c for c in row.scores if c in (*PAPERS, "mae")] or list(row.scores)
                self._images.reset_to((*NAMES, *columns, NOISE))
            scores = [row.scores.get(name) for name in content.headings[len(NAMES) : -1]]
            content.append((row.image, row.method, *scores, row.noise))

    def _show_result(self, found: Evaluation) -> None:
        self._found = found
        columns = [name for name in found.results.columns if name in (*PAPERS, "mae")]
        columns = columns or list(found.results.columns)
        headings = ("method", *columns, NOISE, COUNT)
        rows: list[tuple[Cell, ...]] = [
            (line.method, *(line.means.get(c) for c in columns), line.noise, float(line.images))
            for line in found.lines
        ]
        if "psnr" in columns:
            rows += [
                (
                    f"paper, on DPDD: {row.label}",
                    *(getattr(row, name) if name in PAPERS else None for name in columns),
                    None,
                    None,
                )
                for row in paper.QUALITY
            ]
        self._means.reset_to(headings, rows)
        self._images.resizeColumnsToContents()
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
        found, row = self._found, self._images.row_of(index)
        self._message.setText("Making the images of this row again ...")
        self._looking.start(lambda: _images(found, row))

    def _show_layers(self, made: tuple[str, Mapping[str, npt.NDArray[Any]]]) -> None:
        name, images = made
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


def _evaluation(options: EvaluateOptions) -> Steps[Evaluation]:
    from napari_kpac.evaluation import evaluate

    return evaluate(options)


def _export(found: Evaluation, folder: Path) -> Steps[Evaluation]:
    from napari_kpac.evaluation.study import export_steps

    return export_steps(found, folder)


def _images(found: Evaluation, row: int) -> Steps[tuple[str, Mapping[str, npt.NDArray[Any]]]]:
    yield Progress(0, 1, "images")
    return found.results.rows[row].image, found.study.images(row)
