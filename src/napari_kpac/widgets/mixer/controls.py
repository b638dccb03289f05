"""The mixer's controls: strips in tabs, strength, presets, what to paint with, buttons.

They show settings and emit the settings that the user wants instead. Not for: keeping or
rendering them (widget.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from qtpy.QtCore import QPoint, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)
from superqt.utils import qdebounced

from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.mixer.state import (
    MAX_STRENGTH,
    WHOLE_IMAGE,
    History,
    MixerState,
    presets,
)
from napari_kpac.widgets.mixer.strip import BetaPlot, NumberSlider, Strip

BUTTONS = {
    "Undo": "Take the last move back (Ctrl+Z).",
    "Redo": "Make it again (Ctrl+Shift+Z).",
    "Reset": "Everything as the network has it.",
    "Save": "Save the settings as a recipe file.",
    "Load": "Load settings from a recipe file.",
}

THUMBNAIL_DELAY_MS = 30
"""From the image to its thumbnails: one long pause becomes two."""


class MixerControls(QWidget):
    """All controls of the mixer; blocks and dilations are counted from 0."""

    moved = Signal(object)
    """The settings of a move; still moving perhaps."""
    settled = Signal()
    """The move before this is complete."""
    chosen = Signal(object)
    """The settings after a click."""
    map_clicked = Signal(int, int)
    map_menu_wanted = Signal(int, int, QPoint)

    def __init__(self, labels: LayerBox, *, live: bool) -> None:
        super().__init__()
        self.strips: list[list[Strip]] = []
        self.betas: list[BetaPlot] = []
        self._state = MixerState.neutral(0, 0)
        self._presets: dict[str, tuple[float, ...]] = {}
        self.tabs = QTabWidget()
        self.tabs.currentChanged.connect(lambda _: self._show_preset())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs, 1)
        layout.addLayout(self._build_rows(labels, live))
        layout.addLayout(self._build_buttons())

    def _build_rows(self, labels: LayerBox, live: bool) -> QGridLayout:
        self.strength = NumberSlider(self, Qt.Orientation.Horizontal, MAX_STRENGTH)
        self.strength.slider.setToolTip(
            "0 shows the input, 1 the network's result, more exaggerates."
        )
        self.strength.number.setStyleSheet("min-width: 48px; max-width: 70px;")
        self.strength.moved.connect(
            lambda value: self.moved.emit(replace(self._state, strength=value))
        )
        self.strength.settled.connect(self.settled)
        self.preset = QComboBox()
        self.preset.setToolTip("Set all gains of the block on display (or of all) at once.")
        self.preset.setPlaceholderText("(none of these)")
        self.preset.activated.connect(self._choose_preset)
        self.link = QCheckBox("link blocks")
        self.link.setToolTip("Moves apply to all blocks at once.")
        self.link.toggled.connect(lambda _: self._show_preset())
        self.live = QCheckBox("live")
        self.live.setToolTip("Render while a slider is moving, not only when it is let go.")
        self.live.setChecked(live)
        self.new_labels = QPushButton("New")
        self.new_labels.setToolTip("Add a labels layer of the image's size to paint in.")
        self.label = QSpinBox()
        self.label.setRange(WHOLE_IMAGE, 65535)
        self.label.setSpecialValueText("the whole image")
        self.label.setPrefix("label ")
        self.label.setToolTip("What the strips act on: the whole image, or one painted label.")
        self.label.valueChanged.connect(self._show_gains)
        rows: tuple[tuple[str, QWidget, QWidget | None], ...] = (
            ("strength", self.strength.slider, self.strength.number),
            ("preset", self.preset, None),
            ("", self.link, self.live),
            ("paint with", labels.native, self.new_labels),
            ("strips act on", self.label, None),
        )
        grid = QGridLayout()
        grid.setColumnStretch(1, 1)
        for row, (text, first, second) in enumerate(rows):
            grid.addWidget(QLabel(text), row, 0)
            grid.addWidget(first, row, 1, 1, 2 if second is None else 1)
            if second is not None:
                grid.addWidget(second, row, 2)
        return grid

    def _build_buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.buttons = {text: QPushButton(text) for text in BUTTONS}
        for text, button in self.buttons.items():
            button.setStyleSheet("min-width: 0px; padding: 3px 6px;")
            button.setToolTip(BUTTONS[text])
            row.addWidget(button)
        row.addStretch(1)
        return row

    def build_strips(self, dilations: tuple[int, ...], blocks: int) -> None:
        """Make a tab per block and a strip per dilation."""
        self.tabs.clear()
        self.strips, self.betas = [], []
        for block in range(blocks):
            page = QWidget()
            layout = QVBoxLayout(page)
            layout.setContentsMargins(2, 2, 2, 2)
            row = QHBoxLayout()
            row.setSpacing(0)
            strips = [self._make_strip(block, i, d) for i, d in enumerate(dilations)]
            for strip in strips:
                row.addWidget(strip)
            beta = BetaPlot()
            layout.addLayout(row, 1)
            layout.addWidget(QLabel("β, shape attention of each channel (0 to 1)"))
            layout.addWidget(beta)
            self.tabs.addTab(page, f"block {block + 1}")
            self.strips.append(strips)
            self.betas.append(beta)
        self._presets = presets(dilations)
        self.preset.clear()
        self.preset.addItems(list(self._presets))

    def _make_strip(self, block: int, index: int, dilation: int) -> Strip:
        strip = Strip(index, dilation)
        strip.gain.moved.connect(partial(self._move_gain, block, index))
        strip.gain.settled.connect(self.settled)
        strip.mute.toggled.connect(partial(self._toggle_flag, "muted", block, index))
        strip.solo.toggled.connect(partial(self._toggle_flag, "soloed", block, index))
        thumbnail = strip.thumbnail
        thumbnail.clicked.connect(lambda: self.map_clicked.emit(block, index))
        thumbnail.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        thumbnail.customContextMenuRequested.connect(
            lambda place: self.map_menu_wanted.emit(block, index, thumbnail.mapToGlobal(place))
        )
        return strip

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks and of dilations."""
        return len(self.strips), len(self.strips[0]) if self.strips else 0

    def show_state(self, history: History) -> None:
        """Show the present settings; emits nothing."""
        self._state = history.state
        self._show_gains()
        self.strength.show_value(self._state.strength)
        self.buttons["Undo"].setEnabled(history.can_undo)
        self.buttons["Redo"].setEnabled(history.can_redo)

    def _show_gains(self) -> None:
        state, label = self._state, self.label.value()
        gains = state.gains_of(label)
        muted, soloed = state.flags_of("muted", label), state.flags_of("soloed", label)
        for block, strips in enumerate(self.strips):
            for index, strip in enumerate(strips):
                strip.show_values(gains[block][index], muted[block][index], soloed[block][index])
        self._show_preset()

    def _show_preset(self) -> None:
        """Show the preset that the block on display (or all of them) has, if it has one."""
        rows = self._state.effective(self.label.value())
        if not self.link.isChecked():
            rows = rows[self.tabs.currentIndex() :][:1]
        found = [name for name, row in self._presets.items() if set(rows) == {row}]
        if self.preset.currentText() not in found:
            self.preset.setCurrentIndex(self.preset.findText(found[0]) if found else -1)

    @qdebounced(timeout=THUMBNAIL_DELAY_MS)
    def show_attention(self, result: Any) -> None:
        """Show alpha and beta of a result, soon: the image itself goes first."""
        for block, strips in enumerate(self.strips):
            for index, strip in enumerate(strips):
                strip.thumbnail.show_map(result.alpha[block, index])
            self.betas[block].show_values(result.beta[block])

    # -- moves of the user ------------------------------------------------------------------

    def _scope(self, block: int) -> int | None:
        """Return the block that a move applies to, None for all."""
        return None if self.link.isChecked() else block

    def _move_gain(self, block: int, index: int, value: float) -> None:
        scope = self._scope(block)
        self.moved.emit(self._state.with_gain(self.label.value(), scope, index, value))

    def _toggle_flag(self, name: str, block: int, index: int, on: bool) -> None:
        label = self.label.value()
        self.chosen.emit(self._state.with_flag(name, label, self._scope(block), index, on))

    def _choose_preset(self) -> None:
        row = self._presets[self.preset.currentText()]
        scope = self._scope(self.tabs.currentIndex())
        self.chosen.emit(self._state.with_row(self.label.value(), scope, row))
