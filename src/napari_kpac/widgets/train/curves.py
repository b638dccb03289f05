"""The plots of a run: loss, validation error, and the alphas of each block. Needs pyqtgraph.

Not for: what is drawn (run.py).
"""

from __future__ import annotations

from typing import Any

import pyqtgraph
from napari.utils.theme import get_theme
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from superqt.utils import qthrottled

from napari_kpac.widgets.train.run import History

REDRAW_MS = 300
"""Between two drawings at least."""
PLOT_HEIGHT_PX = 124
COLOURS = ("#3f8fd2", "#e08a3c", "#43a563", "#d64545", "#9a6fd0", "#8a7a5c", "#c86fa9", "#7f8fa6")
"""Readable on dark and on light."""
FAINT = "59"
"""Opacity of a colour, in hexadecimal digits."""


class Curves(pyqtgraph.GraphicsLayoutWidget):  # type: ignore[misc]
    """Draws a history, a few times a second at most; leaves the mouse wheel to its page."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self.ci.layout.setContentsMargins(0, 0, 0, 0)
        self.ci.layout.setVerticalSpacing(2)
        self._titles: dict[str, str] = {}
        self.plots: dict[str, Any] = {}
        """``loss``, ``error``, ``block 1`` and so on."""
        self.curves: dict[str, Any] = {}
        """Named as the lines of a history."""
        self._start(History())
        viewer.events.theme.connect(self._follow_theme)

    def release(self) -> None:
        """Stop following the viewer."""
        self._viewer.events.theme.disconnect(self._follow_theme)

    @qthrottled(timeout=REDRAW_MS, leading=False)
    def draw(self, history: History) -> None:
        """Draw soon."""
        if history is not self._history:
            self._start(history)
        for name in sorted(history.lines.keys() - self.curves.keys()):
            self._add_alpha(name)
        for name, line in history.lines.items():
            self.curves[name].setData(line.steps, line.values)

    def _start(self, history: History) -> None:
        """Make the plots that every run has."""
        self.clear()
        self._history = history
        self.plots, self._titles = {}, {}
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
        blue, orange = COLOURS[:2]
        points = {"symbol": "o", "symbolSize": 5, "symbolBrush": blue, "symbolPen": None}
        self.curves = {
            "loss": loss.plot(pen={"color": blue + FAINT, "width": 1}),
            "smooth loss": loss.plot(pen={"color": blue, "width": 2}),
            "mae": error.plot(pen={"color": blue, "width": 2}, **points),
            "input mae": error.plot(
                pen={"color": orange, "width": 2, "style": Qt.PenStyle.DashLine}
            ),
        }

    def _add_alpha(self, name: str) -> None:
        """Add the curve of an alpha, and the plot of its block before the first."""
        block, _, index = name.partition(" alpha ")
        if block not in self.plots:
            count = sum(known.startswith(f"{block} alpha") for known in self._history.lines)
            names = " ".join(_coloured(f"α{number + 1}", number) for number in range(count))
            plot = self._add_plot(
                block,
                f"mean alpha of {block}: {names}",
                "How much each dilation is used. All at 0 or at 1: the attention has died.",
            )
            plot.setYRange(0, 1)
        colour = COLOURS[(int(index) - 1) % len(COLOURS)]
        self.curves[name] = self.plots[block].plot(pen={"color": colour, "width": 2})

    def _add_plot(self, name: str, title: str, tooltip: str) -> Any:
        plot = self.plots[name] = self.addPlot(row=len(self.plots), col=0, enableMenu=False)
        self._titles[name] = title
        plot.setToolTip(tooltip)
        plot.setMouseEnabled(x=False, y=False)
        plot.hideButtons()
        plot.getAxis("left").setWidth(54)
        self.setFixedHeight(PLOT_HEIGHT_PX * len(self.plots))
        self._follow_theme()
        return plot

    def _follow_theme(self) -> None:
        theme = get_theme(self._viewer.theme)
        text = theme.text.as_hex()
        self.setBackground(theme.background.as_hex())
        for name, plot in self.plots.items():
            plot.setTitle(self._titles[name], color=text, size="9pt", justify="left")
            for side in ("left", "bottom"):
                plot.getAxis(side).setPen(text)
                plot.getAxis(side).setTextPen(text)

    def wheelEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Let the page scroll."""
        event.ignore()


def _coloured(text: str, number: int) -> str:
    return f'<span style="color:{COLOURS[number % len(COLOURS)]}">{text}</span>'
