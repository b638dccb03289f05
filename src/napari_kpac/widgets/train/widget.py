"""The Train widget: starts, pauses, resumes and stops a run, and shows how it goes.

Not for: the set-up (settings.py), the plots (curves.py), the training (training).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from napari.viewer import Viewer
from qtpy.QtWidgets import QCheckBox, QFileDialog, QGridLayout

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.form import Fold, button
from napari_kpac.widgets.layers import ResultLayers
from napari_kpac.widgets.run_panel import Message, RunPanel, duration
from napari_kpac.widgets.task import Latest
from napari_kpac.widgets.train.expected import ExpectedTime, describe_looking
from napari_kpac.widgets.train.run import History, RunOpened, install, resume, start
from napari_kpac.widgets.train.settings import Settings

PREVIEW = "napari-kpac training preview"
NO_PLOTS = 'The curves need pyqtgraph: pip install "napari-kpac[all]". Training works without.'
LOOKING = "Looking at the data ..."
STOPPING = "Stopping after this step ..."


class TrainWidget(DockedWidget):
    """Trains a network in a thread."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._run: Path | None = None
        self._name = ""
        self._last: Any = None
        """The last step's progress."""
        self._has_model = self._stopping = False
        self._history = History()
        self._results = ResultLayers(napari_viewer)
        self._settings = self.kept(Settings(napari_viewer))
        self._setup = Fold("Set-up", self._settings, is_open=True)
        self._expected = self.kept(ExpectedTime(self._settings))
        self._panel = RunPanel("", cancelled=STOPPING, describe=describe_looking)
        self._message = self._panel.message
        self._installer = Latest(self)
        self._curves = self._make_curves()
        self._preview_check = QCheckBox("preview as a layer")
        self._preview_check.setToolTip("Crops of the last validation: blurred, deblurred, sharp.")
        self._preview_check.setChecked(True)
        self.fill_scrolling(
            self._setup, self._expected, self._build_buttons(), self._panel,
            self._curves or Message(NO_PLOTS), self._preview_check,
        )  # fmt: skip
        task = self._panel.task
        task.progressed.connect(self._show_progress)
        task.failed.connect(self._forget_stopping)
        task.paused.connect(self._show_paused)
        task.resumed.connect(lambda: self._pause.setText("Pause"))
        task.ended.connect(self._show_ended)
        self._installer.failed.connect(self._message.show_error)
        self._enable(running=False)
        self._message.setText("Choose what to train on, and press Start.")

    def _make_curves(self) -> Any:
        try:
            from napari_kpac.widgets.train.curves import Curves
        except ImportError:
            return None
        return self.kept(Curves(self._viewer))

    def _build_buttons(self) -> QGridLayout:
        self._start = button("Start", "Train a model as it is set up above.", self.start)
        self._pause = button(
            "Pause", "Wait after this step; the computer is free meanwhile.", self._toggle_pause
        )
        self._stop = button("Stop", "Stop after this step; the run can be resumed.", self.stop)
        self._resume = button(
            "Resume a run ...", "Open the folder of a run and go on with it.", self._ask_run
        )
        self._install = button(
            "Install best", "Put the best model so far into the lists of models.",
            self.install,
        )  # fmt: skip
        grid = QGridLayout()
        for place, part in enumerate((self._start, self._pause, self._stop)):
            grid.addWidget(part, 0, 2 * place, 1, 2)
        grid.addWidget(self._resume, 1, 0, 1, 3)
        grid.addWidget(self._install, 1, 3, 1, 3)
        return grid

    # -- starting and stopping --------------------------------------------------------------

    def start(self) -> None:
        """Begin a run as it is set up."""
        with self._message.showing_errors():
            options, run, data = self._settings.chosen()
            self._begin(run, lambda: start(options, run, data))

    def resume(self, run: str | Path) -> None:
        """Go on with the run in a folder."""
        folder = Path(run)
        self._begin(folder, lambda: resume(folder))

    def stop(self) -> None:
        """Stop after the step that is being done; the run can be resumed."""
        self._stopping = True
        self._panel.cancel()

    def install(self) -> None:
        """Put the best model of the run into the lists of models."""
        if self._run is not None:
            run, name = self._run, self._name
            self._installer.ask(lambda: install(run, name), self._show_installed)

    def _begin(self, run: Path, make: Callable[[], Steps[Any]]) -> None:
        self._run, self._last = run, None
        self._has_model = self._stopping = False
        self._expected.stop()
        self._panel.start(make, LOOKING, self._show_trained)
        self._enable(running=True)

    def _toggle_pause(self) -> None:
        if not self._panel.task.is_paused:
            self._message.setText("Pausing after this step ...")
        self._panel.task.toggle_pause()

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
        elif self._last is not None:
            self._message.setText(f"Step {progress.done} of {progress.total}: {progress.stage}")

    def _show_opened(self, opened: RunOpened) -> None:
        assert self._run is not None  # noqa: S101 - it was set when the work began
        if opened.resumed:
            self._settings.show_run(opened.options, self._run)
        self._name = opened.options.name
        self._has_model = bool(opened.history)
        self._history = History()
        for row in opened.history:
            self._history.add_row(row)
        self._draw()
        self._message.setText(LOOKING)
        self._enable(running=True)

    def _show_step(self, progress: Any) -> None:
        if self._last is None:
            self._history.cut(progress.done)
            self._setup.is_open = False
        self._last = progress
        self._history.add(progress)
        self._draw()
        self._message.setText(
            f"Step {progress.done} of {progress.total} ({progress.stage}), loss"
            f" {self._history.lines['smooth loss'].values[-1]:.4f},"
            f" about {duration(progress.eta)} left"
        )
        if progress.scores is not None:
            self._has_model = True
            self._install.setEnabled(True)
            if self._preview_check.isChecked():
                self._results.put(
                    "preview", progress.scores.preview, {}, name=PREVIEW, rgb=True,
                    record={"preview of": str(self._run)},
                )  # fmt: skip

    def _draw(self) -> None:
        if self._curves is not None:
            self._curves.draw(self._history)

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

    def _forget_stopping(self) -> None:
        self._stopping = False

    def _show_ended(self) -> None:
        """Show that nothing runs; of a run that was stopped, how to go on with it."""
        if self._stopping and self._last is not None:
            self._message.setText(
                f"Stopped after {self._last.done} of {self._last.total} steps. Everything is kept"
                f" in {self._run}: “Resume a run” goes on from there."
            )
        elif self._stopping:
            self._message.setText("Stopped before the first step.")
        self._pause.setText("Pause")
        self._enable(running=False)

    def _enable(self, *, running: bool) -> None:
        for part in (self._start, self._resume, self._settings):
            part.setEnabled(not running)
        for part in (self._pause, self._stop):
            part.setEnabled(running)
        self._install.setEnabled(self._has_model)
        self._expected.setVisible(not running)
