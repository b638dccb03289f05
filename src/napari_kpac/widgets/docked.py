"""What every widget of the plugin has in common: it lets go when its window goes, it scrolls.

Not for: controls.
"""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QScrollArea, QVBoxLayout, QWidget


class DockedWidget(QWidget):
    """A widget for napari's docks; subclasses say in :meth:`release` what to let go of."""

    def release(self) -> None:
        """Stop work and stop following the viewer."""
        raise NotImplementedError

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Let go of everything when the window goes away."""
        self.release()
        super().closeEvent(event)

    def event(self, event: QEvent | None) -> bool:
        """Notice that the dock was closed: napari takes its widget out and tells it nothing."""
        if event is not None and event.type() == QEvent.Type.ParentChange:
            if self.parent() is None:
                self.close()
        return bool(super().event(event))

    def fill_scrolling(self) -> QVBoxLayout:
        """Fill the widget with a page that scrolls up and down; returns the page's layout."""
        page = QWidget()
        layout = QVBoxLayout(page)
        layout.setContentsMargins(6, 6, 6, 6)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(page)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(area)
        return layout
