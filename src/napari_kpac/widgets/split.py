"""The line of the split in the canvas, with a handle to move it by.

Qt widgets above the canvas: napari has no layer that is in no list. Not for: the pixels on either
side (compare.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from napari.viewer import Viewer
from qtpy.QtCore import QEvent, QObject, QPointF, QRectF, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtGui import QColor, QPainter, QPen, QPolygonF
from qtpy.QtWidgets import QMainWindow, QWidget

HANDLE_PX = 26
MARGIN_PX = 3
"""Around the line, for its dark edge."""
LIGHT, DARK = QColor("#ffffff"), QColor("#202428")


class SplitLine(QObject):
    """Shows where a result is split, while it is in view."""

    dragged = Signal(float)
    """The handle was dragged to this column of the result, counted in its pixels from 0."""

    def __init__(self, viewer: Viewer, owner: QWidget) -> None:
        super().__init__(owner)
        self._viewer = viewer
        self._owner = owner
        self._layer: Image | None = None
        self._column = 0
        self._canvas: Any = None
        # Children of the owner until there is a canvas: Qt ends them, and not the garbage collector
        # in whatever thread it happens to run.
        self.line, self.handle = _Line(owner), _Handle(owner)
        self.handle.dragged.connect(self._drag)
        for event in self._followed():
            event.connect(self.follow)

    def _followed(self) -> Iterator[Any]:
        camera, dims = self._viewer.scene.camera.events, self._viewer.dims.events
        yield from (camera.center, camera.zoom, camera.orientation)
        yield from (dims.current_step, dims.ndisplay, dims.order, dims.ndim)
        yield self._viewer.canvas.grid.events.enabled

    def show(self, layer: Image, column: int) -> None:
        """Show the line left of a column of a layer."""
        self._layer, self._column = layer, column
        if self._canvas is None:
            self._canvas = _canvas_of(self._owner)
            if self._canvas is None:
                return
            for part in (self.line, self.handle):
                part.setParent(self._canvas)
            self._canvas.installEventFilter(self)
            self._canvas.destroyed.connect(self._forget_canvas)
        self.follow()

    def hide(self) -> None:
        """Show no line."""
        self._layer = None
        self.follow()

    def release(self) -> None:
        """Take the line off the canvas and stop following it."""
        self.hide()
        for event in self._followed():
            event.disconnect(self.follow)
        if self._canvas is not None:
            self._canvas.removeEventFilter(self)
            for part in (self.line, self.handle):
                part.deleteLater()

    def follow(self, event: object = None) -> None:
        """Put the line where the split is on the canvas by now."""
        del event
        if self._canvas is None:
            return
        ends = self._ends()
        for part in (self.line, self.handle):
            part.setVisible(ends is not None)
        if ends is None:
            return
        self.line.put(*ends)
        middle = (ends[0] + ends[1]) / 2
        self.handle.move((middle - QPointF(HANDLE_PX, HANDLE_PX) / 2).toPoint())
        self.handle.raise_()

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Follow the size of the canvas."""
        del watched
        if event is not None and event.type() == QEvent.Type.Resize:
            self.follow()
        return False

    def _forget_canvas(self) -> None:
        """Forget the canvas, which was destroyed with what is on it."""
        self._canvas = None

    def _ends(self) -> tuple[QPointF, QPointF] | None:
        """Return the ends of the visible part of the line in the canvas, None where it is not."""
        layer = self._layer
        if layer is None or not self._shows_slice(layer):
            return None
        rows = layer.data.shape[-3 if layer.rgb else -2]
        lead = np.rint(layer.world_to_data(self._viewer.dims.point))[:-2]
        ends = [
            self._on_canvas(layer.data_to_world((*lead, row, self._column - 0.5)))
            for row in (-0.5, rows - 0.5)
        ]
        size = np.array([self._canvas.width(), self._canvas.height()], float)
        clipped = _clip(ends[0], ends[1], size)
        return None if clipped is None else (QPointF(*clipped[0]), QPointF(*clipped[1]))

    def _shows_slice(self, layer: Image) -> bool:
        """Return True if the viewer shows rows and columns of the layer, at one of its slices."""
        dims = self._viewer.dims
        if dims.ndisplay != 2 or self._viewer.canvas.grid.enabled:
            return False
        if sorted(dims.displayed) != [dims.ndim - 2, dims.ndim - 1]:
            return False
        lead = np.rint(layer.world_to_data(dims.point))[:-2]
        return bool(np.all((lead >= 0) & (lead < layer.data.shape[: len(lead)])))

    def _on_canvas(self, world: Any) -> npt.NDArray[np.float64]:
        """Return (x, y) in the canvas of a point in the world."""
        axes = np.asarray(self._viewer.dims.displayed) - self._viewer.dims.ndim
        place = (np.asarray(world)[axes] - self._centre()) * self._zoom()
        middle = np.array([self._canvas.height(), self._canvas.width()]) / 2
        return np.asarray((middle + place)[::-1], float)

    def _centre(self) -> npt.NDArray[np.float64]:
        return np.asarray(self._viewer.scene.camera.center, float)[-2:]

    def _zoom(self) -> npt.NDArray[np.float64]:
        """Return pixels of the canvas per unit of the world, downwards and to the right."""
        camera = self._viewer.scene.camera
        down, right = camera.orientation2d
        signs = [1.0 if down == "down" else -1.0, 1.0 if right == "right" else -1.0]
        return np.array(signs) * float(camera.zoom)

    def _drag(self, place: QPointF) -> None:
        layer = self._layer
        if layer is None:
            return
        middle = np.array([self._canvas.height(), self._canvas.width()]) / 2
        world = np.array(self._viewer.dims.point, float)
        moved = (np.array([place.y(), place.x()]) - middle) / self._zoom()
        world[list(self._viewer.dims.displayed)] = self._centre() + moved
        self.dragged.emit(float(layer.world_to_data(world)[-1] + 0.5))


