"""The mixer's desk: strips in tabs, strength, presets, what to paint with, buttons.

It shows settings and says in signals what a person did. Not for: deciding what that means
(widget.py).
"""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QPoint, Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QSlider,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)
from superqt.utils import signals_blocked

from napari_kpac.widgets.choices import LayerBox
from napari_kpac.widgets.mixer.beta import BetaPlot
from napari_kpac.widgets.mixer.state import MOST_STRENGTH, WHOLE, MixerState, presets
from napari_kpac.widgets.mixer.strip import TICKS, Strip
from napari_kpac.widgets.task import later

BUTTONS = {
    "Undo": "Take the last move back (Ctrl+Z).",
    "Redo": "Make it again (Ctrl+Shift+Z).",
    "Reset": "Everything as the network has it.",
    "Save": "Save the settings as a recipe file.",
    "Load": "Load settings from a recipe file.",
}

AFTER = 30
"""Milliseconds after the image that its thumbnails are drawn: one long pause becomes two."""


class Desk(QWidget):
    """All controls of the mixer; blocks and dilations are counted from 0."""

    gain_moved = Signal(int, int, float)
    """Block, dilation, gain; still moving perhaps."""
    flag_toggled = Signal(str, int, int, bool)
    """``muted`` or ``soloed``, block, dilation, on."""
    strength_moved = Signal(float)
    settled = Signal()
    """The move before this is complete."""
    preset_chosen = Signal(object)
    """A row of gains."""
    map_clicked = Signal(int, int)
    map_menu_wanted = Signal(int, int, QPoint)
    labels_wanted = Signal()
    button_clicked = Signal(str)

    def __init__(self, labels: LayerBox, *, live: bool) -> None:
        super().__init__()
        self.strips: list[list[Strip]] = []
        self.betas: list[BetaPlot] = []
        self._rows: dict[str, tuple[float, ...]] = {}
        self._attention: Any = None
        self._drawing = later(self, AFTER, self._draw_attention)
        self.tabs = QTabWidget()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.tabs, 1)
        grid = QGridLayout()
        grid.setColumnStretch(1, 1)
        self._build_master(grid, live)
        self._build_paint(grid, labels)
        layout.addLayout(grid)
        layout.addLayout(self._build_buttons())

    def _build_master(self, grid: QGridLayout, live: bool) -> None:
        self.strength = QSlider(Qt.Orientation.Horizontal)
        self.strength.setRange(0, round(MOST_STRENGTH * TICKS))
        self.strength.setToolTip("0 shows the input, 1 the network's result, more exaggerates.")
        self.strength_number = QDoubleSpinBox()
        self.strength_number.setRange(0, MOST_STRENGTH)
        self.strength_number.setSingleStep(0.05)
        self.strength_number.setKeyboardTracking(False)
        self.strength_number.setStyleSheet("min-width: 48px; max-width: 70px;")
        self.strength.valueChanged.connect(self._slide_strength)
        self.strength.sliderReleased.connect(self.settled)
        self.strength_number.valueChanged.connect(self._type_strength)
        self.preset = QComboBox()
        self.preset.setToolTip("Set all gains of the block on display (or of all) at once.")
        self.preset.activated.connect(
            lambda place: self.preset_chosen.emit(self._rows[self.preset.itemText(place)])
        )
        self.link = QCheckBox("link blocks")
        self.link.setToolTip("Moves apply to all blocks at once.")
        self.live = QCheckBox("live")
        self.live.setToolTip("Render while a slider is moving, not only when it is let go.")
        self.live.setChecked(live)
        grid.addWidget(QLabel("strength"), 0, 0)
        grid.addWidget(self.strength, 0, 1)
        grid.addWidget(self.strength_number, 0, 2)
        grid.addWidget(QLabel("preset"), 1, 0)
        grid.addWidget(self.preset, 1, 1, 1, 2)
        checks = QHBoxLayout()
        checks.addWidget(self.link)
        checks.addWidget(self.live)
        checks.addStretch(1)
        grid.addLayout(checks, 2, 1, 1, 2)

    def _build_paint(self, grid: QGridLayout, labels: LayerBox) -> None:
        self.new_labels = QPushButton("New")
        self.new_labels.setToolTip("Add a labels layer of the image's size to paint in.")
        self.new_labels.clicked.connect(lambda: self.labels_wanted.emit())
        self.label = QSpinBox()
        self.label.setRange(WHOLE, 65535)
        self.label.setSpecialValueText("the whole image")
        self.label.setPrefix("label ")
        self.label.setToolTip("What the strips act on: the whole image, or one painted label.")
        grid.addWidget(QLabel("paint with"), 3, 0)
        grid.addWidget(labels.native, 3, 1)
        grid.addWidget(self.new_labels, 3, 2)
        grid.addWidget(QLabel("strips act on"), 4, 0)
        grid.addWidget(self.label, 4, 1, 1, 2)

    def _build_buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.buttons = {}
        for text, tooltip in BUTTONS.items():
            button = QPushButton(text)
            button.setStyleSheet("min-width: 0px; padding: 3px 6px;")
            button.setToolTip(tooltip)
            button.clicked.connect(lambda _=False, text=text: self.button_clicked.emit(text))
            row.addWidget(button)
            self.buttons[text] = button
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
        self._rows = presets(dilations)
        self.preset.clear()
        self.preset.addItems(list(self._rows))

    def _make_strip(self, block: int, index: int, dilation: int) -> Strip:
        strip = Strip(index, dilation)
        strip.gain_moved.connect(lambda value: self.gain_moved.emit(block, index, value))
        strip.gain_settled.connect(lambda _: self.settled.emit())
        strip.mute_toggled.connect(lambda on: self.flag_toggled.emit("muted", block, index, on))
        strip.solo_toggled.connect(lambda on: self.flag_toggled.emit("soloed", block, index, on))
        strip.map_clicked.connect(lambda: self.map_clicked.emit(block, index))
        strip.thumbnail.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        strip.thumbnail.customContextMenuRequested.connect(
            lambda place: self.map_menu_wanted.emit(
                block, index, strip.thumbnail.mapToGlobal(place)
            )
        )
        return strip

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks and of dilations."""
        return len(self.strips), len(self.strips[0]) if self.strips else 0

    def scope(self, block: int) -> int | None:
        """Return the block that a move applies to, None for all."""
        return None if self.link.isChecked() else block

    def show_state(self, state: MixerState, *, can_undo: bool, can_redo: bool) -> None:
        """Show settings without saying that anything moved."""
        rows = state.gains_of(self.label.value())
        for block, strips in enumerate(self.strips):
            for index, strip in enumerate(strips):
                strip.show_gain(rows[block][index])
                strip.show_flags(state.muted[block][index], state.soloed[block][index])
        with signals_blocked(self.strength):
            self.strength.setValue(round(state.strength * TICKS))
        with signals_blocked(self.strength_number):
            self.strength_number.setValue(state.strength)
        self.buttons["Undo"].setEnabled(can_undo)
        self.buttons["Redo"].setEnabled(can_redo)

    def show_attention(self, result: Any) -> None:
        """Show alpha and beta of a result, soon: the image itself goes first."""
        self._attention = result
        self._drawing.start()

    def _draw_attention(self) -> None:
        result, self._attention = self._attention, None
        for block, strips in enumerate(self.strips):
            for index, strip in enumerate(strips):
                strip.thumbnail.show_map(result.alpha[block, index])
            self.betas[block].show_values(result.beta[block])

    def _slide_strength(self, position: int) -> None:
        self.strength_moved.emit(position / TICKS)
        if not self.strength.isSliderDown():
            self.settled.emit()

    def _type_strength(self, value: float) -> None:
        self.strength_moved.emit(value)
        self.settled.emit()
