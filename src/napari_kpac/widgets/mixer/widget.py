"""The mixer's window: opens an image, turns moves into renders, shows what comes back.

Not for: controls (desk.py), layers as material (materials.py), rendering (live.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from napari.layers import Image, Labels
from napari.utils.notifications import show_info
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import (
    QFileDialog,
    QLabel,
    QMenu,
    QPushButton,
)
from superqt.utils import qdebounced, qthrottled

from napari_kpac.core.errors import KpacError, NotReadyError, for_people
from napari_kpac.core.options import DeblurOptions
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, ModelBox, image_box, labels_box
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form
from napari_kpac.widgets.mixer.layers import Materials, Painting, Shown
from napari_kpac.widgets.mixer.live import LiveRenderer, Region, Request, open_session
from napari_kpac.widgets.mixer.state import History, MixerState
from napari_kpac.widgets.mixer.strips import Desk
from napari_kpac.widgets.placement import (
    current_index,
    full_resolution,
    image_size,
    visible_region,
)
from napari_kpac.widgets.task import later, when_destroyed

WIDTH = 370
"""Pixels for five strips side by side, so that the dock keeps its width when they come."""
THROTTLE = 60
"""Milliseconds between two requests while a slider is being moved."""
REST = 250
"""Milliseconds after which a slider that is still held counts as resting."""
SETTLE = 400
"""Milliseconds after which a changed slice or image is opened anew."""


class MixerWidget(DockedWidget):
    """Opens an image once, then renders it again with every move."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__()
        self._viewer = napari_viewer
        self._held: dict[str, LiveRenderer | None] = {}
        # A window that is destroyed does not ask its widgets to close.
        when_destroyed(self, partial(_close_renderer, self._held))
        self._material: Materials | None = None
        self._result: Any = None
        self._shown = Shown(napari_viewer)
        self._number = 0
        self._opened_model = ""
        self._history: History | None = None
        self._pending: MixerState | None = None
        self._reopen = later(self, SETTLE, self.open)
        self._rest = later(self, REST, self._complete)
        self._image = image_box(napari_viewer)
        self._model = ModelBox(single=True)
        self._labels = labels_box(napari_viewer)
        self._painting = Painting(self._labels)
        self._filler = ChoiceFiller(self._model, None, self)
        self._desk = Desk(self._labels, live=bool(preferences.get("live", True)))
        self._build()
        self._connect()
        self._show_closed(first_hint("Open", self._image.layer))

    def _build(self) -> None:
        form = Form([self._image, self._model])
        self._open = QPushButton("Open")
        self._open.setToolTip("Run the network once and connect the sliders to the image.")
        self._message = QLabel()
        self._message.setWordWrap(True)
        layout = self.fill_scrolling()
        layout.addWidget(form)
        layout.addWidget(self._open)
        layout.addWidget(self._message)
        layout.addWidget(self._desk, 1)
        self.setMinimumWidth(WIDTH)

    def _connect(self) -> None:
        desk = self._desk
        self._open.clicked.connect(self._toggle)
        desk.gain_moved.connect(self._move_gain)
        desk.strength_moved.connect(self._move_strength)
        desk.flag_toggled.connect(self._flag)
        desk.settled.connect(self._settle)
        desk.preset_chosen.connect(self._choose_preset)
        desk.map_clicked.connect(self.add_map)
        desk.map_menu_wanted.connect(self._offer_maps)
        desk.labels_wanted.connect(self.add_labels)
        desk.label.valueChanged.connect(self._show_state)
        actions = {
            "Undo": self.undo, "Redo": self.redo, "Reset": self.reset,
            "Save": self._ask_save, "Load": self._ask_load,
        }  # fmt: skip
        desk.button_clicked.connect(lambda text: actions[text]())
        for key, action in (
            (QKeySequence.StandardKey.Undo, self.undo),
            (QKeySequence.StandardKey.Redo, self.redo),
        ):
            shortcut = QShortcut(key, self, action)
            # In the canvas the same keys undo strokes of the brush.
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self._painting.chosen.connect(self._request)
        self._painting.painted.connect(self._repaint)
        self._model.changed.connect(self._follow_model)
        self._viewer.dims.events.current_step.connect(self._follow_slice)
        for event in self._camera_events:
            event.connect(self._follow_camera)
        self._viewer.layers.events.removed.connect(self._follow_removal)

    # -- opening and closing ----------------------------------------------------------------

    def _toggle(self) -> None:
        if self._renderer is None:
            self.open()
        else:
            self.close_session("Closed.")

    def open(self) -> None:
        """Open the chosen image: run the network once, in a thread."""
        self._reopen.stop()
        layer = self._image.layer
        if layer is None:
            self._show_closed("There is no image layer: open an image first (File > Open).")
            return
        if layer.unique_id == self._shown.unique_id:
            self._show_closed("That layer is the mixer's own result: choose the image itself.")
            return
        self._stop()
        layer.events.data.connect(self._follow_new_data)
        index = current_index(self._viewer, layer)
        self._material = Materials(self._viewer, layer, index)
        data = full_resolution(layer)
        self._opened_model = self._model.value
        options = preferences.apply(DeblurOptions(model=self._model.value, rgb=bool(layer.rgb)))
        renderer = self._renderer = LiveRenderer(lambda: open_session(data, index, options))
        renderer.opened.connect(self._show_opened)
        renderer.rendered.connect(self._show_rendered)
        renderer.failed.connect(self._show_failure)
        renderer.noted.connect(self._message.setText)
        self._message.setText("Running the network once ...")
        self._open.setText("Close")
        self._desk.setEnabled(False)

    def close_session(self, text: str) -> None:
        """Let go of the image; its result layer stays."""
        self._stop()
        self._show_closed(text)

    def release(self) -> None:
        """Stop the thread and stop following the viewer."""
        self._reopen.stop()
        self._stop()
        self._filler.release()
        self._image.release()
        self._labels.release()
        self._viewer.dims.events.current_step.disconnect(self._follow_slice)
        for event in self._camera_events:
            event.disconnect(self._follow_camera)
        self._viewer.layers.events.removed.disconnect(self._follow_removal)

    @property
    def _camera_events(self) -> tuple[Any, ...]:
        events = self._viewer.scene.camera.events
        return events.center, events.zoom

    @property
    def _renderer(self) -> LiveRenderer | None:
        return self._held.get("renderer")

    @_renderer.setter
    def _renderer(self, renderer: LiveRenderer | None) -> None:
        self._held["renderer"] = renderer

    def _stop(self) -> None:
        self._rest.stop()
        renderer, self._renderer = self._renderer, None
        if renderer is not None:
            renderer.close()
            self._shown.complete()
        material, self._material = self._material, None
        if material is not None:
            material.source.events.data.disconnect(self._follow_new_data)

    def _show_closed(self, text: str) -> None:
        self._open.setText("Open")
        self._desk.setEnabled(False)
        self._message.setText(text)

    def _show_opened(self, result: Any) -> None:
        blocks, count = result.alpha.shape[:2]
        if self._history is None or self._desk.shape != (blocks, count):
            known = () if self._renderer is None else self._renderer.dilations
            self._desk.build_strips(known or tuple(range(1, count + 1)), blocks)
            self._history = History(MixerState.neutral(blocks, count))
        self._desk.setEnabled(True)
        self._message.setText("Move a slider: the image follows.")
        self._show_result(result)
        self._show_state()
        if self._history.state != MixerState.neutral(blocks, count):
            self._request()

    # -- moves ------------------------------------------------------------------------------

    @property
    def state(self) -> MixerState:
        """The present settings, those of a move that has not settled yet included."""
        if self._history is None:
            raise NotReadyError("the mixer has not been opened yet")
        return self._pending or self._history.state

    def _move_gain(self, block: int, index: int, value: float) -> None:
        label = self._desk.label.value()
        self._move(self.state.with_gain(label, self._desk.scope(block), index, value))

    def _move_strength(self, value: float) -> None:
        self._move(replace(self.state, strength=value))

    def _move(self, state: MixerState) -> None:
        self._pending = state
        self._show_state()
        if self._desk.live.isChecked():
            self._rest.start()
            self._request_soon()

    def _flag(self, name: str, block: int, index: int, on: bool) -> None:
        self._set(self.state.with_flag(name, self._desk.scope(block), index, on))

    def _choose_preset(self, row: tuple[float, ...]) -> None:
        label, shown = self._desk.label.value(), self._desk.tabs.currentIndex()
        rows = tuple(
            row if self._desk.scope(shown) in (None, block) else old
            for block, old in enumerate(self.state.gains_of(label))
        )
        self._set(self.state.with_rows(label, rows))

    def reset(self) -> None:
        """Everything as the network has it."""
        self._set(MixerState.neutral(*self._desk.shape))

    def undo(self) -> None:
        """Take the last move back."""
        self._step(History.undo)

    def redo(self) -> None:
        """Make a move again that was taken back."""
        self._step(History.redo)

    def _step(self, step: Callable[[History], MixerState]) -> None:
        if self._history is not None:
            self._pending = None
            step(self._history)
            self._show_state()
            self._request()

    def _set(self, state: MixerState) -> None:
        self._pending = state
        self._settle()

    def _settle(self) -> None:
        if self._history is not None and self._pending is not None:
            self._history.push(self._pending)
            self._pending = None
        self._rest.stop()
        self._show_state()
        self._request()

    @qthrottled(timeout=THROTTLE)
    def _request_soon(self) -> None:
        # What has come to rest meanwhile is not to be replaced by a draft.
        self._request(draft=self._rest.isActive())

    def _request(self, *, draft: bool = False) -> None:
        renderer, material = self._renderer, self._material
        if renderer is None or material is None or self._history is None:
            return
        try:
            modulation = self._modulation(material)
        except KpacError as error:
            self._show_failure(for_people(error))
            return
        self._number += 1
        region = visible_region(material.source)
        height, width = image_size(material.source)
        whole = region == (0, height, 0, width)
        place = None if whole else region
        renderer.request(Request(modulation, place, self._number, draft=draft, exact=not draft))

    def _complete(self) -> None:
        if self._renderer is not None:
            self._renderer.complete()

    def _modulation(self, material: Materials) -> Any:
        layer = self._painting.layer
        labels = None if layer is None else material.plane(layer, "labels")
        return self.state.modulation(labels, material.override_maps(self.state.override))

    # -- painting and maps ------------------------------------------------------------------

    def add_labels(self) -> None:
        """Add a labels layer of the image's size and choose it."""
        if self._material is not None:
            self._labels.value = self._material.add_labels()
            self._desk.label.setValue(1)

    def add_map(self, block: int, index: int) -> None:
        """Add alpha of a block and dilation as a layer."""
        if self._material is not None and self._result is not None:
            self._material.add_map(self._result, block, index)

    def replace_map(self, block: int, index: int, layer: Any) -> None:
        """Use a layer's values in 0..1 (integers: of their type's range) instead of an alpha."""
        source = None if layer is None else layer.unique_id
        self._set(self.state.with_override(block + 1, index + 1, source))

    def _offer_maps(self, block: int, index: int, place: Any) -> None:
        """Offer to replace an alpha map by a layer."""
        menu = QMenu(self)
        choices: list[tuple[str, Any]] = [("the network's own", None)]
        choices += [
            (f"replace by “{layer.name}”", layer)
            for layer in self._viewer.layers
            if type(layer) in (Image, Labels) and layer.unique_id != self._shown.unique_id
        ]
        for text, layer in choices:
            action: Any = menu.addAction(text)
            action.triggered.connect(partial(self.replace_map, block, index, layer))
        menu.exec(place)

    def _repaint(self) -> None:
        if self._history is not None and self.state.label_gains:
            self._request_soon()

    # -- recipes ----------------------------------------------------------------------------

    def save_recipe(self, path: str | Path) -> None:
        """Write the settings as a recipe, the file that ``napari-kpac deblur --recipe`` takes."""
        if self._result is None or self._material is None:
            raise NotReadyError("there is nothing to save yet: open an image first")
        replace(self._result.recipe, modulation=self._modulation(self._material)).save(path)
        self._message.setText(f"Saved {Path(path).name}.")

    def load_recipe(self, path: str | Path) -> None:
        """Take over the settings of a recipe; painted labels come as a layer."""
        from napari_kpac.engine import load_recipe

        material = self._material
        if material is None or self._history is None:
            raise NotReadyError("open an image first, then load the recipe")
        modulation = load_recipe(path).modulation
        state = material.state_of(modulation, self._desk.shape)
        if modulation.labels is not None:
            self._labels.value = material.add_recipe_labels(modulation.labels)
        self._set(state)
        self._message.setText(f"Loaded {Path(path).name}.")

    def _ask_save(self) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Save recipe", "recipe.json", "Recipe (*.json)")
        if path:
            self._try(lambda: self.save_recipe(path))

    def _ask_load(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Load recipe", "", "Recipe (*.json)")
        if path:
            self._try(lambda: self.load_recipe(path))

    def _try(self, action: Callable[[], None]) -> None:
        try:
            action()
        except KpacError as error:
            self._show_failure(for_people(error))

    # -- showing ----------------------------------------------------------------------------

    def _show_state(self) -> None:
        if self._history is not None:
            self._desk.show_state(
                self.state,
                can_undo=self._history.can_undo or self._pending is not None,
                can_redo=self._history.can_redo,
            )

    def _show_rendered(self, result: Any, number: int) -> None:
        if number == self._number:
            self._show_result(result)

    def _show_result(self, result: Any) -> None:
        material = self._material
        if material is None:
            return
        if result.region is None and not result.draft:
            self._result = result
            self._desk.show_attention(result)
        self._shown.show(material, result)

    def _show_failure(self, text: str) -> None:
        self._message.setText(f"⚠ {text}")
        show_info(text)
        if self._renderer is not None and not self._desk.isEnabled():
            self.close_session(f"⚠ {text}")

    # -- following the viewer ---------------------------------------------------------------

    def _follow_new_data(self, event: object = None) -> None:
        del event
        self._restart("The image changed: opening it again ...")

    def _follow_model(self) -> None:
        if self._model.value != self._opened_model:
            self._restart("Another model: opening the image with it ...")

    def _follow_slice(self, event: object = None) -> None:
        del event
        material = self._material
        if material is None or current_index(self._viewer, material.source) == material.index:
            return
        self._restart("Another slice: opening it ...")

    @qdebounced(timeout=THROTTLE)
    def _follow_camera(self, event: object = None) -> None:
        """Render what has come into view, where so far only a part was rendered."""
        del event
        if self._material is not None and self._shown.region is not None:
            if not _covers(self._shown.region, visible_region(self._material.source)):
                self._request(draft=self._rest.isActive())

    def _restart(self, text: str) -> None:
        if self._renderer is not None:
            self._message.setText(text)
            self._desk.setEnabled(False)
            self._reopen.start()

    def _follow_removal(self, event: Any) -> None:
        if self._material is not None and event.value is self._material.source:
            self.close_session("The image was removed.")
        self._painting.forget(event.value)


def _covers(outer: Region, inner: Region | None) -> bool:
    if inner is None:
        return True
    return (
        outer[0] <= inner[0] and inner[1] <= outer[1]
        and outer[2] <= inner[2] and inner[3] <= outer[3]
    )  # fmt: skip


def _close_renderer(held: dict[str, LiveRenderer | None]) -> None:
    renderer = held.get("renderer")
    if renderer is not None:
        renderer.close()
