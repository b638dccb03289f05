"""The plots of a run: loss, validation error, and the alphas of each block. Needs pyqtgraph.

Not for: what is drawn (history.py).
"""

from __future__ import annotations

from typing import Any

import pyqtgraph
from napari.utils.theme import get_theme
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget

from napari_kpac.widgets.task import later
from napari_kpac.widgets.train.history import History, Line

REDRAWN = 300
"""Milliseconds between two drawings at least."""
COLOURS = ("#3f8fd2", "#e08a3c", "#43a563", "#d64545", "#9a6fd0", "#8a7a5c", "#c86fa9", "#7f8fa6")
"""Readable on dark and on light."""


class Curves(QWidget):
    """Draws a history, a few times a second at most."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._history = History()
        self._timer = later(self, REDRAWN, self._draw)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)
        self._plots: list[_Plot] = []
        self.loss = self._add_plot(
            f"loss {_coloured('smoothed', 0)}", "Mean absolute error of each step's crops."
        )
        self._loss = self.loss.add_line(COLOURS[0], faint=True)
        self._smooth = self.loss.add_line(COLOURS[0])
        self.error = self._add_plot(
            f"validation error: {_coloured('deblurred', 0)}, {_coloured('blurred input', 1)}",
            "Mean absolute error of crops that are not learned from. Below the input's: it helps.",
        )
        self._error = self.error.add_line(COLOURS[0], points=True)
        self._input = self.error.add_line(COLOURS[1], dashed=True)
        self.alphas: dict[int, _Plot] = {}
        self._alphas: dict[tuple[int, int], Any] = {}
        viewer.events.theme.connect(self._follow_theme)
        self._follow_theme()

    def show_history(self, history: History) -> None:
        """Draw this one from now on."""
        self._history = history
        self.refresh()

    def refresh(self) -> None:
        """Draw soon."""
        if not self._timer.isActive():
            self._timer.start()

    def release(self) -> None:
        """Stop drawing and stop following the viewer."""
        self._timer.stop()
        self._viewer.events.theme.disconnect(self._follow_theme)

    def _draw(self) -> None:
        history = self._history
        for curve, line in (
            (self._loss, history.loss),
            (self._smooth, history.smooth_loss),
            (self._error, history.error),
            (self._input, history.input_error),
        ):
            _set(curve, line)
        for key, curve in self._alphas.items():
            if key not in history.alphas:
                curve.clear()
        for key in sorted(history.alphas):
            if key not in self._alphas:
                self._add_alpha(*key)
            _set(self._alphas[key], history.alphas[key])
        shown = {block for block, _ in history.alphas}
        for block, plot in self.alphas.items():
            plot.whole.setVisible(block in shown)

    def _add_alpha(self, block: int, index: int) -> None:
        if block not in self.alphas:
            count = sum(known == block for known, _ in self._history.alphas)
            names = " ".join(_coloured(f"α{number}", number - 1) for number in range(1, count + 1))
            plot = self.alphas[block] = self._add_plot(
                f"mean alpha of block {block}: {names}",
                "How much each dilation is used. All at 0 or at 1: the attention has died.",
            )
            plot.setYRange(0, 1)
        colour = COLOURS[(index - 1) % len(COLOURS)]
        self._alphas[block, index] = self.alphas[block].add_line(colour)

    def _add_plot(self, title: str, tooltip: str) -> _Plot:
        plot = _Plot(title)
        plot.whole.setToolTip(tooltip)
        self._plots.append(plot)
        self._layout.addWidget(plot.whole)
        self._colour(plot)
        return plot

    def _follow_theme(self, event: object = None) -> None:
        del event
        for plot in self._plots:
            self._colour(plot)

    def _colour(self, plot: _Plot) -> None:
        theme = get_theme(self._viewer.theme)
        plot.set_colours(theme.background.as_hex(), theme.text.as_hex())


class _Plot(pyqtgraph.PlotWidget):  # type: ignore[misc]
    """A small plot under its title, that leaves the mouse wheel to the page around it."""

    def __init__(self, title: str) -> None:
        super().__init__(enableMenu=False)
        self.whole = QWidget()
        layout = QVBoxLayout(self.whole)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        heading = QLabel(title)
        heading.setTextFormat(Qt.TextFormat.RichText)
        layout.addWidget(heading)
        layout.addWidget(self)
        self.setFixedHeight(104)
        self.setMouseEnabled(x=False, y=False)
        self.hideButtons()
        self.getAxis("left").setWidth(54)

    def add_line(
        self, colour: str, *, faint: bool = False, dashed: bool = False, points: bool = False
    ) -> Any:
        """Add an empty line."""
        shade = QColor(colour)
        shade.setAlphaF(0.35 if faint else 1.0)
        style = Qt.PenStyle.DashLine if dashed else Qt.PenStyle.SolidLine
        pen = pyqtgraph.mkPen(shade, width=1 if faint else 2, style=style)
        mark = {"symbol": "o", "symbolSize": 5, "symbolBrush": shade, "symbolPen": None}
        return self.plot([], [], pen=pen, **(mark if points else {}))

    def set_colours(self, background: str, text: str) -> None:
        """Follow the window's theme."""
        self.setBackground(background)
        for name in ("left", "bottom"):
            self.getAxis(name).setPen(text)
            self.getAxis(name).setTextPen(text)

    def wheelEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Let the page scroll."""
        event.ignore()


def _set(curve: Any, line: Line) -> None:
    curve.setData(line.steps, line.values)


def _coloured(text: str, number: int) -> str:
    return f'<span style="color:{COLOURS[number % len(COLOURS)]}">{text}</span>'
