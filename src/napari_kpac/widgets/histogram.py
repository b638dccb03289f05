"""A histogram with a threshold, in the colours of the window.

Not for: counting.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QWidget

BELOW, ABOVE, LINE = QColor("#7f8fa6"), QColor("#e08a3c"), QColor("#d64545")


class HistogramPlot(QWidget):
    """Draws counts over 0..1; what lies above the threshold is coloured."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: npt.NDArray[Any] = np.zeros(0)
        self._threshold = 0.5
        self.setFixedHeight(70)
        self.setToolTip("How often each blur value occurs; orange counts as blurred.")

    def show_histogram(self, counts: npt.NDArray[Any], threshold: float) -> None:
        """Show these counts."""
        self._counts, self._threshold = np.asarray(counts, float), threshold
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw bars (on a root scale, so that small ones show) and the threshold."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.palette().base())
        width, height = self.width(), self.height()
        if len(self._counts) and self._counts.max() > 0:
            heights = np.sqrt(self._counts / self._counts.max()) * (height - 4)
            step = width / len(heights)
            for index, tall in enumerate(heights):
                colour = ABOVE if (index + 0.5) / len(heights) >= self._threshold else BELOW
                left = int(index * step)
                painter.fillRect(left, int(height - tall), max(1, int(step + 1)), int(tall), colour)
            painter.fillRect(int(self._threshold * (width - 1)), 0, 2, height, LINE)
        painter.end()
