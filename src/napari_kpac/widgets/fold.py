"""A part of a page that folds away under its title.

Not for: what it holds.
"""

from __future__ import annotations

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget


class Fold(QWidget):
    """Shows or hides its content; a click on the title, or the space bar, does so."""

    def __init__(self, title: str, content: QWidget, *, is_open: bool = False) -> None:
        super().__init__()
        self.button = QToolButton()
        self.button.setText(title)
        self.button.setCheckable(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._content = content
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addWidget(self.button)
        layout.addWidget(content)
        self.button.toggled.connect(self._show)
        self.button.setChecked(is_open)
        self._show(is_open)

    @property
    def is_open(self) -> bool:
        """Whether the content is shown."""
        return self.button.isChecked()

    @is_open.setter
    def is_open(self, is_open: bool) -> None:
        self.button.setChecked(is_open)

    def _show(self, is_open: bool) -> None:
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
        self._content.setVisible(is_open)
