"""The mixer's window: opens an image, turns moves into renders, shows what comes back.

Not for: controls (controls.py), layers (layers.py), what is painted (paint.py), recipes
(recipes.py), rendering (renderer.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.layers import Image, Labels
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtGui import QKeySequence, QShortcut  # type: ignore[attr-defined]
from qtpy.QtWidgets import QMenu
from superqt.utils import qdebounced, qthrottled

from napari_kpac.core.errors import NotReadyError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, ImageBox, ModelBox, labels_box
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form, button
from napari_kpac.widgets.layers import (
    Region,
    current_index,
    full_resolution,
    image_size,
    is_split,
    rgb_option,
    visible_region,
)
from napari_kpac.widgets.mixer import recipes
from napari_kpac.widgets.mixer.controls import MixerControls
from napari_kpac.widgets.mixer.layers import ImageSlice, ResultLayer
from napari_kpac.widgets.mixer.paint import Paint
from napari_kpac.widgets.mixer.renderer import LiveRenderer, Request, open_session
from napari_kpac.widgets.mixer.stack import StackPanel
from napari_kpac.widgets.mixer.state import History, MixerState
from napari_kpac.widgets.run_panel import Message
from napari_kpac.widgets.task import Task, later, single, when_destroyed

if TYPE_CHECKING:
    from napari_kpac.network import KPACConfig
    from napari_kpac.weights import ModelCard

WIDTH_PX = 386
"""Room for five strips side by side, so that the dock keeps its width when they come, and for
its title."""
THROTTLE_MS = 60
"""Between two requests while a slider is being moved."""
REST_MS = 250
"""After this long a slider that is still held counts as resting."""
REOPEN_MS = 400
"""After this long a changed slice or image is opened anew."""


class MixerWidget(DockedWidget):
    """Opens an image once, then renders it again with every move."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._renderers: list[LiveRenderer] = []
        """The renderer of the open image, if any; a list, for what closes it when the widget
        is destroyed must not hold on to the widget."""
        # A window that is destroyed does not ask its widgets to close.
        when_destroyed(self, partial(_close_all, self._renderers))
        self._opened: ImageSlice | None = None
        self._shown = ResultLayer(napari_viewer)
        self._number = 0
        self._opened_model = ""
        self._history = History(MixerState.neutral(0, 0))
        self._reopen = later(self, REOPEN_MS, self.open)
        self._rest = later(self, REST_MS, self._complete)
        self._image = self.kept(ImageBox(napari_viewer))
        self._model = ModelBox(single=True)
        self._labels = self.kept(labels_box(napari_viewer))
        self._paint = Paint(self._labels, self._follow_paint)
        self._filler = self.kept(ChoiceFiller(self._model, None, self))
        self._controls = MixerControls(self._labels, live=bool(preferences.get("live", True)))
        tooltip = "Run the network once and connect the sliders to the image."
        self._open = button("Open", tooltip, self._toggle)
        self._message = Message()
        self._stack = StackPanel(self._shown)
        self._saving = Task(self)
        layout = self.fill_scrolling()
        layout.addWidget(Form([self._image, self._model]))
        layout.addWidget(self._open)
        layout.addWidget(self._message)
        layout.addWidget(self._controls, 1)
        layout.addWidget(self._stack)
        self.preferred_width = WIDTH_PX
        self._connect()
        self._show_state()
        self._show_closed(first_hint("Open", self._image.layer))

    def _connect(self) -> None:
        controls = self._controls
        controls.moved.connect(self._move)
        controls.settled.connect(self._settle)
        controls.chosen.connect(self._set)
        controls.map_clicked.connect(self.add_map)
        controls.map_menu_wanted.connect(self._offer_maps)
        controls.new_labels.clicked.connect(self.add_labels)
        for text, action in (
            ("Undo", self.undo), ("Redo", self.redo), ("Reset", self.reset),
            ("Save", self._ask_save), ("Load", self._ask_load),
        ):  # fmt: skip
            controls.buttons[text].clicked.connect(action)
        for key, action in (
            (QKeySequence.StandardKey.Undo, self.undo),
            (QKeySequence.StandardKey.Redo, self.redo),
        ):
            shortcut = QShortcut(key, self, action)
            # In the canvas the same keys undo strokes of the brush.
            shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        self._stack.wanted.connect(self.apply_to_stack)
        self._saving.failed.connect(self._message.show_error)
        self._labels.changed.connect(self._follow_labels)
        self._image.changed.connect(self._follow_image)
        self._model.changed.connect(self._follow_model)
        for event, follow in self._followed():
            event.connect(follow)

    def _followed(self) -> Iterator[tuple[Any, Callable[..., None]]]:
        """Yield the events of the viewer that the mixer follows."""
        camera = self._viewer.scene.camera.events
        yield self._viewer.dims.events.current_step, self._follow_slice
        yield camera.center, self._follow_camera
        yield camera.zoom, self._follow_camera
        yield camera.center, self._follow_action
        yield camera.zoom, self._follow_action
        yield self._viewer.layers.events.removed, self._follow_removal

    # -- opening and closing ----------------------------------------------------------------

    @property
    def _renderer(self) -> LiveRenderer | None:
        return self._renderers[0] if self._renderers else None

    def _toggle(self) -> None:
        if self._renderer is None:
            self._shown.is_to_be_raised = True
            self.open()
        else:
            self.close_session("Closed.")

    def open(self) -> None:
        """Open the chosen image: run the network once, in a thread."""
        with self._message.showing_errors():
            layer = self._image.chosen()
            self._check_source(layer)
            self._stop()
            self._start(layer)

    def _check_source(self, layer: Any) -> None:
        if layer is not None and layer is self._shown.layer:
            raise NotReadyError("that layer is the mixer's own result: choose the image itself")

    def _start(self, layer: Image) -> None:
        layer.events.data.connect(self._follow_new_data)
        index = current_index(self._viewer, layer)
        self._image.is_held = True
        data = full_resolution(layer)
        self._opened_model = self._model.value
        options = preferences.apply(DeblurOptions(model=self._model.value, rgb=rgb_option(layer)))
        self._opened = ImageSlice(self._viewer, layer, index, options)
        self._paint.forget()
        renderer = LiveRenderer(lambda: open_session(data, index, options), visible_region(layer))
        renderer.opened.connect(self._show_opened)
        renderer.rendered.connect(self._show_rendered)
        renderer.measured.connect(self._controls.show_effect)
        renderer.failed.connect(self._show_error)
        renderer.noted.connect(self._message.setText)
        self._renderers.append(renderer)
        self._message.setText("Running the network once ...")
        self._open.setText("Close")
        self._controls.setEnabled(False)

    def close_session(self, text: str) -> None:
        """Close the image; its result layer stays."""
        self._stop()
        self._show_closed(text)

    def release(self) -> None:
        """Stop the thread and stop following the viewer."""
        self._stop()
        for event, follow in self._followed():
            event.disconnect(follow)
        super().release()

    def _stop(self) -> None:
        self._reopen.stop()
        self._rest.stop()
        if self._renderers:
            _close_all(self._renderers)
            self._shown.complete()
        opened, self._opened = self._opened, None
        if opened is not None:
            opened.source.events.data.disconnect(self._follow_new_data)

    def _show_closed(self, text: str) -> None:
        self._image.is_held = False
        self._open.setText("Open")
        self._controls.setEnabled(False)
        self._message.setText(text)

    def _show_opened(self, result: Any, config: KPACConfig, card: ModelCard) -> None:
        shape = result.alpha.shape[:2]
        neutral = MixerState.neutral(*shape)
        if self._controls.shape != shape:
            self._history = History(neutral)
        if (self._controls.config, self._controls.sliders) != (config, card.sliders):
            self._controls.build_strips(config, card.sliders)
        self._controls.forget_effects()
        self._controls.setEnabled(True)
        is_stack = self._opened is not None and self._opened.is_stack
        # While it works on another stack it stays, for its button cancels.
        self._stack.setVisible(is_stack or self._stack.task.is_running)
        self._message.setText("Move a slider: the image follows.")
        self._show_result(result)
        self._show_state()
        if self.state != neutral:
            self._request()

    # -- moves ------------------------------------------------------------------------------

    @property
    def state(self) -> MixerState:
        """The present settings, those of a move that is not complete yet included."""
        return self._history.state

    def _move(self, state: MixerState) -> None:
        self._history.pending = state
        self._show_state()
        if self._controls.live.isChecked():
            self._rest.start()
            self._request_soon()

    def _settle(self) -> None:
        self._set(self.state)

    def _set(self, state: MixerState) -> None:
        self._step(lambda history: history.push(state))

    def reset(self) -> None:
        """Everything as the network has it."""
        self._set(MixerState.neutral(*self._controls.shape))

    def undo(self) -> None:
        """Take the last move back."""
        self._step(History.undo)

    def redo(self) -> None:
        """Make a move again that was taken back."""
        self._step(History.redo)

    def _step(self, step: Callable[[History], object]) -> None:
        self._rest.stop()
        step(self._history)
        self._show_state()
        self._request()

    @qthrottled(timeout=THROTTLE_MS)
    def _request_soon(self) -> None:
        # What has come to rest meanwhile is not to be replaced by a draft.
        self._request(draft=self._rest.isActive())

    def _request(self, *, draft: bool = False) -> None:
        renderer, opened = self._renderer, self._opened
        if renderer is None or opened is None or not self._controls.strips:
            return
        with self._message.showing_errors():
            mix = opened.mix(self.state, self._paint.plane(opened))
            self._number += 1
            region = visible_region(opened.source)
            height, width = image_size(opened.source)
            place = None if region == (0, height, 0, width) else region
            renderer.request(Request(mix, place, self._number, draft=draft, exact=not draft))

    def _complete(self) -> None:
        if self._renderer is not None:
            self._renderer.complete()

    def apply_to_stack(self) -> None:
        """Deblur all slices of the stack with the present settings, as a layer."""
        with self._stack.message.showing_errors():
            opened = self._opened
            if opened is None:
                raise NotReadyError("open the stack first, and choose the settings")
            plane = self._paint.plane(opened)
            self._stack.apply(opened, opened.mix(self.state, plane, whole=True))

    # -- painting and maps ------------------------------------------------------------------

    def add_labels(self) -> None:
        """Add a labels layer of the image's size and choose it."""
        if self._opened is not None:
            self._labels.value = self._opened.add_labels()
            self._controls.label.setValue(1)

    def add_map(self, block: int, index: int) -> None:
        """Add alpha of a block and dilation as a layer."""
        if self._opened is not None:
            self._shown.add_map(block, index)

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
            if type(layer) in (Image, Labels)
            and layer is not self._shown.layer
            and not is_split(layer)
        ]
        for text, layer in choices:
            action: Any = menu.addAction(text)
            action.triggered.connect(partial(self.replace_map, block, index, layer))
        menu.exec(place)

    def _follow_labels(self) -> None:
        """Follow the labels layer that is chosen by now."""
        self._controls.allow_labels(self._paint.follow_box())
        self._request()

    def _follow_paint(self) -> None:
        if self.state.labels:
            self._request_soon()

    # -- recipes ----------------------------------------------------------------------------

    def save_recipe(self, path: str | Path) -> None:
        """Write the settings as a recipe, in a thread."""
        opened, mix = self._opened, None
        if opened is not None:
            mix = opened.mix(self.state, self._paint.plane(opened))
        save = recipes.saving(self._shown.whole, mix, path)
        saved = f"Saved {Path(path).name}."
        self._saving.start(single(save), lambda _: self._message.setText(saved))

    def load_recipe(self, path: str | Path) -> None:
        """Take over the settings of a recipe; painted labels come as a layer."""
        loaded = recipes.load(path, self._opened, self._controls.shape)
        if loaded.labels is not None:
            self._labels.value = loaded.labels
        self._set(loaded.state)
        self._message.setText(f"Loaded {Path(path).name}.")
        if loaded.problem:
            self._message.show_error(loaded.problem)

    def _ask_save(self) -> None:
        path = recipes.ask_save(self)
        if path is not None:
            with self._message.showing_errors():
                self.save_recipe(path)

    def _ask_load(self) -> None:
        path = recipes.ask_load(self)
        if path is not None:
            with self._message.showing_errors():
                self.load_recipe(path)

    # -- showing ----------------------------------------------------------------------------

    def _show_state(self) -> None:
        self._controls.show_state(self._history)

    def _show_rendered(self, result: Any, number: int) -> None:
        if number == self._number:
            self._show_result(result)

    def _show_result(self, result: Any) -> None:
        if self._opened is None:
            return
        self._shown.show(self._opened, result)
        if result is self._shown.whole:
            self._controls.show_attention(result)

    def _show_error(self, text: str) -> None:
        self._message.show_error(text)
        if self._renderer is not None and not self._controls.isEnabled():
            self.close_session(self._message.text())

    # -- following the viewer ---------------------------------------------------------------

    def _follow_new_data(self) -> None:
        self._restart("The image changed: opening it again ...")

    def _follow_image(self) -> None:
        """Open the image that was chosen instead of the open one."""
        opened, chosen = self._opened, self._image.layer
        # Of an image that was removed only its removal is followed.
        if opened is None or chosen is None or opened.source not in self._viewer.layers:
            return
        try:
            self._check_source(chosen)
        except NotReadyError as error:
            self._message.show_error(str(error))
            self._image.value = opened.source
            return
        if chosen is not opened.source:
            self._restart("Another image: opening it ...")

    def _follow_action(self) -> None:
        """Let the canvas have the processor while the user moves it."""
        if self._renderer is not None:
            self._renderer.interrupt()

    def _follow_model(self) -> None:
        if self._model.value != self._opened_model:
            self._restart("Another model: opening the image with it ...")

    def _follow_slice(self) -> None:
        opened = self._opened
        if opened is not None and current_index(self._viewer, opened.source) != opened.index:
            self._restart("Another slice: opening it ...")

    @qdebounced(timeout=THROTTLE_MS)
    def _follow_camera(self, event: object = None) -> None:
        """Render what has come into view, where so far only a part was rendered."""
        del event
        if self._opened is not None and self._shown.region is not None:
            if not _covers(self._shown.region, visible_region(self._opened.source)):
                self._request(draft=self._rest.isActive())

    def _restart(self, text: str) -> None:
        if self._renderer is not None:
            self._message.setText(text)
            self._controls.setEnabled(False)
            self._reopen.start()

    def _follow_removal(self, event: Any) -> None:
        if self._opened is not None and event.value is self._opened.source:
            self.close_session("The image was removed.")


def _covers(outer: Region, inner: Region | None) -> bool:
    if inner is None:
        return True
    return (
        outer[0] <= inner[0] and inner[1] <= outer[1]
        and outer[2] <= inner[2] and inner[3] <= outer[3]
    )  # fmt: skip


def _close_all(renderers: list[LiveRenderer]) -> None:
    while renderers:
        renderers.pop().close()
