"""A run as the window drives it in a thread, and the lines of its plots.

Not for: the training itself and its files (training), or drawing (curves.py).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.training.options import TrainOptions
from napari_kpac.widgets.train.data import ChosenData, write_layers

if TYPE_CHECKING:
    from napari_kpac.training import TrainProgress

DATA = "data"
"""Folder of a run that holds images from layers."""
MAX_POINTS = 2000
"""Points of a line; a line that has more is thinned out."""
SMOOTHING = 0.97
"""What of a smoothed value is left after a step."""

_ALPHA = re.compile(r"block \d+ alpha \d+")


@dataclass(frozen=True)
class RunOpened(Progress):
    """A run is about to begin or to go on."""

    options: TrainOptions = field(default_factory=TrainOptions)
    resumed: bool = False
    history: tuple[Mapping[str, float], ...] = ()
    """Rows of the table of what was done before."""


def start(options: TrainOptions, run: Path, chosen: ChosenData) -> Steps[Any]:
    """Begin a run; what is wrong with it is said before anything is trained."""
    from napari_kpac.training.loop import train_steps
    from napari_kpac.training.run_folder import RunFolder, check_free

    check_free(options.name, run)
    folder = RunFolder(run)
    folder.check_free()
    data = run / DATA
    existed = data.exists()
    try:
        if chosen.layers:
            options = replace(options, root=(str(data),))
            yield from write_layers(chosen, data)
        yield RunOpened(0, options.total, "opening", options=options)
        return (yield from train_steps(options, run))
    finally:
        # A run that was never begun leaves none of its images behind.
        if chosen.layers and not existed and folder.is_free:
            shutil.rmtree(data, ignore_errors=True)


def resume(run: Path) -> Steps[Any]:
    """Go on with a run."""
    from napari_kpac.training.loop import train_steps
    from napari_kpac.training.run_folder import RunFolder

    folder = RunFolder(run)
    options = folder.options()
    history = tuple(folder.metrics())
    yield RunOpened(0, options.total, "opening", options=options, resumed=True, history=history)
    return (yield from train_steps(options, run, resume=True))


def install(run: Path, name: str) -> Any:
    """Put the best model of a run into the catalogue."""
    from napari_kpac.training.run_folder import install_best

    return install_best(run, name)


class Line:
    """Values over steps; where there are too many, the means of neighbours."""

    def __init__(self) -> None:
        self.steps: list[float] = []
        self.values: list[float] = []
        self._stride = 1
        self._waiting: list[float] = []

    def add(self, step: float, value: float) -> None:
        """Add a value, later than those before."""
        self._waiting.append(value)
        if len(self._waiting) < self._stride:
            return
        self.steps.append(step)
        self.values.append(sum(self._waiting) / len(self._waiting))
        self._waiting = []
        if len(self.steps) >= MAX_POINTS:
            pairs = zip(self.values[::2], self.values[1::2], strict=False)
            self.values = [(first + second) / 2 for first, second in pairs]
            self.steps = self.steps[1::2]
            self._stride *= 2

    def cut(self, step: float) -> None:
        """Forget what came at a step or after it."""
        kept = sum(known < step for known in self.steps)
        del self.steps[kept:], self.values[kept:]
        self._waiting = []


class SmoothLine(Line):
    """A line that follows its values slowly."""

    def add(self, step: float, value: float) -> None:
        """Add a value."""
        if self.steps:
            # The first value must not weigh more than those that follow it.
            most = len(self.steps) / (1 + len(self.steps))
            kept = min(most, SMOOTHING ** max(1.0, step - self.steps[-1]))
            value = kept * self.values[-1] + (1 - kept) * value
        super().add(step, value)


class History:
    """The lines of one run, named as the columns of its table; the longest run stays short."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {name: Line() for name in ("loss", "mae", "input mae")}
        self.lines["smooth loss"] = SmoothLine()

    def add(self, progress: TrainProgress) -> None:
        """Take in a step."""
        row = {"loss": progress.loss, "step": progress.done}
        for block, means in enumerate(progress.alphas, 1):
            row |= {f"block {block} alpha {index}": mean for index, mean in enumerate(means, 1)}
        if progress.scores is not None:
            row |= {"mae": progress.scores.mae, "input mae": progress.scores.input_mae}
        self.add_row(row)

    def add_row(self, row: Mapping[str, float]) -> None:
        """Take in a row of the run's table."""
        for name, value in row.items():
            if _ALPHA.fullmatch(name):
                self.lines.setdefault(name, SmoothLine())
            if name in self.lines:
                self.lines[name].add(row["step"], value)
        if "loss" in row:
            self.lines["smooth loss"].add(row["step"], row["loss"])

    def cut(self, step: float) -> None:
        """Forget what came at a step or after it: it is being done again."""
        for line in self.lines.values():
            line.cut(step)
