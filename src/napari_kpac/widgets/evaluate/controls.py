"""The controls of the Evaluate widget: which data, which models and methods.

Not for: running an evaluation (widget).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from magicgui.types import FileDialogMode
from magicgui.widgets import CheckBox, ComboBox, FileEdit, LineEdit, SpinBox
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QFileDialog,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import parse_numbers
from napari_kpac.datasets.options import SPLITS
from napari_kpac.evaluation.options import METHODS, EvaluateOptions
from napari_kpac.widgets.choices import ChoiceFiller, Choices, DeviceBox
from napari_kpac.widgets.form import Form

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


KINDS = (
    ("sharp photographs", "synthetic"),
    ("DPDD", "dpdd"),
    ("folders of pairs", "pairs"),
    ("CUHK blur masks", "cuhk"),
)


class Controls(QWidget):
    """Makes the options of an evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = ComboBox(
            label="data",
            choices=list(KINDS),
            tooltip="What the folder holds: sharp photographs, which are blurred here; DPDD, or "
            "what 'synthesise' wrote; blurred and sharp images; images and masks.",
        )
        self.root = FileEdit(
            label="folder",
            mode=FileDialogMode.EXISTING_DIRECTORY,
            tooltip="The folder of the data.",
        )
        self.root.choose_btn.text = "..."
        self.split = ComboBox(
            label="split",
            choices=SPLITS,
            value="val",
            tooltip="Which part of the data to use, where it has parts: DPDD, or a MANIFEST.csv.",
        )
        self.dual = CheckBox(label="dual-pixel", tooltip="Use the left and right views too.")
        self.dual.text = "use both views"
        self.fit_exposure = CheckBox(
            label="exposure",
            tooltip="Fit gain and offset of each channel to the sharp image first: real pairs "
            "differ in exposure, which says nothing of blur.",
        )
        self.fit_exposure.text = "fit to the sharp image"
        self.blurred = ComboBox(
            label="blurred is",
            choices=("white", "black"),
            tooltip="What the masks show blurred pixels as.",
        )
        self.noise = LineEdit(
            label="noise %", value="0", tooltip="Sigmas of added noise in percent, as 0,1,3,5."
        )
        self.limit = SpinBox(
            label="images at most", value=0, min=0, max=100_000, tooltip="0: all of them."
        )
        self.device = DeviceBox()
        self.models = CheckList("models to compare")
        self.models.offer([("default", "default")], ["default"])
        self.methods = CheckList("methods without a network to compare")
        self.methods.offer([(name, name) for name in METHODS], [])
        self._add = QPushButton("Add a model file ...")
        self._add.clicked.connect(self._choose_file)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(
            Form([
                self.kind, self.root, self.split, self.dual, self.fit_exposure, self.blurred,
                self.noise, self.limit, self.device,
            ])
        )  # fmt: skip
        layout.addWidget(QLabel("models"))
        layout.addWidget(self.models)
        layout.addWidget(self._add)
        layout.addWidget(QLabel("methods without a network"))
        layout.addWidget(self.methods)
        self.kind.changed.connect(self._follow)
        self._follow()
        self._filler = ChoiceFiller(None, self.device, self)
        self._filler.filled.connect(self._fill)

    def options(self) -> EvaluateOptions:
        """Make the options; raises a ConfigError where they make no sense."""
        root = str(self.root.value or "")
        if root in ("", "."):
            raise ConfigError("choose the folder of the data first")
        kind = self.kind.value
        given: dict[str, Any] = {
            "kind": kind,
            "root": root,
            "split": self.split.value,
            "model": self.models.chosen,
            "limit": int(self.limit.value) or None,
            "device": self.device.value,
        }
        if kind == "cuhk":
            given["blurred"] = self.blurred.value
        else:
            given |= {"method": self.methods.chosen, "noise": _numbers(self.noise.value)}
        if kind in ("synthetic", "dpdd"):
            given["dual"] = bool(self.dual.value)
        if kind in ("dpdd", "pairs"):
            given["fit_exposure"] = bool(self.fit_exposure.value)
        return EvaluateOptions(**given)

    def release(self) -> None:
        """Stop looking for models."""
        self._filler.release()

    def _follow(self) -> None:
        """Show what goes with the kind of data."""
        kind = self.kind.value
        self.split.visible = kind != "cuhk"
        self.fit_exposure.visible = kind in ("dpdd", "pairs")
        self.dual.visible = kind in ("synthetic", "dpdd")
        self.blurred.visible = kind == "cuhk"
        self.noise.visible = kind != "cuhk"
        self.methods.setEnabled(kind != "cuhk")

    def _fill(self, found: Choices) -> None:
        first = [value for _, value in found.models[:1]]
        before = [name for name in self.models.chosen if name != "default"]
        files = [entry for entry in self.models.entries if "/" in entry[1]]
        self.models.offer([*found.models, *files], before or first)

    def _choose_file(self) -> None:
        path, _ = QFileDialog.getOpenFileName(
            self, "A model file", "", "Models (*.safetensors *.npz)"
        )
        if path:
            self.models.add(path.rpartition("/")[2], path)


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return parse_numbers(text)
    except ValueError as error:
        raise ConfigError(f"noise: {text!r} is not a list of numbers such as 0,1,3,5") from error
