"""The Deblur widget: choose an image, press one button, see the result.

Not for: the work (engine), steering it (mixer).
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from magicgui.widgets import ComboBox
from napari.layers import Image
from napari.utils.notifications import show_info
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QGroupBox,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
)

from napari_kpac.core.errors import ConfigError, KpacError, NotReadyError, for_people
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import (
    RANGES,
    ChoiceFiller,
    DeviceBox,
    LayerBox,
    ModelBox,
    image_box,
    shapes_box,
)
from napari_kpac.widgets.compare import Comparison
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form
from napari_kpac.widgets.layers import (
    METADATA,
    current_index,
    find_layer,
    full_resolution,
    image_size,
    moved,
    placement,
)
from napari_kpac.widgets.task import Task

METHODS = (("KPAC network", "kpac"), ("classical (EBDB), no network", "ebdb"))
SCOPES = (
    ("all slices", "all"),
    ("the slice on display", "slice"),
    ("a rectangle of that slice", "rectangle"),
)


class DeblurWidget(DockedWidget):
    """Chooses image, model and device; runs; puts the result beside the image."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._results: dict[tuple[Any, str], Any] = {}
        self._started = 0.0
        self._note = ""
        self._target: _Target | None = None
        self._task = Task(self)
        self._task.progressed.connect(self._show_progress)
        self._task.succeeded.connect(self._show_result)
        self._task.failed.connect(self._show_error)
        self._task.cancelled.connect(self._show_cancelled)
        self._task.ended.connect(self._show_idle)

        self._image = image_box(napari_viewer)
        self._model = ModelBox()
        self._device = DeviceBox()
        self._range = ComboBox(
            label="black and white",
            choices=list(RANGES),
            tooltip="Which values the network sees as black and as white.",
        )
        self._method = ComboBox(
            label="method",
            choices=list(METHODS),
            tooltip="The network, or classical deconvolution with an estimated defocus map.",
        )
        self._scope = ComboBox(
            label="process", choices=list(SCOPES), tooltip="How much to process."
        )
        self._shapes = shapes_box(napari_viewer)
        self._left = LayerBox(
            napari_viewer, Image, label="left view", optional="(none)",
            tooltip="For dual-pixel models: the left view.",
        )  # fmt: skip
        self._right = LayerBox(
            napari_viewer, Image, label="right view", optional="(none)",
            tooltip="For dual-pixel models: the right view.",
        )  # fmt: skip
        self._form = Form([
                self._image, self._method, self._model, self._device, self._range, self._scope,
                self._shapes, self._left, self._right,
        ])  # fmt: skip
        self._scope.changed.connect(self._follow_scope)
        self._model.changed.connect(self._follow_model)
        self._method.changed.connect(self._follow_model)
        self._filler = ChoiceFiller(self._model, self._device, self)
        self._comparison = Comparison(napari_viewer)
        self._build()
        self._follow_scope()
        self._follow_model()
        self._show_idle()
        self._message.setText(first_hint("Deblur", self._image.layer))

    def _build(self) -> None:
        self._button = QPushButton()
        self._button.setToolTip("Deblur the image; again to cancel.")
        self._button.clicked.connect(self._toggle)
        self._button.setDefault(True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        compare = QGroupBox("compare")
        row = QVBoxLayout(compare)
        row.addWidget(self._comparison.control)
        layout = self.fill_scrolling()
        layout.addWidget(self._form)
        layout.addWidget(self._button)
        layout.addWidget(self._bar)
        layout.addWidget(self._message)
        layout.addWidget(compare)
        layout.addStretch(1)

    def release(self) -> None:
        """Stop work and stop following the viewer."""
        self._task.cancel(forget=True)
        self._filler.release()
        self._comparison.release()
        for box in (self._image, self._shapes, self._left, self._right):
            box.release()

    def _toggle(self) -> None:
        if self._task.is_running:
            self._message.setText("Stopping after this tile ...")
            self._task.cancel()
        else:
            self.run()

    def run(self) -> None:
        """Start deblurring what is chosen."""
        layer = self._image.layer
        if layer is None:
            self._show_error("There is no image layer: open an image first (File > Open).")
            return
        try:
            self._target = self._make_target(layer)
        except KpacError as error:
            self._show_error(for_people(error))
            return
        target, options = self._target, self._options(layer)
        self._started, self._note = time.monotonic(), ""
        self._button.setText("Cancel")
        self._bar.setRange(0, 0)
        self._message.setText("Loading the model ...")
        self._task.start(lambda: _steps(target, options))

    def _options(self, layer: Image) -> DeblurOptions:
        rule = self._range.value
        if rule == "contrast":
            rule = tuple(float(v) for v in layer.contrast_limits)
        return preferences.apply(
            DeblurOptions(
                model=self._model.value,
                device=self._device.value,
                range=rule,
                rgb=bool(layer.rgb),
                method=self._method.value,
            )
        )

    def _make_target(self, layer: Image) -> _Target:
        scope = self._scope.value
        index = current_index(self._viewer, layer)
        views = [box.layer for box in (self._left, self._right)]
        pair = None
        if all(view is not None for view in views) and self._left.visible:
            pair = tuple(full_resolution(view) for view in views)
        data = full_resolution(layer)
        region = None
        if scope != "all":
            data = data[index]
            pair = None if pair is None else (pair[0][index], pair[1][index])
        if scope == "rectangle":
            if self._method.value != "kpac":
                raise ConfigError("the classical method takes whole slices: choose one of those")
            region = selected_rectangle(layer, self._shapes.layer)
        return _Target(layer, scope, index, data, pair, region)

    def _follow_scope(self) -> None:
        self._shapes.visible = self._scope.value == "rectangle"

    def _follow_model(self) -> None:
        network = self._method.value == "kpac"
        self._model.visible = self._device.visible = network
        dual = network and "dual" in str(self._model.current_choice)
        self._left.visible = self._right.visible = dual

    def _show_progress(self, progress: Progress) -> None:
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)
        spent = time.monotonic() - self._started
        left = spent / progress.done * (progress.total - progress.done) if progress.done else 0
        self._note = progress.note or self._note
        note = progress.note or f"about {left:.0f} s left"
        self._message.setText(
            f"Step {progress.done} of {progress.total} ({progress.stage}), {note}"
        )

    def _show_result(self, result: Any) -> None:
        target = self._target
        if target is None or find_layer(self._viewer, target.layer.unique_id) is None:
            self._message.setText("The image was removed, so its result was dropped.")
            return
        added = self._put(target, result)
        self._comparison.set_pair(target.layer, added)
        if result.sigma is not None:
            self._put_defocus_map(target, result.sigma)
        spent = time.monotonic() - self._started
        note = f" Note: {self._note}." if self._note else ""
        self._message.setText(f"Done in {spent:.1f} s: layer “{added.name}”.{note}")

    def _put(self, target: _Target, result: Any) -> Image:
        """Update the result layer of this image, or add one beside it."""
        layer = target.layer
        leading = len(target.index)
        image, where = result.image, placement(layer)
        if target.scope != "all":
            image = image[(np.newaxis,) * leading]
            top, left = (0, 0) if target.region is None else (target.region[0], target.region[2])
            where = moved(layer, (*target.index, top, left))
        record = {METADATA: result.recipe.to_dict()}
        key = (layer.unique_id, target.scope)
        known = find_layer(self._viewer, self._results.get(key))
        if known is not None and known.data.shape == image.shape:
            known.data = image
            known.metadata = {**known.metadata, **record}
            for name, value in where.items():
                setattr(known, name, value)
            return known
        if known is not None:
            self._viewer.layers.remove(known)
        added = Image(
            image, name=f"{layer.name} (deblurred)", rgb=layer.rgb, colormap=layer.colormap,
            gamma=layer.gamma, metadata=record, **where,
        )  # fmt: skip
        if not layer.rgb:
            added.contrast_limits = layer.contrast_limits
        self._viewer.layers.insert(self._viewer.layers.index(layer) + 1, added)
        self._viewer.layers.selection.active = layer
        self._results[key] = added.unique_id
        return added

    def _put_defocus_map(self, target: _Target, sigma: Any) -> None:
        """Show the blur that the classical method estimated, in pixels of sigma."""
        layer = target.layer
        where = placement(layer)
        if target.scope != "all":
            sigma = sigma[(np.newaxis,) * len(target.index)]
            where = moved(layer, (*target.index, 0, 0))
        name = f"{layer.name} (defocus map)"
        for known in [each for each in self._viewer.layers if each.name == name]:
            self._viewer.layers.remove(known)
        self._viewer.add_image(
            sigma, name=name, colormap="magma", contrast_limits=(0, 5), visible=False, **where
        )

    def _show_error(self, text: str) -> None:
        self._message.setText(f"⚠ {text}")
        show_info(text)

    def _show_cancelled(self) -> None:
        self._message.setText("Cancelled; nothing was changed.")

    def _show_idle(self) -> None:
        self._button.setText("Deblur")
        self._bar.setRange(0, 1)
        self._bar.setValue(0)


