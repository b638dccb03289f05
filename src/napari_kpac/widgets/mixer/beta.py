"""A small bar plot of beta, the shape attention of a block.

Not for: anything that can be changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtGui import QPainter
from qtpy.QtWidgets import QWidget


class BetaPlot(QWidget):
    """Draws one bar in 0..1 for every channel, in the colours of the theme."""

    def __init__(self) -> None:
        super().__init__()
        self.values: npt.NDArray[np.float32] = np.zeros(0, np.float32)
        self.setFixedHeight(44)
        self.setToolTip("Shape attention β: how much each channel of the block counts (0 to 1).")

    def show_values(self, values: npt.NDArray[np.float32]) -> None:
        """Show these bars."""
        self.values = values
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw the bars."""
        del event
        painter = QPainter(self)
        palette = self.palette()
        painter.fillRect(self.rect(), palette.base())
        if len(self.values):
            step = self.width() / len(self.values)
            for index, value in enumerate(self.values):
                height = float(np.clip(value, 0, 1)) * (self.height() - 2)
                left, top = int(index * step), int(self.height() - height)
                painter.fillRect(left, top, max(1, int(step) - 1), int(height), palette.highlight())
        painter.end()
