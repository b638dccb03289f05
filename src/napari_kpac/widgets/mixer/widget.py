"""The mixer's window: strips, strength, presets, painting, undo, recipes.

Not for: rendering (live.py), what the settings mean (state.py).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from magicgui.widgets import Container
from napari.layers import Image, Labels
from napari.utils.notifications import show_info
from napari.viewer import Viewer
from qtpy.QtCore import Qt, QTimer
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFileDialog,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QMenu,
    QPushButton,
    QScrollArea,
    QSlider,
    QSpinBox,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)
from superqt.utils import qthrottled, signals_blocked

from napari_kpac.errors import KpacError
from napari_kpac.options import DeblurOptions
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, ModelBox, image_box, labels_box
from napari_kpac.widgets.mixer.beta import BetaPlot
from napari_kpac.widgets.mixer.live import LiveRenderer, Request
from napari_kpac.widgets.mixer.state import (
    MOST_GAIN,
    MOST_STRENGTH,
    WHOLE,
    History,
    MixerState,
    presets,
)
from napari_kpac.widgets.mixer.strip import COLOURS, TICKS, Strip
from napari_kpac.widgets.placement import (
    METADATA,
    current_index,
    find_layer,
    full_resolution,
    moved,
    picture_size,
    visible_region,
)

THROTTLE = 60
"""Milliseconds between two requests while a slider is being moved."""
SETTLE = 400
"""Milliseconds after which a changed slice or picture is opened anew."""


class MixerWidget(QWidget):
    """Opens a picture once, then renders it again with every move."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self._held: dict[str, LiveRenderer | None] = {}
        # A window that is destroyed does not ask its widgets to close.
        self.destroyed.connect(partial(_close_renderer, self._held))
        self._source: Image | None = None
        self._index: tuple[int, ...] = ()
        self._painted: Labels | None = None
        self._result: Any = None
        self._result_id: Any = None
        self._number = 0
        self._strips: list[list[Strip]] = []
        self._betas: list[BetaPlot] = []
        self._history: History | None = None
        self._presets: dict[str, tuple[float, ...]] = {}
        self._reopen = QTimer(self)
        self._reopen.setSingleShot(True)
        self._reopen.setInterval(SETTLE)
        self._reopen.timeout.connect(self.open)

        self._image = image_box(napari_viewer)
        self._model = ModelBox()
        self._labels = labels_box(napari_viewer)
        self._filler = ChoiceFiller(self._model, None, self)
        self._build()
        self._labels.changed.connect(self._follow_labels)
        napari_viewer.dims.events.current_step.connect(self._follow_slice)
        napari_viewer.layers.events.removed.connect(self._follow_removal)
        self._show_closed("Choose an image and press Open.")

    # -- building ---------------------------------------------------------------------------

    def _build(self) -> None:
        form = Container(widgets=[self._image, self._model])
        form.margins = (0, 0, 0, 0)
        self._open = QPushButton("Open")
        self._open.setToolTip("Run the network once and connect the sliders to the picture.")
        self._open.clicked.connect(self._toggle)
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._tabs = QTabWidget()
        self._desk = QWidget()
        desk = QVBoxLayout(self._desk)
        desk.setContentsMargins(0, 0, 0, 0)
        desk.addWidget(self._tabs, 1)
        desk.addLayout(self._build_master())
        desk.addLayout(self._build_paint())
        desk.addLayout(self._build_buttons())

        inner = QWidget()
        layout = QVBoxLayout(inner)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(form.native)
        layout.addWidget(self._open)
        layout.addWidget(self._message)
        layout.addWidget(self._desk, 1)
        area = QScrollArea()
        area.setWidgetResizable(True)
        area.setFrameShape(QScrollArea.Shape.NoFrame)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setWidget(inner)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.addWidget(area)
        self.setMinimumWidth(372)
        QShortcut(QKeySequence.StandardKey.Undo, self, self.undo)
        QShortcut(QKeySequence.StandardKey.Redo, self, self.redo)

    def _build_master(self) -> QGridLayout:
        self._strength = QSlider(Qt.Orientation.Horizontal)
        self._strength.setRange(0, round(MOST_STRENGTH * TICKS))
        self._strength.setToolTip("0 shows the input, 1 the network's result, more exaggerates.")
        self._strength_number = QDoubleSpinBox()
        self._strength_number.setRange(0, MOST_STRENGTH)
        self._strength_number.setSingleStep(0.05)
        self._strength_number.setKeyboardTracking(False)
        self._strength_number.setStyleSheet("min-width: 48px; max-width: 70px;")
        self._strength.valueChanged.connect(lambda value: self._move_strength(value / TICKS))
        self._strength.sliderReleased.connect(self._settle)
        self._strength_number.valueChanged.connect(self._type_strength)
        self._preset = QComboBox()
        self._preset.setToolTip("Set all gains of the block on display (or of all) at once.")
        self._preset.activated.connect(self._choose_preset)
        self._link = QCheckBox("link blocks")
        self._link.setToolTip("Moves apply to all blocks at once.")
        self._live = QCheckBox("live")
        self._live.setToolTip("Render while a slider is moving, not only when it is let go.")
        self._live.setChecked(bool(preferences.get("live", True)))
        grid = QGridLayout()
        grid.addWidget(QLabel("strength"), 0, 0)
        grid.addWidget(self._strength, 0, 1)
        grid.addWidget(self._strength_number, 0, 2)
        grid.addWidget(QLabel("preset"), 1, 0)
        grid.addWidget(self._preset, 1, 1, 1, 2)
        checks = QHBoxLayout()
        checks.addWidget(self._link)
        checks.addWidget(self._live)
        checks.addStretch(1)
        grid.addLayout(checks, 2, 1, 1, 2)
        grid.setColumnStretch(1, 1)
        return grid

    def _build_paint(self) -> QGridLayout:
        self._new_labels = QPushButton("New")
        self._new_labels.setToolTip("Add a labels layer of the picture's size to paint in.")
        self._new_labels.clicked.connect(self.add_labels)
        self._label = QSpinBox()
        self._label.setRange(WHOLE, 65535)
        self._label.setSpecialValueText("the whole picture")
        self._label.setPrefix("label ")
        self._label.setToolTip("What the strips act on: the whole picture, or one painted label.")
        self._label.valueChanged.connect(self._show_state)
        grid = QGridLayout()
        grid.addWidget(QLabel("paint with"), 0, 0)
        grid.addWidget(self._labels.native, 0, 1)
        grid.addWidget(self._new_labels, 0, 2)
        grid.addWidget(QLabel("strips act on"), 1, 0)
        grid.addWidget(self._label, 1, 1, 1, 2)
        grid.setColumnStretch(1, 1)
        return grid

    def _build_buttons(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self._buttons = {}
        for text, tooltip, action in (
            ("Undo", "Take the last move back (Ctrl+Z).", self.undo),
            ("Redo", "Make it again (Ctrl+Shift+Z).", self.redo),
            ("Reset", "Everything as the network has it.", self.reset),
            ("Save", "Save the settings as a recipe file.", self._ask_save),
            ("Load", "Load settings from a recipe file.", self._ask_load),
        ):
            button = QPushButton(text)
            button.setStyleSheet("min-width: 0px; padding: 3px 6px;")
            button.setToolTip(tooltip)
            button.clicked.connect(lambda _=False, action=action: action())
            row.addWidget(button)
            self._buttons[text] = button
        row.addStretch(1)
        return row

    def _build_strips(self, dilations: tuple[int, ...], blocks: int) -> None:
        self._tabs.clear()
        self._strips, self._betas = [], []
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
            layout.addWidget(QLabel("β, shape attention"))
            layout.addWidget(beta)
            self._tabs.addTab(page, f"block {block + 1}")
            self._strips.append(strips)
            self._betas.append(beta)
        self._presets = presets(dilations)
        self._preset.clear()
        self._preset.addItems(list(self._presets))

    def _make_strip(self, block: int, index: int, dilation: int) -> Strip:
        strip = Strip(index, dilation)
        strip.gain_moved.connect(lambda value: self._move_gain(block, index, value))
        strip.gain_settled.connect(lambda _: self._settle())
        strip.mute_toggled.connect(lambda on: self._flag("muted", block, index, on))
        strip.solo_toggled.connect(lambda on: self._flag("soloed", block, index, on))
        strip.map_clicked.connect(lambda: self.add_map(block, index))
        strip.thumbnail.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        strip.thumbnail.customContextMenuRequested.connect(
            lambda place: self._offer_maps(strip.thumbnail.mapToGlobal(place), block, index)
        )
        return strip

    # -- opening and closing ----------------------------------------------------------------

    def _toggle(self) -> None:
        if self._renderer is None:
            self.open()
        else:
            self.close_session("Closed.")

    def open(self) -> None:
        """Open the chosen picture: run the network once, in a thread."""
        self._reopen.stop()
        layer = self._image.layer
        if layer is None:
            self._show_closed("There is no image layer: open a picture first (File > Open).")
            return
        if layer.unique_id == self._result_id:
            self._show_closed("That layer is the mixer's own result: choose the picture itself.")
            return
        self._stop()
        self._follow_data(layer)
        self._source, self._index = layer, current_index(self._viewer, layer)
        data, index = full_resolution(layer), self._index
        options = preferences.apply(DeblurOptions(model=self._model.value, rgb=bool(layer.rgb)))
        self._renderer = LiveRenderer(lambda: open_session(data, index, options))
        self._renderer.opened.connect(self._show_opened)
        self._renderer.rendered.connect(self._show_rendered)
        self._renderer.failed.connect(self._show_failure)
        self._message.setText("Running the network once ...")
        self._open.setText("Close")
        self._desk.setEnabled(False)

    def close_session(self, text: str) -> None:
        """Let go of the picture; its result layer stays."""
        self._stop()
        self._show_closed(text)

    def closeEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Let go of everything when the window goes away."""
        self.release()
        super().closeEvent(event)

    def release(self) -> None:
        """Stop the thread and stop following the viewer."""
        self._reopen.stop()
        self._stop()
        self._filler.release()
        self._image.release()
        self._labels.release()
        self._viewer.dims.events.current_step.disconnect(self._follow_slice)
        self._viewer.layers.events.removed.disconnect(self._follow_removal)

    @property
    def _renderer(self) -> LiveRenderer | None:
        return self._held.get("renderer")

    @_renderer.setter
    def _renderer(self, renderer: LiveRenderer | None) -> None:
        self._held["renderer"] = renderer

    def _stop(self) -> None:
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            renderer.close()
        if self._source is not None:
            self._source.events.data.disconnect(self._follow_new_data)
            self._source = None

    def _show_closed(self, text: str) -> None:
        self._open.setText("Open")
        self._desk.setEnabled(False)
        self._message.setText(text)

    def _show_opened(self, result: Any) -> None:
        blocks, dilations = result.alpha.shape[:2]
        shape = (blocks, dilations)
        rates = tuple(range(1, dilations + 1))
        renderer = self._renderer
        if renderer is not None and renderer.dilations:
            rates = renderer.dilations
        if self._history is None or (len(self._strips), len(self._strips[0])) != shape:
            self._build_strips(rates, blocks)
            self._history = History(MixerState.neutral(blocks, dilations))
        self._desk.setEnabled(True)
        self._message.setText("Move a slider: the picture follows.")
        self._show_result(result)
        self._show_state()
        if self._history.state != MixerState.neutral(*shape):
            self._request()

    # -- moves ------------------------------------------------------------------------------

    @property
    def state(self) -> MixerState:
        """The present settings."""
        if self._history is None:
            raise KpacError("the mixer has not been opened yet")
        return self._pending or self._history.state

    _pending: MixerState | None = None
    """Settings of a move that has not settled yet."""

    def _scope(self, block: int) -> int | None:
        return None if self._link.isChecked() else block

    def _move_gain(self, block: int, index: int, value: float) -> None:
        self._pending = self.state.with_gain(self._label.value(), self._scope(block), index, value)
        self._after_move()

    def _flag(self, name: str, block: int, index: int, on: bool) -> None:
        self._pending = self.state.with_flag(name, self._scope(block), index, on)
        self._settle()

    def _move_strength(self, value: float) -> None:
        self._pending = replace(self.state, strength=value)
        self._after_move()
        if not self._strength.isSliderDown():
            self._settle()

    def _type_strength(self, value: float) -> None:
        self._pending = replace(self.state, strength=value)
        self._settle()

    def _choose_preset(self, place: int) -> None:
        row = self._presets[self._preset.itemText(place)]
        label, block = self._label.value(), self._tabs.currentIndex()
        rows = tuple(
            row if self._link.isChecked() or index == block else old
            for index, old in enumerate(self.state.gains_of(label))
        )
        self._pending = self.state.with_rows(label, rows)
        self._settle()

    def reset(self) -> None:
        """Everything as the network has it."""
        self._pending = MixerState.neutral(len(self._strips), len(self._strips[0]))
        self._settle()

    def undo(self) -> None:
        """Take the last move back."""
        if self._history is not None:
            self._pending = None
            self._history.undo()
            self._show_state()
            self._request()

    def redo(self) -> None:
        """Make a move again that was taken back."""
        if self._history is not None:
            self._pending = None
            self._history.redo()
            self._show_state()
            self._request()

    def _after_move(self) -> None:
        self._show_state()
        if self._live.isChecked():
            self._request_soon()

    def _settle(self) -> None:
        if self._history is not None and self._pending is not None:
            self._history.push(self._pending)
            self._pending = None
        self._show_state()
        self._request()

    @qthrottled(timeout=THROTTLE)
    def _request_soon(self) -> None:
        self._request()

    def _request(self) -> None:
        renderer, source = self._renderer, self._source
        if renderer is None or source is None or self._history is None:
            return
        try:
            modulation = self.state.modulation(self._label_image(), self._override_maps())
        except KpacError as error:
            self._show_failure(str(error))
            return
        self._number += 1
        shown = self._viewer.layers and find_layer(self._viewer, self._result_id)
        region = visible_region(shown) if shown else None
        if region == (0, picture_size(source)[0], 0, picture_size(source)[1]):
            region = None
        renderer.request(Request(modulation, region, self._number))

    # -- painting ---------------------------------------------------------------------------

    def add_labels(self) -> None:
        """Add a labels layer of the picture's size and choose it."""
        source = self._source
        if source is None:
            return
        leading = (1,) * len(self._index)
        where = moved(source, (*self._index, 0, 0))
        data = np.zeros((*leading, *picture_size(source)), np.uint8)
        layer = self._viewer.add_labels(data, name=f"{source.name} (paint)", **where)
        layer.mode = "paint"
        layer.brush_size = max(10, min(picture_size(source)) // 12)
        self._labels.value = layer
        self._label.setValue(1)

    def _follow_labels(self) -> None:
        if self._painted is not None:
            for event in self._paint_events(self._painted):
                event.disconnect(self._repaint)
        self._painted = self._labels.layer
        if self._painted is not None:
            for event in self._paint_events(self._painted):
                event.connect(self._repaint)
        self._request()

    @staticmethod
    def _paint_events(layer: Labels) -> list[Any]:
        return [layer.events.paint, layer.events.data, layer.events.labels_update]

    def _repaint(self, event: object = None) -> None:
        del event
        if self._history is not None and self.state.label_gains:
            self._request_soon()

    def _label_image(self) -> npt.NDArray[Any] | None:
        layer, source = self._labels.layer, self._source
        if layer is None or source is None:
            return None
        return self._plane(layer, "labels", source)

    def _plane(self, layer: Any, what: str, source: Image) -> npt.NDArray[Any]:
        """Return the slice on display of a layer, which must be of the picture's size."""
        data = np.asarray(full_resolution(layer))
        index = tuple(0 if data.shape[i] == 1 else n for i, n in enumerate(self._index))
        plane = data[index] if data.ndim > 2 else data
        if plane.shape != picture_size(source):
            raise KpacError(
                f"the {what} layer “{layer.name}” has {plane.shape} pixels, the picture "
                f"{picture_size(source)}: choose one of the same size"
            )
        return plane

    # -- attention maps ---------------------------------------------------------------------

    def add_map(self, block: int, index: int) -> None:
        """Add alpha of a block and dilation as a layer, or update the one there is."""
        source, result = self._source, self._result
        if source is None or result is None:
            return
        leading = len(self._index)
        values = result.alpha[block, index][(np.newaxis,) * leading]
        name = f"α{index + 1} of block {block + 1}"
        where = moved(
            source, (*self._index, *result.offset), (1,) * leading + (result.scale, result.scale)
        )
        for layer in self._viewer.layers:
            if layer.name == name and layer.metadata.get(METADATA) == "attention":
                layer.data = values
                return
        self._viewer.add_image(
            values, name=name, colormap=COLOURS, contrast_limits=(0, 1), opacity=0.6,
            interpolation2d="linear", metadata={METADATA: "attention"}, **where,
        )  # fmt: skip

    def _offer_maps(self, place: Any, block: int, index: int) -> None:
        """Offer to replace an alpha map by a layer."""
        menu = QMenu(self)
        self._add_action(menu, "the network's own", block, index, None)
        for layer in self._viewer.layers:
            if type(layer) in (Image, Labels) and layer.unique_id != self._result_id:
                self._add_action(menu, f"replace by “{layer.name}”", block, index, layer)
        menu.exec(place)

    def _add_action(self, menu: QMenu, text: str, block: int, index: int, layer: Any) -> None:
        action: Any = menu.addAction(text)
        action.triggered.connect(lambda: self.replace_map(block, index, layer))

    def replace_map(self, block: int, index: int, layer: Any) -> None:
        """Use a layer's values in 0..1 (integers: of their type's range) instead of an alpha."""
        source = None if layer is None else layer.unique_id
        self._pending = self.state.with_override(block + 1, index + 1, source)
        self._settle()

    def _override_maps(self) -> dict[tuple[int, int], Any]:
        found: dict[tuple[int, int], Any] = {}
        for key, source in self.state.override.items():
            if isinstance(source, float):
                found[key] = source
                continue
            layer = find_layer(self._viewer, source)
            if layer is not None and self._source is not None:
                values = self._plane(layer, "map", self._source)
                whole = np.iinfo(values.dtype).max if values.dtype.kind in "ui" else 1
                if isinstance(layer, Labels):
                    whole = 1
                found[key] = np.clip(values.astype(np.float64) / whole, 0, 1)
        return found

    # -- recipes ----------------------------------------------------------------------------

    def save_recipe(self, path: str | Path) -> None:
        """Write the settings as a recipe, the file that ``napari-kpac deblur --recipe`` takes."""
        if self._result is None:
            raise KpacError("there is nothing to save yet: open a picture first")
        modulation = self.state.modulation(self._label_image(), self._override_maps())
        replace(self._result.recipe, modulation=modulation).save(path)
        self._message.setText(f"Saved {Path(path).name}.")

    def load_recipe(self, path: str | Path) -> None:
        """Take over the settings of a recipe; painted labels come as a layer."""
        from napari_kpac.engine import load_recipe

        if self._source is None or not self._strips:
            raise KpacError("open a picture first, then load the recipe")
        modulation = load_recipe(path).modulation
        shape = (len(self._strips), len(self._strips[0]))

        def rows(gains: Any) -> Any:
            values = np.broadcast_to(1.0 if gains is None else np.asarray(gains, float), shape)
            if values.max() > MOST_GAIN or values.min() < 0:
                raise KpacError(f"the recipe has gains outside 0..{MOST_GAIN:g}")
            return tuple(map(tuple, values.tolist()))

        override: dict[tuple[int, int], Any] = {}
        for key, value in modulation.override.items():
            override[key] = float(value) if not np.ndim(value) else self._add_loaded(
                np.asarray(value, np.float32), f"α{key[1]} of block {key[0]} (loaded)"
            )  # fmt: skip
        state = replace(
            MixerState.neutral(*shape),
            gains=rows(modulation.gains),
            strength=float(modulation.strength),
            label_gains={label: rows(gains) for label, gains in modulation.label_gains.items()},
            override=override,
        )
        if modulation.labels is not None:
            leading = (np.newaxis,) * len(self._index)
            self._labels.value = self._viewer.add_labels(
                np.asarray(modulation.labels)[leading],
                name="labels of the recipe",
                **moved(self._source, (*self._index, 0, 0)),
            )
        self._pending = state
        self._settle()
        self._message.setText(f"Loaded {Path(path).name}.")

    def _add_loaded(self, values: npt.NDArray[np.float32], name: str) -> Any:
        assert self._source is not None  # noqa: S101 - load_recipe() saw to it
        leading = (np.newaxis,) * len(self._index)
        where = moved(self._source, (*self._index, 0, 0))
        layer = self._viewer.add_image(
            values[leading], name=name, contrast_limits=(0, 1), visible=False, **where
        )
        return layer.unique_id

    def _ask_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save recipe", "recipe.json", "Recipe (*.json)")
        if path:
            self._try(lambda: self.save_recipe(path))

    def _ask_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load recipe", "", "Recipe (*.json)")
        if path:
            self._try(lambda: self.load_recipe(path))

    def _try(self, action: Any) -> None:
        try:
            action()
        except KpacError as error:
            self._show_failure(str(error))

    # -- showing ----------------------------------------------------------------------------

    def _show_state(self) -> None:
        if self._history is None:
            return
        state = self.state
        rows = state.gains_of(self._label.value())
        for block, strips in enumerate(self._strips):
            for index, strip in enumerate(strips):
                strip.show_gain(rows[block][index])
                strip.show_flags(state.muted[block][index], state.soloed[block][index])
        with signals_blocked(self._strength):
            self._strength.setValue(round(state.strength * TICKS))
        with signals_blocked(self._strength_number):
            self._strength_number.setValue(state.strength)
        self._buttons["Undo"].setEnabled(self._history.can_undo or self._pending is not None)
        self._buttons["Redo"].setEnabled(self._history.can_redo)

    def _show_rendered(self, result: Any, number: int) -> None:
        if number != self._number:
            return
        self._show_result(result)

    def _show_result(self, result: Any) -> None:
        source = self._source
        if source is None:
            return
        layer = find_layer(self._viewer, self._result_id)
        if result.region is None:
            self._result = result
            self._show_maps(result)
        leading = (np.newaxis,) * len(self._index)
        where = moved(source, (*self._index, 0, 0))
        if layer is None or layer.data.shape[len(leading) :] != self._shape(source):
            if result.region is not None:
                return
            if layer is not None:
                self._viewer.layers.remove(layer)
            layer = self._add_result(source, result.image[leading], where)
        elif result.region is None:
            layer.data = result.image[leading]
            layer.translate = where["translate"]
        else:
            top, bottom, left, right = result.region
            place = (0,) * len(leading) + (slice(top, bottom), slice(left, right))
            layer.data[place] = result.image
            layer.refresh()
        layer.metadata = {**layer.metadata, METADATA: result.recipe.to_dict()}

    def _shape(self, source: Image) -> tuple[int, ...]:
        shape = full_resolution(source).shape
        return tuple(shape[-3:] if source.rgb else shape[-2:])

    def _add_result(self, source: Image, image: npt.NDArray[Any], where: dict[str, Any]) -> Image:
        layer = Image(
            image, name=f"{source.name} (mixer)", rgb=source.rgb, colormap=source.colormap,
            gamma=source.gamma, **where,
        )  # fmt: skip
        if not source.rgb:
            layer.contrast_limits = source.contrast_limits
        self._viewer.layers.insert(self._viewer.layers.index(source) + 1, layer)
        self._result_id = layer.unique_id
        self._viewer.layers.selection.active = source
        return layer

    def _show_maps(self, result: Any) -> None:
        for block, strips in enumerate(self._strips):
            for index, strip in enumerate(strips):
                strip.thumbnail.show_map(result.alpha[block, index])
            self._betas[block].show_values(result.beta[block])

    def _show_failure(self, text: str) -> None:
        self._message.setText(f"⚠ {text}")
        show_info(text)
        if self._renderer is not None and not self._desk.isEnabled():
            self.close_session(f"⚠ {text}")

    # -- following the viewer ---------------------------------------------------------------

    def _follow_data(self, layer: Image) -> None:
        layer.events.data.connect(self._follow_new_data)

    def _follow_new_data(self, event: object = None) -> None:
        del event
        self._restart("The picture changed: opening it again ...")

    def _follow_slice(self, event: object = None) -> None:
        del event
        source = self._source
        if source is not None and current_index(self._viewer, source) != self._index:
            self._restart("Another slice: opening it ...")

    def _restart(self, text: str) -> None:
        if self._renderer is not None:
            self._message.setText(text)
            self._desk.setEnabled(False)
            self._reopen.start()

    def _follow_removal(self, event: Any) -> None:
        if event.value is self._source:
            self.close_session("The image was removed.")
        if event.value is self._painted:
            self._painted = None


def _close_renderer(held: dict[str, LiveRenderer | None], _: object = None) -> None:
    renderer = held.get("renderer")
    if renderer is not None:
        renderer.close()


def open_session(data: Any, index: tuple[int, ...], options: DeblurOptions) -> Any:
    """Open a Session on one slice of an image, seen in the range of the whole stack."""
    from napari_kpac.engine import Session
    from napari_kpac.engine.arrays import as_array, layout_of
    from napari_kpac.engine.pixels import resolve_range

    array = as_array(data)
    layout = layout_of(array, rgb=options.rgb)
    found = resolve_range(options.range, layout, (array,))
    fields = options.to_dict()
    fields["range"] = (found.low, found.high)
    return Session(array[index], fields.pop("model"), fields.pop("device"), **fields)
