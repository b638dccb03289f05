"""The expected time of a run, shown before it is started.

Not for: the measurement itself (training.pace).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from napari_kpac.core.errors import KpacError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.training.options import TrainOptions
from napari_kpac.widgets.run_panel import Message, duration
from napari_kpac.widgets.task import Task, later
from napari_kpac.widgets.train.data import ChosenData, write_layers
from napari_kpac.widgets.train.settings import Settings

if TYPE_CHECKING:
    from napari_kpac.training.pace import Pace

SETTLED_MS = 1500
"""After the last change, before anything is measured."""
FREE_OPTIONS = ("name", "seed", "steps", "fine_steps", "validate_every", "save_every")
"""Options on which the pace does not depend."""
TITLE = "Expected time: "
UNKNOWN = f"{TITLE}measured as soon as the data is chosen."


class ExpectedTime(Message):
    """Says how long the run that is set up would take.

    The pace is measured in a thread with a few steps of that very run, whenever something is
    chosen on which it depends. Opening the data for that says early what is wrong with it.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(UNKNOWN)
        self._settings = settings
        self._paces: dict[str, Pace] = {}
        """What was measured, by what it depends on."""
        self.task = Task(self)
        self.task.progressed.connect(self._show_progress)
        self.task.failed.connect(self._show_failure)
        self._timer = later(self, SETTLED_MS, self._ask)
        settings.changed.connect(self._timer.start)

    def release(self) -> None:
        """Stop following the settings."""
        self._settings.changed.disconnect(self._timer.start)
        self.stop()

    def stop(self) -> None:
        """Measure nothing until something else is chosen: the computer is needed."""
        self._timer.stop()
        self.task.cancel(forget=True)

    def _ask(self) -> None:
        """Show the time of what is chosen, if its pace is known; else measure it."""
        if not self._settings.isEnabled():  # a run is under way
            return
        self.task.cancel(forget=True)
        try:
            options, _, data = self._settings.chosen()
        except KpacError:  # pressing Start says what is missing
            self.setText(UNKNOWN)
            return
        key = _key(options, data)
        if key in self._paces:
            self._show(options, self._paces[key])
            return

        def keep(pace: Pace) -> None:
            self._paces[key] = pace
            self._show(options, pace)

        self.setText(f"{TITLE}measuring ...")
        self.task.start(lambda: _measure(options, data), keep)

    def _show(self, options: TrainOptions, pace: Pace) -> None:
        steps = " to ".join(f"{each:.2g}" for each in sorted({min(pace.steps), max(pace.steps)}))
        self.setText(
            f"{TITLE}about {duration(pace.duration(options))}. {options.total} steps of {steps} s,"
            f" validations of {duration(pace.validation)}; measured just now on this computer with"
            " these options."
        )

    def _show_progress(self, progress: Progress) -> None:
        self.setText(f"{TITLE}measuring. {describe_looking(progress)}")

    def _show_failure(self, text: str) -> None:
        self.setText(f"{TITLE}not known. {text}")


def describe_looking(progress: Progress) -> str:
    """Return what is being done before the first step."""
    stage = f"{progress.stage[:1].upper()}{progress.stage[1:]}"
    return f"{stage} ({progress.done} of {progress.total})"


def _key(options: TrainOptions, data: ChosenData) -> str:
    decisive = {k: v for k, v in options.to_dict().items() if k not in FREE_OPTIONS}
    phases = [phase.label for phase in options.schedule()]
    return str((decisive, phases, [id(layer.data) for layer in data.layers]))


def _measure(options: TrainOptions, data: ChosenData) -> Steps[Pace]:
    """Measure the pace; of layers, the first image of each is written for that. For threads."""
    from napari_kpac.training.pace import measure_pace

    with TemporaryDirectory(prefix="napari-kpac-") as folder:
        if data.layers:
            options = replace(options, root=(folder,))
            yield from write_layers(data, Path(folder), limit=1)
        return (yield from measure_pace(options))
