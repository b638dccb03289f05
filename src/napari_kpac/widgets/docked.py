"""What every widget of the plugin has in common: it lets go when its window goes, it scrolls.

Not for: controls.
"""

from __future__ import annotations

from typing import Any

from napari.layers import Layer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QScrollArea, QVBoxLayout, QWidget

from napari_kpac.widgets import preferences


class DockedWidget(QWidget):
    """A widget for napari's docks; subclasses say in :meth:`release` what to let go of."""

    def __init__(self) -> None:
        super().__init__()
        # Now, while the window is being built, and not when somebody presses a button.
        preferences.load()

    def release(self) -> None:
        """Stop work and stop following the viewer."""
        raise NotImplementedError

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Let go of everything when the window goes away."""
        self.release()
        super().closeEvent(event)

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


def first_hint(button: str, layer: Layer | None) -> str:
    """Say what to do first, to somebody who has just opened a widget."""
    if layer is not None:
        return f"Choose an image and press {button}."
    return (
        f"Open a picture and press {button}. None at hand? File > Open Sample > "
        "KPAC defocus deblurring."
    )