class _Target:
    """What one run works on."""

    def __init__(
        self, layer: Image, scope: str, index: tuple[int, ...], data: Any, views: Any, region: Any
    ) -> None:
        self.layer = layer
        self.scope = scope
        self.index = index
        self.data = data
        self.views = views
        self.region = region


def _steps(target: _Target, options: DeblurOptions) -> Steps[Any]:
    """Run the engine on a target; loads torch on first use, so call it in a thread."""
    from napari_kpac.engine import Session, deblur_steps

    preferences.apply_to_engine()
    if target.region is None:
        return (yield from deblur_steps(target.data, options, views=target.views))
    fields = options.to_dict()
    session = Session(
        target.data, fields.pop("model"), fields.pop("device"), views=target.views, **fields
    )
    try:
        last = Progress(0, 1, "encode")
        for done, tiles in session.encode_steps():
            last = Progress(done, tiles + 1, "encode", session.note)
            yield last
        yield replace(last, stage="decode")
        return session.render(region=target.region)
    finally:
        session.close()


def selected_rectangle(layer: Image, shapes: Any) -> tuple[int, int, int, int]:
    """Return (top, bottom, left, right) of a shapes layer's rectangle, in pixels of an image."""
    if shapes is None or len(shapes.data) == 0:
        raise NotReadyError("draw a rectangle in a shapes layer first, and choose that layer")
    chosen = sorted(shapes.selected_data)
    corners = shapes.data[chosen[-1] if chosen else -1]
    points = np.array([layer.world_to_data(shapes.data_to_world(corner)) for corner in corners])
    height, width = image_size(layer)
    low, high = points[:, -2:].min(axis=0), points[:, -2:].max(axis=0)
    top, left = (int(max(0, np.floor(v))) for v in low)
    bottom, right = min(height, int(np.ceil(high[0]))), min(width, int(np.ceil(high[1])))
    if top >= bottom or left >= right:
        raise ConfigError("the rectangle lies outside the image: draw it on the image")
    return top, bottom, left, right
