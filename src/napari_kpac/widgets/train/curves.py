"""The plots of a run: loss, validation error, and the alphas of each block. Needs pyqtgraph.

Not for: what is drawn (run.py).
"""

from __future__ import annotations

from typing import Any

import pyqtgraph
from napari.utils.theme import get_theme
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QLabel, QVBoxLayout, QWidget
from superqt.utils import qthrottled

from napari_kpac.widgets.train.run import History

REDRAW_MS = 300
"""Between two drawings at least."""
COLOURS = ("#3f8fd2", "#e08a3c", "#43a563", "#d64545", "#9a6fd0", "#8a7a5c", "#c86fa9", "#7f8fa6")
"""Readable on dark and on light."""


class Curves(QWidget):
    """Draws a history, a few times a second at most."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(2)
        self.plots: dict[str, _Plot] = {}
        """``loss``, ``error``, ``block 1`` and so on."""
        loss = self._add_plot(
            "loss",
            f"loss {_coloured('smoothed', 0)}",
            "Mean absolute error of each step's crops.",
        )
        error = self._add_plot(
            "error",
            f"validation error: {_coloured('deblurred', 0)}, {_coloured('blurred input', 1)}",
            "Mean absolute error of crops that are not learned from. Below the input's: it helps.",
        )
        self.curves = {
            "loss": loss.add_curve(COLOURS[0], faint=True),
            "smooth loss": loss.add_curve(COLOURS[0]),
            "mae": error.add_curve(COLOURS[0], points=True),
            "input mae": error.add_curve(COLOURS[1], dashed=True),
        }
        """Named as the lines of a history."""
        viewer.events.theme.connect(self._follow_theme)

    def release(self) -> None:
        """Stop following the viewer."""
        self._viewer.events.theme.disconnect(self._follow_theme)

    @qthrottled(timeout=REDRAW_MS, leading=False)
    def draw(self, history: History) -> None:
        """Draw soon."""
        for name in sorted(history.lines.keys() - self.curves.keys()):
            self._add_alpha(name, history)
        for name, curve in self.curves.items():
            line = history.lines.get(name)
            if line is None:
                curve.clear()
            else:
                curve.setData(line.steps, line.values)
        shown = {name.partition(" alpha ")[0] for name in history.lines}
        for name, plot in self.plots.items():
            plot.frame.setVisible(name in shown or not name.startswith("block"))

    def _add_alpha(self, name: str, history: History) -> None:
        """Add the curve of an alpha, and the plot of its block before the first."""
        block, _, index = name.partition(" alpha ")
        if block not in self.plots:
            count = sum(known.startswith(f"{block} alpha") for known in history.lines)
            names = " ".join(_coloured(f"α{number + 1}", number) for number in range(count))
            plot = self._add_plot(
                block,
                f"mean alpha of {block}: {names}",
                "How much each dilation is used. All at 0 or at 1: the attention has died.",
            )
            plot.setYRange(0, 1)
        colour = COLOURS[(int(index) - 1) % len(COLOURS)]
        self.curves[name] = self.plots[block].add_curve(colour)

    def _add_plot(self, name: str, title: str, tooltip: str) -> _Plot:
        plot = self.plots[name] = _Plot(title, tooltip)
        self._layout.addWidget(plot.frame)
        self._follow_theme()
        return plot

    def _follow_theme(self) -> None:
        theme = get_theme(self._viewer.theme)
        for plot in self.plots.values():
            plot.set_colours(theme.background.as_hex(), theme.text.as_hex())


class _Plot(pyqtgraph.PlotWidget):  # type: ignore[misc]
    """A small plot under its title, that leaves the mouse wheel to the page around it."""

    def __init__(self, title: str, tooltip: str) -> None:
        super().__init__(enableMenu=False)
        self.frame = QWidget()
        self.frame.setToolTip(tooltip)
        layout = QVBoxLayout(self.frame)
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

    def add_curve(
        self, colour: str, *, faint: bool = False, dashed: bool = False, points: bool = False
    ) -> Any:
        """Add an empty curve."""
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


def _coloured(text: str, number: int) -> str:
    return f'<span style="color:{COLOURS[number % len(COLOURS)]}">{text}</span>'
