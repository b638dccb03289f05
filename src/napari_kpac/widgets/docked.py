"""What every widget of the plugin has in common: it lets go when its window goes, scrolls, helps.

Not for: controls (form.py), running work (run_panel.py), the documentation (help.py).
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeGuard, TypeVar

from napari.layers import Layer
from napari.viewer import Viewer
from qtpy.QtCore import QEvent, QObject, QSize, Qt
from qtpy.QtWidgets import (
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QScrollBar,
    QVBoxLayout,
    QWidget,
)

from napari_kpac.widgets import preferences
from napari_kpac.widgets.form import button
from napari_kpac.widgets.help import dock_place, show_help
from napari_kpac.widgets.task import Task, when_destroyed

NARROWEST_PX = 250
"""What a dock can be narrowed to, so that two fit beside each other and an image beside them."""
Part = TypeVar("Part")
_closing: set[DockedWidget] = set()


class DockedWidget(QWidget):
    """A widget for napari's docks; :meth:`kept` parts are released with it."""

    preferred_width = 360
    """In pixels, of a dock that is opened; it can be narrowed and then scrolls."""

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
        """Fill the widget with a page that scrolls; returns the page's layout.

        The parts come one above the other, and below them what is left of the height. A button
        for help stays below the page.
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
        foot = QHBoxLayout()
        foot.setContentsMargins(6, 0, 6, 4)
        foot.addStretch(1)
        told = "Open the documentation of this dock; works without a network."
        foot.addWidget(button("Help", told, self._show_help))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(2)
        self._scrolling = _Scrolling(page)
        outer.addWidget(self._scrolling)
        outer.addLayout(foot)
        return layout

    def _show_help(self) -> None:
        show_help(self, dock_place(type(self).__name__))

    def scroll_to(self, part: QWidget) -> None:
        """Scroll until a part of the page is in view."""
        self._scrolling.ensureWidgetVisible(part, 0, 6)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Ask for the preferred width, or more where the page needs it."""
        hint = super().sizeHint()
        return QSize(max(hint.width(), self.preferred_width), hint.height())


class _Scrolling(QScrollArea):
    """Scrolls a page up and down; sideways only where it is narrower than the page can be.

    The mouse wheel scrolls it also above a control, which otherwise would change: choices never
    follow the wheel, sliders and numbers once they were clicked.
    """

    def __init__(self, page: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setWidget(page)

    def minimumSizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Be no narrower than a dock can be used, even where the page needs more."""
        return QSize(NARROWEST_PX, 120)

    def sizeHint(self) -> QSize:  # noqa: N802 - Qt's name
        """Leave room for the page and for the scroll bar beside it."""
        return QSize(self._page_width(), super().sizeHint().height())

    def _page_width(self) -> int:
        page, bar = self.widget(), self.verticalScrollBar()
        wide = 0 if page is None else page.minimumSizeHint().width()
        return wide + (0 if bar is None else bar.sizeHint().width())

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Follow the page when what is on it changes; keep the wheel from its controls."""
        kind = None if event is None else event.type()
        if kind == QEvent.Type.LayoutRequest:
            self.updateGeometry()
            self._follow_controls()
        if event is not None and kind == QEvent.Type.Wheel and _is_control(watched):
            if isinstance(watched, QComboBox) or not watched.hasFocus():
                event.ignore()  # so that it goes on to the page
                return True
        return super().eventFilter(watched, event)

    def _follow_controls(self) -> None:
        page = self.widget()
        for control in () if page is None else page.findChildren(QWidget):
            if _is_control(control):
                control.installEventFilter(self)
                if control.focusPolicy() == Qt.FocusPolicy.WheelFocus:
                    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


def _is_control(part: QObject | None) -> TypeGuard[QWidget]:
    """Return True if the mouse wheel would change it; scroll bars are meant to follow it."""
    controls = (QComboBox, QAbstractSpinBox, QAbstractSlider)
    return isinstance(part, controls) and not isinstance(part, QScrollBar)


def first_hint(button: str, layer: Layer | None) -> str:
    """Return what to do first, for somebody who has just opened a widget."""
    if layer is not None:
        return f"Choose an image and press {button}."
    return (
        f"Open an image and press {button}. None at hand? File > Open Sample > "
        "KPAC defocus deblurring."
    )
