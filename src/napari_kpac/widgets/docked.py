"""What every widget of the plugin has in common: it lets go when its window goes, it scrolls.

Not for: controls (form.py), running work (run_panel.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtCore import QEvent, QObject, QSize, Qt
from qtpy.QtWidgets import QLayout, QScrollArea, QVBoxLayout, QWidget

from napari_kpac.widgets import preferences
from napari_kpac.widgets.task import Task, when_destroyed

Part = TypeVar("Part")
_closing: set[DockedWidget] = set()


class DockedWidget(QWidget):
    """A widget for napari's docks; :meth:`kept` parts are released with it."""

    def __init__(self, viewer: Viewer) -> None:
        super().__init__()
        self._viewer = viewer
        self._kept: list[Any] = []
        # Now, while the window is being built, and not when somebody presses a button: the first
        # time that preferences are read, napari looks through all plugins.
        preferences.get("live", True)

    def kept(self, part: Part) -> Part:
        """Return this part; its ``release`` is called when the widget goes."""
        self._kept.append(part)
        return part

    def release(self) -> None:
        """Stop work and stop following the viewer."""
        for task in self.findChildren(Task):
            task.cancel(forget=True)
        while self._kept:
            self._kept.pop().release()

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Release everything when the window goes away."""
        if self not in _closing:
            self.release()
            # Held until Qt has destroyed it: the garbage collector would do so in whatever
            # thread it happens to run, and a widget must not end in another than the window's.
            _closing.add(self)
            when_destroyed(self, partial(_closing.discard, self))
            self.deleteLater()
        super().closeEvent(event)

    def event(self, event: QEvent | None) -> bool:
        """Close when the dock was closed: napari takes its widget out and tells it nothing."""
        if event is not None and event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.close()
        return bool(super().event(event))

    def fill_scrolling(self, *parts: QWidget | QLayout) -> QVBoxLayout:
        """Fill the widget with a page that scrolls up and down; returns the page's layout.

        The parts come one above the other, and below them what is left of the height.
        """
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(6, 6, 6, 6)
        for part in parts:
            if isinstance(part, QWidget):
                layout.addWidget(part)
            else:
                layout.addLayout(part)
        if parts:
            layout.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(_Scrolling(page))
        return layout


class _Scrolling(QScrollArea):
    """Scrolls a page up and down and is always as wide as the page needs."""

    def __init__(self, page: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(page)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Leave room for the page and for the scroll bar beside it."""
        page, bar = self.widget(), self.verticalScrollBar()
        wide = 0 if page is None else page.minimumSizeHint().width()
        return QSize(wide + (0 if bar is None else bar.sizeHint().width()), 120)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Follow the page when what is on it changes."""
        if event is not None and event.type() == QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().eventFilter(watched, event)


def first_hint(button: str, layer: Layer | None) -> str:
    """Return what to do first, for somebody who has just opened a widget."""
    if layer is not None:
        return f"Choose an image and press {button}."
    return (
        f"Open an image and press {button}. None at hand? File > Open Sample > "
        "KPAC defocus deblurring."
    )
