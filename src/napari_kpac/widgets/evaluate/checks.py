"""A short list of things of which several can be chosen.

Not for: what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QListWidget, QListWidgetItem

ROWS = 4
"""Rows that are shown without scrolling."""


class CheckList(QListWidget):
    """A list with a box to tick before each entry."""

    def __init__(self, tooltip: str) -> None:
        super().__init__()
        self.setToolTip(tooltip)
        self.setAccessibleName(tooltip)
        # In napari's dark theme an empty box is as dark as the list.
        self.setStyleSheet(
            "QListView::indicator:unchecked "
            "{ border: 1px solid gray; border-radius: 2px; width: 9px; height: 9px; }"
        )

    @property
    def chosen(self) -> tuple[str, ...]:
        """Values of what is ticked, from top to bottom."""
        return tuple(
            item.data(Qt.ItemDataRole.UserRole)
            for item in self._items()
            if item.checkState() == Qt.CheckState.Checked
        )

    @chosen.setter
    def chosen(self, values: Iterable[str]) -> None:
        wanted = set(values)
        for item in self._items():
            ticked = item.data(Qt.ItemDataRole.UserRole) in wanted
            item.setCheckState(Qt.CheckState.Checked if ticked else Qt.CheckState.Unchecked)

    @property
    def values(self) -> list[str]:
        """Values of all entries."""
        return [item.data(Qt.ItemDataRole.UserRole) for item in self._items()]

    @property
    def entries(self) -> list[tuple[str, str]]:
        """All entries as (label, value)."""
        return [(item.text(), item.data(Qt.ItemDataRole.UserRole)) for item in self._items()]

    def offer(self, entries: Sequence[tuple[str, str]], chosen: Iterable[str]) -> None:
        """Show (label, value) entries."""
        self.clear()
        for label, value in entries:
            item = QListWidgetItem(label, self)
            item.setData(Qt.ItemDataRole.UserRole, value)
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
        self.chosen = tuple(chosen)
        row = max(self.sizeHintForRow(0), self.fontMetrics().height() + 4)
        self.setFixedHeight(row * max(2, min(ROWS, len(entries))) + 6)

    def add(self, label: str, value: str) -> None:
        """Add an entry that is chosen at once."""
        self.offer([*self.entries, (label, value)], (*self.chosen, value))

    def _items(self) -> list[QListWidgetItem]:
        found = (self.item(row) for row in range(self.count()))
        return [item for item in found if item is not None]
