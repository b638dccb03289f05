"""What a run has told so far, as lines for the plots; the longest run stays short enough.

Not for: drawing (curves.py), or what is kept in files (training).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from napari_kpac.training import TrainProgress

MOST = 2000
"""Points of a line; a line that has more is thinned out."""
MEMORY = 0.97
"""What of a smoothed value is left after a step."""

_ALPHA = re.compile(r"block (\d+) alpha (\d+)")


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
        if len(self.steps) >= MOST:
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
            kept = min(most, MEMORY ** max(1.0, step - self.steps[-1]))
            value = kept * self.values[-1] + (1 - kept) * value
        super().add(step, value)


class History:
    """The lines of one run."""

    def __init__(self) -> None:
        self.loss = Line()
        self.smooth_loss = SmoothLine()
        self.error = Line()
        self.input_error = Line()
        self.alphas: dict[tuple[int, int], SmoothLine] = {}
        """By block and number, both counted from 1."""

    @property
    def lines(self) -> list[Line]:
        """All lines."""
        return [self.loss, self.smooth_loss, self.error, self.input_error, *self.alphas.values()]

    def add(self, progress: TrainProgress) -> None:
        """Take in a step."""
        step = progress.done
        self._add_loss(step, progress.loss)
        for block, means in enumerate(progress.alphas, 1):
            for index, mean in enumerate(means, 1):
                self._add_alpha(step, block, index, mean)
        if progress.scores is not None:
            self.error.add(step, progress.scores.mae)
            self.input_error.add(step, progress.scores.input_mae)

    def load(self, rows: Iterable[Mapping[str, float]]) -> None:
        """Take in the rows of a run's table."""
        for row in rows:
            step = row["step"]
            for name, value in row.items():
                if match := _ALPHA.fullmatch(name):
                    self._add_alpha(step, int(match[1]), int(match[2]), value)
            if "loss" in row:
                self._add_loss(step, row["loss"])
            if "mae" in row and "input mae" in row:
                self.error.add(step, row["mae"])
                self.input_error.add(step, row["input mae"])

    def cut(self, step: float) -> None:
        """Forget what came at a step or after it: it is being done again."""
        for line in self.lines:
            line.cut(step)

    def _add_loss(self, step: float, value: float) -> None:
        self.loss.add(step, value)
        self.smooth_loss.add(step, value)

    def _add_alpha(self, step: float, block: int, index: int, mean: float) -> None:
        self.alphas.setdefault((block, index), SmoothLine()).add(step, mean)
