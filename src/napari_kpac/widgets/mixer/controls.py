"""The mixer's controls: strips in tabs, strength, presets, what to paint with, buttons.

They show settings and emit the settings that the user wants instead. Not for: keeping or
rendering them (widget.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

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
from napari_kpac.widgets.form import let_shrink, wrapped
from napari_kpac.widgets.mixer.block import BlockPage
from napari_kpac.widgets.mixer.state import (
    MAX_STRENGTH,
    WHOLE_IMAGE,
    History,
    MixerState,
    presets,
)
from napari_kpac.widgets.mixer.strip import NumberSlider, Strip
from napari_kpac.widgets.mixer.words import (
    StripFacts,
    block_sentence,
    gains_sentence,
    strip_sentence,
    summary,
)

if TYPE_CHECKING:
    from napari_kpac.network import KPACConfig

BUTTONS = {
    "Undo": "Take the last move back (Ctrl+Z).",
    "Redo": "Make it again (Ctrl+Shift+Z).",
    "Reset": "Everything as the network has it.",
    "Save": "Save the settings as a recipe file.",
    "Load": "Load settings from a recipe file.",
}

EXPLANATION_LINES = 4
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
        self.config: KPACConfig | None = None
        """Of the network whose strips are there."""
        self.sliders: Mapping[str, float] = {}
        """What the card of its model says of the sliders."""
        self.pages: list[BlockPage] = []
        self._state = MixerState.neutral(0, 0)
        self._presets: dict[str, tuple[float, ...]] = {}
        self._pointed: Strip | None = None
        """The strip that is explained."""
        self.tabs = QTabWidget()
        self.tabs.currentChanged.connect(lambda _: self._show_preset())
        self.explanation = QLabel()
        self.explanation.setWordWrap(True)
        # Room for the longest sentence: nothing may move while the mouse goes over the strips.
        self.explanation.setMinimumHeight(EXPLANATION_LINES * self.fontMetrics().lineSpacing())
        self.explanation.setAlignment(Qt.AlignmentFlag.AlignTop)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(4)
        layout.addLayout(self._build_strength())
        layout.addWidget(self.tabs, 1)
        layout.addWidget(self.explanation)
        layout.addLayout(self._build_rows(labels, live))
        layout.addLayout(self._build_buttons())

    def _build_strength(self) -> QHBoxLayout:
        self.strength = NumberSlider(self, Qt.Orientation.Horizontal, MAX_STRENGTH)
        about = wrapped(
            "0 shows the input, 1 the network's result, more exaggerates. Inside a painted label "
            "at 0 every pixel is that of the input."
        )
        self.strength.slider.setToolTip(about)
        self.strength.number.setStyleSheet("min-width: 48px; max-width: 70px;")
        self.strength.moved.connect(
            lambda value: self.moved.emit(self._state.with_strength(self.label.value(), value))
        )
        self.strength.settled.connect(self.settled)
        self._strength_title = QLabel("strength")
        row = QHBoxLayout()
        for part in (self._strength_title, self.strength.slider, self.strength.number):
            row.addWidget(part)
        return row

    def _build_rows(self, labels: LayerBox, live: bool) -> QGridLayout:
        self.preset = QComboBox()
        self.preset.setToolTip("Set all gains of the block on display (or of all) at once.")
        self.preset.activated.connect(self._choose_preset)
        self.link = QCheckBox("link")
        self.link.setToolTip("Link the blocks: moves apply to all of them at once.")
        self.link.toggled.connect(lambda _: self._show_preset())
        self.live = QCheckBox("live")
        self.live.setToolTip("Render while a slider is moving, not only when it is let go.")
        self.live.setChecked(live)
        self.new_labels = QPushButton("New")
        self.new_labels.setToolTip("Add a labels layer of the image's size to paint in.")
        self.label = QSpinBox()
        self.label.setRange(WHOLE_IMAGE, 65535)
        self.label.setSpecialValueText("whole image")
        self.label.setPrefix("label ")
        about = wrapped(
            "What strips and strength act on: the whole image, or one painted label. For a label "
            "choose a layer to paint with, or press New."
        )
        self.label.setToolTip(about)
        self.label.setEnabled(False)
        self.label.valueChanged.connect(self._show_values)
        rows: tuple[tuple[str, QWidget, QWidget], ...] = (
            ("preset", self.preset, self.link),
            ("paint with", labels.native, self.new_labels),
            ("sliders act on", self.label, self.live),
        )
        grid = QGridLayout()
        grid.setColumnStretch(1, 1)
        for row, (text, first, second) in enumerate(rows):
            let_shrink(first)
            grid.addWidget(QLabel(text), row, 0)
            grid.addWidget(first, row, 1)
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

    def build_strips(self, config: KPACConfig, sliders: Mapping[str, float]) -> None:
        """Make a tab per block and a strip per dilation.

        ``sliders`` is what the card of the model says of them.
        """
        self.config, self.sliders = config, sliders
        self.tabs.clear()
        self._pointed = None
        self.pages = []
        for block in range(config.blocks):
            page = BlockPage(block, StripFacts.of(config, sliders))
            for index, strip in enumerate(page.strips):
                self._connect_strip(block, index, strip)
            self.pages.append(page)
            self.tabs.addTab(page, f"block {block + 1}")
            self.tabs.setTabToolTip(block, wrapped(block_sentence(block, config.blocks)))
        self._presets = presets(config.dilations)
        self.preset.clear()
        self.preset.addItems(list(self._presets))
        self.preset.setPlaceholderText("(none of these)")

    def _connect_strip(self, block: int, index: int, strip: Strip) -> None:
        strip.pointed.connect(partial(self._explain, strip))
        strip.gain.moved.connect(partial(self._move_gain, block, index))
        strip.gain.settled.connect(self.settled)
        strip.set_back.connect(partial(self._set_back, block, index))
        strip.mute.toggled.connect(partial(self._toggle_flag, "muted", block, index))
        strip.solo.toggled.connect(partial(self._toggle_flag, "soloed", block, index))
        thumbnail = strip.thumbnail
        thumbnail.clicked.connect(lambda: self.map_clicked.emit(block, index))
        thumbnail.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        thumbnail.customContextMenuRequested.connect(
            lambda place: self.map_menu_wanted.emit(block, index, thumbnail.mapToGlobal(place))
        )

    # -- what strips do to the image --------------------------------------------------------

    def forget_effects(self) -> None:
        """Show that the effects of the strips are not known (any more)."""
        for strip in chain.from_iterable(self.strips):
            strip.show_effect(None)
        self._explain(None)

    def show_effect(self, block: int, index: int, effect: float) -> None:
        """Show what muting a strip changes; a block of which nothing changes is folded."""
        page = self.pages[block]
        page.show_effect(index, effect, is_used=self._is_used(block))
        self.tabs.setTabText(block, f"block {block + 1}" + " (no effect)" * page.is_quiet)
        self._explain(self._pointed)

    def _explain(self, strip: Strip | None) -> None:
        """Explain the strip that the user points at; None: say which one does most.

        A gain above 1 is warned of instead.
        """
        self._pointed = strip
        if strip is not None:
            over = strip.gain.value > 1
            text = gains_sentence(self.sliders) if over else strip_sentence(strip.facts)
            self.explanation.setText(text)
            return
        effects = {
            (block, each.facts.index): each.facts.effect
            for block, strips in enumerate(self.strips)
            for each in strips
            if each.facts.effect is not None
        }
        is_complete = len(effects) == math.prod(self.shape)
        facts = [each.facts for each in self.strips[0]]
        self.explanation.setText(summary(effects if is_complete else {}, facts))

    def _is_used(self, block: int) -> bool:
        """Return True if a setting of a block is not the network's own."""
        state = self._state
        rows = [state.effective(label)[block] for label in (WHOLE_IMAGE, *state.labels)]
        return any(gain != 1 for row in rows for gain in row)

    def allow_labels(self, allowed: bool) -> None:
        """Let the sliders act on labels, or on the whole image only where there are none."""
        self.label.setEnabled(allowed)
        if not allowed:
            self.label.setValue(WHOLE_IMAGE)

    @property
    def strips(self) -> list[list[Strip]]:
        """The strips of every block."""
        return [page.strips for page in self.pages]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of blocks and of dilations."""
        return len(self.strips), len(self.strips[0]) if self.strips else 0

    def show_state(self, history: History) -> None:
        """Show the present settings; emits nothing."""
        self._state = history.state
        self._show_values()
        self.buttons["Undo"].setEnabled(history.can_undo)
        self.buttons["Redo"].setEnabled(history.can_redo)

    def _show_values(self) -> None:
        state, label = self._state, self.label.value()
        where = "" if label == WHOLE_IMAGE else f" (label {label})"
        self._strength_title.setText(f"strength{where}")
        self.strength.show_value(state.strength_of(label))
        gains = state.gains_of(label)
        muted, soloed = state.flags_of("muted", label), state.flags_of("soloed", label)
        for block, strips in enumerate(self.strips):
            for index, strip in enumerate(strips):
                strip.show_values(gains[block][index], muted[block][index], soloed[block][index])
            if self._is_used(block):
                self.pages[block].fold.is_open = True
        if self._pointed is not None:
            self._explain(self._pointed)
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
            self.pages[block].beta.show_values(result.beta[block])

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

    def _set_back(self, block: int, index: int) -> None:
        self.chosen.emit(self._state.set_back(self.label.value(), self._scope(block), index))

    def _choose_preset(self) -> None:
        row = self._presets[self.preset.currentText()]
        scope = self._scope(self.tabs.currentIndex())
        self.chosen.emit(self._state.with_row(self.label.value(), scope, row))
