"""A list with boxes to tick, and a table that sorts by any column.

Not for: what is in them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qtpy.QtCore import QModelIndex, QSortFilterProxyModel, Qt
from qtpy.QtGui import QStandardItem, QStandardItemModel
from qtpy.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QTableView

Cell = str | float | None
"""What a cell holds; None shows as a dash and comes last."""

MAX_ROWS = 4
"""Rows of a list that are shown without scrolling."""
VALUE = Qt.ItemDataRole.UserRole
CHECKED, UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked


class CheckList(QListWidget):
    """A list with a box to tick before each entry."""

    def __init__(self, tooltip: str) -> None:
        super().__init__()
        self._entries: dict[str, QListWidgetItem] = {}
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
        return tuple(v for v, item in self._entries.items() if item.checkState() == CHECKED)

    @chosen.setter
    def chosen(self, values: Iterable[str]) -> None:
        wanted = set(values)
        for value, item in self._entries.items():
            item.setCheckState(CHECKED if value in wanted else UNCHECKED)

    @property
    def entries(self) -> list[tuple[str, str]]:
        """All entries as (label, value)."""
        return [(item.text(), value) for value, item in self._entries.items()]

    def offer(self, entries: Sequence[tuple[str, str]], chosen: Iterable[str]) -> None:
        """Show (label, value) entries."""
        self.clear()
        self._entries = {value: QListWidgetItem(label, self) for label, value in entries}
        for item in self._entries.values():
            item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsUserCheckable)
        self.chosen = tuple(chosen)
        row = max(self.sizeHintForRow(0), self.fontMetrics().height() + 4)
        self.setFixedHeight(row * max(2, min(MAX_ROWS, len(entries))) + 6)


class SortedTable(QTableView):
    """Shows rows of cells below headings; a click on a heading sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.content = QStandardItemModel(self)
        self.order = _Sorted(self)
        self.order.setSourceModel(self.content)
        self.setModel(self.order)
        self.setSortingEnabled(True)
        self.order.sort(-1)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setMinimumHeight(160)
        numbers = self.verticalHeader()
        if numbers is not None:
            numbers.setVisible(False)

    def show_rows(self, headings: Sequence[str], rows: Iterable[Sequence[Cell]] = ()) -> None:
        """Show other rows, in the order given."""
        self.headings = list(headings)
        self.content.clear()
        for column, heading in enumerate(headings):
            item = QStandardItem(heading)
            item.setToolTip(heading)
            self.content.setHorizontalHeaderItem(column, item)
        for row in rows:
            self.append(row)
        self.order.sort(-1)
        self.resizeColumnsToContents()

    def append(self, row: Sequence[Cell]) -> None:
        """Add a row at the end, or where it belongs in a sorted table."""
        self.content.appendRow(
            [_item(cell, heading) for cell, heading in zip(row, self.headings, strict=True)]
        )

    def change(self, row: int, cells: Sequence[Cell]) -> None:
        """Show other cells in a row, by its number as it was added."""
        for column, (cell, heading) in enumerate(zip(cells, self.headings, strict=True)):
            self.content.setItem(row, column, _item(cell, heading))

    def row_of(self, index: QModelIndex) -> int:
        """Return the number of a row as it was added, whatever the order on display."""
        return int(self.order.mapToSource(index).row())

    def column_texts(self, column: int) -> list[str]:
        """Return what a column shows, from top to bottom."""
        return [str(self.order.index(row, column).data()) for row in range(self.order.rowCount())]


class _Sorted(QSortFilterProxyModel):
    """Sorts numbers as numbers; what is missing comes last in either order."""

    def lessThan(self, left: QModelIndex, right: QModelIndex) -> bool:  # noqa: N802 - Qt's name
        a, b = left.data(VALUE), right.data(VALUE)
        if a is None or b is None:
            missing_first = self.sortOrder() == Qt.SortOrder.DescendingOrder
            return (a is None) == missing_first and a is not b
        if isinstance(a, str) or isinstance(b, str):
            return str(a) < str(b)
        return bool(a < b)


def _item(cell: Cell, heading: str) -> QStandardItem:
    item = QStandardItem(_text(cell, heading))
    item.setData(cell, VALUE)
    if isinstance(cell, str):
        item.setToolTip(cell)  # whole, where the column is too narrow
    if not isinstance(cell, str):
        item.setTextAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return item


def _text(cell: Cell, heading: str) -> str:
    if isinstance(cell, str):
        return cell
    if cell is None:
        return "-"
    if float(cell).is_integer() and heading in ("noise %", "images"):
        return f"{cell:g}"
    return f"{cell:.2f}" if heading.startswith("psnr") else f"{cell:.4f}"
