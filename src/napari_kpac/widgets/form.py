"""Forms: rows of labelled controls, folded parts, and controls from fields of options records.

Not for: which options there are, or what they may be (the record checks them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from html import escape
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from magicgui.types import FileDialogMode
from magicgui.widgets import CheckBox, ComboBox, FileEdit, LineEdit, SpinBox
from qtpy.QtCore import QEvent, QObject, Qt
from qtpy.QtWidgets import (
    QComboBox,
    QFormLayout,
    QGroupBox,
    QLabel,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from napari_kpac.core.errors import ConfigError
from napari_kpac.widgets.task import later

TOOLTIP_LETTERS = 80
"""In a line of a tooltip; longer ones are broken."""
COMBO_LETTERS = 8
"""Letters of an entry that a combo box shows at least."""


def wrapped(text: str) -> str:
    """Return a text for a tooltip: Qt breaks a long one into lines only where it is rich text."""
    if max(map(len, text.split("\n"))) <= TOOLTIP_LETTERS:
        return text
    return "<qt>" + escape(text, quote=False).replace("\n", "<br>") + "</qt>"


def choice_box(label: str, choices: Sequence[tuple[str, Any]], tooltip: str) -> ComboBox:
    """Return a combo box of choices, each a text and a value."""
    return ComboBox(label=label, choices=choices, tooltip=wrapped(tooltip))


def button(text: str, tooltip: str, action: Callable[[], None]) -> QPushButton:
    """Return a button that does something."""
    made = QPushButton(text)
    made.setToolTip(wrapped(tooltip))
    made.clicked.connect(action)
    return made


def folder_edit(label: str, tooltip: str) -> FileEdit:
    """Return a control for a folder, narrow enough for a dock."""
    return file_edit(label, tooltip, FileDialogMode.EXISTING_DIRECTORY)


def file_edit(label: str, tooltip: str, mode: FileDialogMode, files: str | None = None) -> FileEdit:
    """Return a control for the name of a file or folder, narrow enough for a dock.

    ``files`` says which files the dialog shows, as Qt has it.
    """
    edit = FileEdit(label=label, tooltip=wrapped(tooltip), mode=mode, filter=files)
    edit.choose_btn.text = "..."
    edit.choose_btn.max_width = 32
    return edit


def read_folder(edit: FileEdit) -> Path | None:
    """Return the file or folder that is written in a control; None where there is none."""
    text = str(edit.line_edit.value).strip()
    return Path(text).expanduser().absolute() if text not in ("", ".") else None


def group(title: str, *parts: QWidget) -> QGroupBox:
    """Return a frame with a title around parts, one above the other."""
    box = QGroupBox(title)
    layout = QVBoxLayout(box)
    for part in parts:
        layout.addWidget(part)
    return box


class Form(QWidget):
    """Lays magicgui controls out in rows; a control that is hidden takes its label along.

    In a narrow dock a label that has no room beside its control stands above it.
    """

    def __init__(self, controls: Sequence[Any]) -> None:
        super().__init__()
        self._labels: dict[QObject, QLabel] = {}
        rows = QFormLayout(self)
        self._invalidate_soon = later(self, 0, rows.invalidate)
        rows.setContentsMargins(0, 0, 0, 0)
        rows.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        rows.setLabelAlignment(Qt.AlignmentFlag.AlignLeft)
        rows.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        for control in controls:
            native = control.native
            let_shrink(native)
            label = QLabel(control.label)
            label.setToolTip(wrapped(control.tooltip or ""))
            label.setBuddy(native)
            rows.addRow(label, native)
            self._labels[native] = label
            native.installEventFilter(self)

    def set_label(self, control: Any, text: str) -> None:
        """Call a control otherwise."""
        self._labels[control.native].setText(text)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Show or hide a label with its control."""
        kind = None if event is None else event.type()
        if kind in (QEvent.Type.ShowToParent, QEvent.Type.HideToParent):
            if isinstance(watched, QWidget) and watched in self._labels:
                self._labels[watched].setVisible(not watched.isHidden())
                # Otherwise rows are squeezed by what a control with wrapped text wanted before.
                self._invalidate_soon.start()
        return False


def let_shrink(control: QWidget) -> None:
    """Let a combo box be narrower than its longest entry, which otherwise decides for the dock."""
    if isinstance(control, QComboBox):
        control.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        control.setMinimumContentsLength(COMBO_LETTERS)


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


MAX_INT = 2**31 - 1
"""Largest number of a spin box."""


class OptionControls:
    """Controls for some fields of an options record."""

    def __init__(
        self,
        record: type[Any],
        names: Iterable[str],
        *,
        limits: Mapping[str, tuple[float, float]] | None = None,
        choices: Mapping[str, tuple[Any, ...]] | None = None,
    ) -> None:
        """Make the controls.

        Parameters
        ----------
        record
            The options, a dataclass whose fields were made by ``core.options.option``.
        names
            The fields to show.
        limits
            Smallest and largest value of numbers.
        choices
            All values of fields that have only a few.
        """
        hints = get_type_hints(record)
        known = {item.name: item for item in fields(record)}
        self._items = {name: known[name] for name in names}
        self._controls = {
            name: _control(item, hints[name], (limits or {}).get(name), (choices or {}).get(name))
            for name, item in self._items.items()
        }

    def __getitem__(self, name: str) -> Any:
        """Return the control of a field."""
        return self._controls[name]

    def __contains__(self, name: object) -> bool:
        return name in self._controls

    @property
    def controls(self) -> list[Any]:
        """All controls, in order."""
        return list(self._controls.values())

    @property
    def values(self) -> dict[str, Any]:
        """What is chosen, by field; raises ConfigError where a text cannot be read."""
        return {name: self._read(name) for name in self._controls}

    def show_values(self, values: Mapping[str, Any]) -> None:
        """Show these values; where there is none, the default."""
        for name, control in self._controls.items():
            value = values.get(name, self._items[name].default)
            control.value = _text(value) if isinstance(control, LineEdit) else value

    def _read(self, name: str) -> Any:
        control, item = self._controls[name], self._items[name]
        if not isinstance(control, LineEdit):
            return control.value
        text = str(control.value).strip()
        if not text and (item.default == () or isinstance(item.default, str | None)):
            return item.default
        try:
            return item.metadata["parse"](text)
        except ValueError as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(
                f"{item.name.replace('_', ' ')}: {text!r} is not a value for it"
                f" ({item.metadata['help']})"
            ) from error


def _control(item: Any, kind: Any, limits: Any, choices: Any) -> Any:
    told = item.metadata["help"]
    words = {
        "name": item.name,
        "label": item.name.replace("_", " "),
        "tooltip": told[:1].upper() + told[1:],
    }
    if get_origin(kind) is Literal:
        choices = get_args(kind)
    if choices is not None:
        pairs = [(str(value), value) for value in choices]
        return ComboBox(choices=pairs, value=item.default, **words)
    if kind is bool:
        box = CheckBox(value=item.default, **words)
        box.native.setText("")  # its label stands beside it
        return box
    if kind is int:
        low, high = limits or (-MAX_INT, MAX_INT)
        return SpinBox(value=item.default, min=int(low), max=int(min(high, MAX_INT)), **words)
    return LineEdit(value=_text(item.default), **words)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple | list):
        return ",".join(f"{each:g}" for each in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
