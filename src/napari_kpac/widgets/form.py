"""A form: labels in one column, controls in the other, aligned.

Not for: the controls themselves (magicgui).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QEvent, QObject
from qtpy.QtWidgets import QGridLayout, QLabel, QWidget


class Form(QWidget):
    """Lays magicgui controls out in rows; a control that is hidden takes its label along."""

    def __init__(self, controls: Sequence[Any]) -> None:
        super().__init__()
        self._labels: dict[QObject, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setColumnStretch(1, 1)
        for row, control in enumerate(controls):
            native = control.native
            label = QLabel(control.label)
            label.setToolTip(control.tooltip or "")
            label.setBuddy(native)
            grid.addWidget(label, row, 0)
            grid.addWidget(native, row, 1)
            self._labels[native] = label
            native.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Show or hide a label with its control."""
        kind = None if event is None else event.type()
        if kind in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            if isinstance(watched, QWidget) and watched in self._labels:
                self._labels[watched].setVisible(not watched.isHidden())
        return False
