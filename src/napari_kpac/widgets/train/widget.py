"""The Train widget: starts, pauses, resumes and stops a run, and shows how it goes.

Not for: the set-up (settings.py), the plots (curves.py), the training (training).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from napari.utils.notifications import show_info
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QGridLayout,
    QLabel,
    QProgressBar,
    QPushButton,
)

from napari_kpac.core.errors import KpacError, for_people
from napari_kpac.core.progress import Progress
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.form import Fold
from napari_kpac.widgets.placement import METADATA, find_layer
from napari_kpac.widgets.task import Task, single
from napari_kpac.widgets.train.history import History
from napari_kpac.widgets.train.running import RunOpened, install, resume, start
from napari_kpac.widgets.train.settings import Settings

PREVIEW = "napari-kpac training preview"
NO_PLOTS = 'The curves need pyqtgraph: pip install "napari-kpac[all]". Training works without.'


class TrainWidget(DockedWidget):
    """Trains a network in a thread."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self._run: Path | None = None
        self._name = ""
        self._last: Any = None
        self._has_model = self._stopping = False
        self._preview_id: Any = None
        self._history = History()
        self._task = Task(self)
        self._installer = Task(self)
        self._settings = Settings(napari_viewer)
        self._curves = _make_curves(napari_viewer)
        self._build()
        self._connect()
        self._show_idle()
        self._message.setText("Choose what to train on, and press Start.")

    def _build(self) -> None:
        self._setup = Fold("Set-up", self._settings, is_open=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._preview_check = QCheckBox("preview as a layer: blurred | deblurred | sharp")
        self._preview_check.setChecked(True)
        self.setMinimumWidth(360)
        layout = self.fill_scrolling()
        layout.addWidget(self._setup)
        layout.addLayout(self._build_buttons())
        layout.addWidget(self._bar)
        layout.addWidget(self._message)
        layout.addWidget(self._curves)
        layout.addWidget(self._preview_check)
        layout.addStretch(1)

    def _build_buttons(self) -> QGridLayout:
        grid = QGridLayout()
        self._start = QPushButton("Start")
        self._pause = QPushButton("Pause")
        self._stop = QPushButton("Stop")
        self._resume = QPushButton("Resume a run ...")
        self._install = QPushButton("Install best so far")
        for button, place, tooltip in (
            (self._start, (0, 0, 1, 2), "Train a model as it is set up above."),
            (self._pause, (0, 2, 1, 2), "Wait after this step; the computer is free meanwhile."),
            (self._stop, (0, 4, 1, 2), "Stop after this step; the run can be resumed."),
            (self._resume, (1, 0, 1, 3), "Open the folder of a run and go on with it."),
            (self._install, (1, 3, 1, 3), "Put the best model so far into the lists of models."),
        ):
            button.setToolTip(tooltip)
            grid.addWidget(button, *place)
        return grid

    def _connect(self) -> None:
        self._start.clicked.connect(self.start)
        self._pause.clicked.connect(self._toggle_pause)
        self._stop.clicked.connect(self.stop)
        self._resume.clicked.connect(self._ask_run)
        self._install.clicked.connect(self.install)
        self._task.progressed.connect(self._show_progress)
        self._task.succeeded.connect(self._show_trained)
        self._task.failed.connect(self._show_error)
        self._task.paused.connect(self._show_paused)
        self._task.resumed.connect(lambda: self._pause.setText("Pause"))
        self._task.ended.connect(self._show_idle)
        self._installer.succeeded.connect(self._show_installed)
        self._installer.failed.connect(self._show_error)

    def release(self) -> None:
        """Stop after the step that is being done, keep everything, stop following the viewer."""
        self._task.cancel(forget=True)
        self._installer.cancel(forget=True)
        self._settings.release()
        if not isinstance(self._curves, QLabel):
            self._curves.release()

    # -- starting and stopping --------------------------------------------------------------

    def start(self) -> None:
        """Begin a run as it is set up."""
        try:
            options, run, data = self._settings.chosen()
        except KpacError as error:
            self._show_error(for_people(error))
            return
        self._begin(run, lambda: start(options, run, data))

    def resume(self, run: str | Path) -> None:
        """Go on with the run in a folder."""
        folder = Path(run)
        self._begin(folder, lambda: resume(folder))

    def stop(self) -> None:
        """Stop after the step that is being done; the run can be resumed."""
        self._stopping = True
        self._message.setText("Stopping after this step ...")
        self._task.cancel()

    def install(self) -> None:
        """Put the best model of the run into the lists of models."""
        if self._run is not None:
            run, name = self._run, self._name
            self._installer.start(single(lambda: install(run, name)))

    def _begin(self, run: Path, make: Any) -> None:
        self._run, self._last = run, None
        self._has_model = self._stopping = False
        self._bar.setRange(0, 0)
        self._message.setText("Looking at the data ...")
        self._task.start(make)
        self._show_busy()

    def _toggle_pause(self) -> None:
        if not self._task.is_paused:
            self._message.setText("Pausing after this step ...")
        self._task.toggle_pause()

    def _ask_run(self) -> None:
        at = "" if self._run is None else str(self._run)
        folder = QFileDialog.getExistingDirectory(self, "Folder of the run", at)
        if folder:
            self.resume(folder)

    # -- showing ----------------------------------------------------------------------------

    def _show_progress(self, progress: Progress) -> None:
        if isinstance(progress, RunOpened):
            self._show_opened(progress)
        elif hasattr(progress, "loss"):
            self._show_step(progress)
        else:
            self._message.setText(f"{progress.stage}: {progress.done} of {progress.total}")

    def _show_opened(self, opened: RunOpened) -> None:
        assert self._run is not None  # noqa: S101 - it was set when the work began
        if opened.resumed:
            self._settings.show_run(opened.options, self._run)
        self._name = opened.options.name
        self._has_model = bool(opened.history)
        self._history = History()
        self._history.load(opened.history)
        self._draw(anew=True)
        self._show_busy()

    def _show_step(self, progress: Any) -> None:
        if self._last is None:
            self._history.cut(progress.done)
            self._setup.is_open = False
        self._last = progress
        self._history.add(progress)
        self._draw()
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)
        self._message.setText(
            f"Step {progress.done} of {progress.total} ({progress.stage}), loss"
            f" {self._history.smooth_loss.values[-1]:.4f}, about {_duration(progress.eta)} left"
        )
        if progress.scores is not None:
            self._has_model = True
            self._install.setEnabled(True)
            self._show_preview(progress.scores.preview)

    def _draw(self, *, anew: bool = False) -> None:
        if isinstance(self._curves, QLabel):
            return
        if anew:
            self._curves.show_history(self._history)
        self._curves.refresh()

    def _show_preview(self, image: Any) -> None:
        if not self._preview_check.isChecked():
            return
        layer = find_layer(self._viewer, self._preview_id)
        if layer is not None and layer.data.shape == image.shape:
            layer.data = image
            return
        if layer is not None:
            self._viewer.layers.remove(layer)
        layer = self._viewer.add_image(
            image, name=PREVIEW, rgb=True, metadata={METADATA: {"preview of": str(self._run)}}
        )
        self._preview_id = layer.unique_id

    def _show_paused(self) -> None:
        self._pause.setText("Resume")
        at = "" if self._last is None else f" after step {self._last.done}"
        self._message.setText(f"Paused{at}. Resume goes on; Stop keeps the run for later.")

    def _show_trained(self, trained: Any) -> None:
        self._has_model = trained.model.exists()
        self._message.setText(f"Done: {trained.steps} steps.")
        if self._has_model:
            self.install()

    def _show_installed(self, entry: Any) -> None:
        self._message.setText(f"The model “{entry.name}” is in every list of models now.")

    def _show_error(self, text: str) -> None:
        self._stopping = False
        self._message.setText(f"⚠ {text}")
        show_info(text)

    def _show_busy(self) -> None:
        for button, possible in (
            (self._start, False), (self._resume, False), (self._pause, True), (self._stop, True),
            (self._install, self._has_model),
        ):  # fmt: skip
            button.setEnabled(possible)
        self._settings.setEnabled(False)

    def _show_idle(self) -> None:
        """Show that nothing runs; of a run that was stopped, how to go on with it."""
        if self._stopping and self._last is not None:
            self._message.setText(
                f"Stopped after {self._last.done} of {self._last.total} steps. Everything is kept"
                f" in {self._run}: “Resume a run” goes on from there."
            )
        elif self._stopping:
            self._message.setText("Stopped before the first step.")
        for button, possible in (
            (self._start, True), (self._resume, True), (self._pause, False), (self._stop, False),
            (self._install, self._has_model),
        ):  # fmt: skip
            button.setEnabled(possible)
        self._pause.setText("Pause")
        self._settings.setEnabled(True)
        self._bar.setRange(0, 1)
        self._bar.setValue(0)


def _make_curves(viewer: Viewer) -> Any:
    try:
        from napari_kpac.widgets.train.curves import Curves
    except ImportError:
        missing = QLabel(NO_PLOTS)
        missing.setWordWrap(True)
        return missing
    return Curves(viewer)


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
