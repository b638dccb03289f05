"""A table of names and numbers that sorts by any column.

Not for: what is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSortFilterProxyModel, Qt
from qtpy.QtWidgets import QAbstractItemView, QTableView

Cell = str | float | None
"""What a cell holds; None shows as a dash and comes last."""
DIGITS = {"psnr": 2}
NO_PARENT = QModelIndex()


class TableModel(QAbstractTableModel):
    """Rows of cells below headings; rows can be added one by one."""

    def __init__(self, headings: Sequence[str] = ()) -> None:
        super().__init__()
        self.headings = list(headings)
        self.rows: list[Sequence[Cell]] = []

    def reset(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]] = ()) -> None:
        """Begin anew."""
        self.beginResetModel()
        self.headings, self.rows = list(headings), list(rows)
        self.endResetModel()

    def append(self, row: Sequence[Cell]) -> None:
        """Add a row at the end."""
        self.beginInsertRows(NO_PARENT, len(self.rows), len(self.rows))
        self.rows.append(row)
        self.endInsertRows()

    def rowCount(self, parent: QModelIndex = NO_PARENT) -> int:  # noqa: N802 - Qt's name
        """Return the number of rows."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: QModelIndex = NO_PARENT) -> int:  # noqa: N802 - Qt's name
        """Return the number of columns."""
        return 0 if parent.isValid() else len(self.headings)

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return a heading."""
        shown = role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
        if shown and orientation == Qt.Orientation.Horizontal:
            return self.headings[section]
        return None

    def data(self, index: QModelIndex, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Return the text of a cell, what it is sorted by, or how it is aligned."""
        cell = self.rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.UserRole:
            return cell
        if role == Qt.ItemDataRole.TextAlignmentRole and not isinstance(cell, str):
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(cell, self.headings[index.column()])
        return None

    def _text(self, cell: Cell, heading: str) -> str:
        if isinstance(cell, str):
            return cell
        if cell is None:
            return "-"
        if float(cell).is_integer() and heading in ("noise %", "images"):
            return f"{cell:g}"
        digits = next((n for name, n in DIGITS.items() if heading.startswith(name)), 4)
        return f"{cell:.{digits}f}"


class _Sorted(QSortFilterProxyModel):
    """Sorts numbers as numbers; what is missing comes last in either order."""

    def lessThan(self, left: QModelIndex, right: QModelIndex) -> bool:  # noqa: N802 - Qt's name
        a, b = (index.data(Qt.ItemDataRole.UserRole) for index in (left, right))
        if a is None or b is None:
            missing_first = self.sortOrder() == Qt.SortOrder.DescendingOrder
            return (a is None) == missing_first and a is not b
        if isinstance(a, str) or isinstance(b, str):
            return str(a) < str(b)
        return bool(a < b)


class SortedTable(QTableView):
    """Shows a table model; a click on a heading sorts."""

    def __init__(self) -> None:
        super().__init__()
        self.content = TableModel()
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

    def reset_to(self, headings: Sequence[str], rows: Sequence[Sequence[Cell]] = ()) -> None:
        """Show other rows, in the order given."""
        self.content.reset(headings, rows)
        self.order.sort(-1)
        self.resizeColumnsToContents()

    def row_of(self, index: QModelIndex) -> int:
        """Return the number of a row as it was added, whatever the order on display."""
        return int(self.order.mapToSource(index).row())

    def column_texts(self, column: int) -> list[str]:
        """Return what a column shows, from top to bottom."""
        return [str(self.order.index(row, column).data()) for row in range(self.order.rowCount())]