def _canvas_of(widget: QWidget) -> QWidget | None:
    """Return the canvas of the window that a widget is docked in; napari does not hand it out."""
    window: QWidget | None = widget
    while window is not None and not isinstance(window, QMainWindow):
        window = window.parentWidget()
    central = None if window is None else window.centralWidget()
    found = [] if central is None else central.findChildren(QWidget)
    return next((each for each in found if each.inherits("QOpenGLWidget")), None)


def _clip(
    start: npt.NDArray[Any], end: npt.NDArray[Any], size: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]] | None:
    """Return the part of a line within 0..size, None where it lies outside (Liang-Barsky)."""
    way, first, last = end - start, 0.0, 1.0
    for axis in (0, 1):
        if abs(way[axis]) < 1e-9:
            if not 0 <= start[axis] <= size[axis]:
                return None
            continue
        enters, leaves = sorted((edge - start[axis]) / way[axis] for edge in (0.0, size[axis]))
        first, last = max(first, enters), min(last, leaves)
    return None if first >= last else (start + first * way, start + last * way)


class _Line(QWidget):
    """A straight line, light with dark edges, that lets the mouse through."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.hide()
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._ends = QPointF(), QPointF()

    def put(self, start: QPointF, end: QPointF) -> None:
        """Draw from here to there, in the parent's pixels."""
        margin = MARGIN_PX
        box = QRectF(start, end).normalized().adjusted(-margin, -margin, margin, margin)
        self.setGeometry(box.toAlignedRect())
        corner = QPointF(self.pos())
        self._ends = start - corner, end - corner
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw the line."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for colour, width in ((DARK, 4), (LIGHT, 2)):
            painter.setPen(QPen(colour, width))
            painter.drawLine(*self._ends)
        painter.end()


class _Handle(QWidget):
    """A round handle with an arrow to either side."""

    dragged = Signal(QPointF)
    """To this place in the parent."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.hide()
        self.setFixedSize(HANDLE_PX, HANDLE_PX)
        self.setCursor(Qt.CursorShape.SplitHCursor)
        self.setToolTip("Left: the input. Right: the result. Drag to move the split.")

    def mousePressEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Take the mouse, so that the canvas does not move."""
        event.accept()

    def mouseMoveEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Say where the handle is dragged to."""
        self.dragged.emit(QPointF(self.mapToParent(event.position().toPoint())))

    def mouseReleaseEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Keep the release from the canvas, too."""
        event.accept()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw the handle."""
        del event
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(DARK, 1.5))
        painter.setBrush(LIGHT)
        half = HANDLE_PX / 2
        painter.drawEllipse(QPointF(half, half), half - 1.5, half - 1.5)
        painter.setBrush(DARK)
        for side in (-1, 1):
            tip, back = half + side * 8, half + side * 3
            arrow = [QPointF(tip, half), QPointF(back, half - 4), QPointF(back, half + 4)]
            painter.drawPolygon(QPolygonF(arrow))
        painter.end()
