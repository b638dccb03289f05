"""The Deblur widget: choose an image, press one button, see the result.

Not for: the work (engine), steering it (mixer).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image, Shapes
from napari.viewer import Viewer
from qtpy.QtWidgets import QLabel

from napari_kpac.core.errors import ConfigError, NotReadyError
from napari_kpac.core.estimators import ESTIMATORS, find_estimator
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import (
    ChoiceFiller,
    Choices,
    DeviceBox,
    ImageBox,
    LayerBox,
    ModelBox,
    estimator_text,
)
from napari_kpac.widgets.compare import Comparison
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form, choice_box, group
from napari_kpac.widgets.layers import (
    Region,
    ResultLayers,
    current_index,
    find_layer,
    full_resolution,
    moved,
    placement,
    region_within,
    rgb_option,
)
from napari_kpac.widgets.run_panel import RunPanel

if TYPE_CHECKING:
    from napari_kpac.weights.store import Config

METHODS = (
    ("KPAC network", "kpac"),
    *((f"deconvolution, {estimator_text(each)}", each.name) for each in ESTIMATORS),
    ("deconvolution, map of your own", "map"),
)
GOOD_FOR = {
    "kpac": "the network: fast, and best for blur as it was trained on",
    **{each.name: f"defocus by {each.good_for}" for each in ESTIMATORS},
    "map": "removes the blur that a layer says, in pixels of sigma (half the radius)",
}
RANGES = (
    ("automatic", "auto"),
    ("contrast limits of the layer", "contrast"),
    ("full range of the data type", "dtype"),
    ("0 to 1", "unit"),
    ("percentiles of the stack", "percentile"),
)
SCOPES = (
    ("all slices", "all"),
    ("the slice on display", "slice"),
    ("a rectangle of that slice", "rectangle"),
)


class DeblurWidget(DockedWidget):
    """Chooses image, model and device; runs; puts the result beside the image."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._results = ResultLayers(napari_viewer)
        self._image = self.kept(ImageBox(napari_viewer))
        self._method = choice_box(
            "method",
            METHODS,
            "The network, or deconvolution with a defocus map.\n"
            + "\n".join(f"{name}: {text}" for name, text in GOOD_FOR.items()),
        )
        self._model = ModelBox()
        self._device = DeviceBox()
        self._range = choice_box(
            "black and white", RANGES, "Which values the network sees as black and as white."
        )
        self._scope = choice_box("process", SCOPES, "How much to process.")
        self._shapes = self._layer_box(
            "rectangle in", "A shapes layer: its selected (or last) rectangle is used.", Shapes
        )
        self._sigma = self._layer_box(
            "defocus map", "An image layer that holds the blur in pixels of sigma."
        )
        self._left = self._layer_box("left view", "For dual-pixel models: the left view.")
        self._right = self._layer_box("right view", "For dual-pixel models: the right view.")
        self._configs: Mapping[str, Config] = {}
        filler = self.kept(ChoiceFiller(self._model, self._device, self))
        filler.filled.connect(self._learn_configs)
        self._comparison = self.kept(Comparison(napari_viewer))
        self._panel = RunPanel(
            "Deblur",
            "Deblur the image; again to cancel.",
            cancelled="Cancelled; nothing was changed.",
        )
        self._message = self._panel.message
        self._build()
        self._panel.wanted.connect(self.run)
        for control in (self._scope, self._model, self._method):
            control.changed.connect(self._show_controls)
        self._show_controls()
        self._message.setText(first_hint("Deblur", self._image.layer))

    def _layer_box(self, label: str, tooltip: str, kind: Any = Image) -> LayerBox:
        return self.kept(LayerBox(self._viewer, kind, label, tooltip, "(none)"))

    def _build(self) -> None:
        controls = [
            self._image, self._method, self._model, self._device, self._range, self._scope,
            self._shapes, self._sigma, self._left, self._right,
        ]  # fmt: skip
        self._about = QLabel()
        self._about.setWordWrap(True)
        self.fill_scrolling(
            Form(controls), self._about, self._panel, group("compare", self._comparison)
        )

    def _show_controls(self) -> None:
        """Show the controls that go with the method, the model and the scope."""
        method = self._method.value
        info = find_estimator(method)
        own_model = info is not None and info.needs_model
        self._model.visible = self._device.visible = method == "kpac" or own_model
        self._model.show_kind(method if own_model else "kpac")
        self._sigma.visible = method == "map"
        self._about.setText(GOOD_FOR[method].capitalize() + ".")
        self._left.visible = self._right.visible = self._takes_views()
        self._shapes.visible = self._scope.value == "rectangle"

    def _learn_configs(self, found: Choices) -> None:
        self._configs = found.configs
        self._show_controls()

    def _takes_views(self) -> bool:
        config = self._configs.get(preferences.model(self._model.value))
        return self._method.value == "kpac" and config is not None and config.views == 2

    def run(self) -> None:
        """Start deblurring what is chosen."""
        with self._message.showing_errors():
            layer = self._image.chosen()
            target, options = self._make_target(layer), self._options(layer)
            # The thread gets no more of the target than this: it must not hold on to a layer.
            make = partial(_steps, target.data, target.views, target.region, options, target.sigma)
            model = options.model if options.method == "kpac" else options.method
            show = partial(self._show_result, target, model)
            self._panel.start(make, "Loading the model ...", show)

    def _options(self, layer: Image) -> DeblurOptions:
        rule = self._range.value
        if rule == "contrast":
            rule = tuple(float(v) for v in layer.contrast_limits)
        return preferences.apply(
            DeblurOptions(
                model=self._model.value,
                device=self._device.value,
                range=rule,
                rgb=rgb_option(layer),
                method=self._method.value,
            )
        )

    def _make_target(self, layer: Image) -> _Target:
        scope, index = self._scope.value, current_index(self._viewer, layer)
        data, views, region = full_resolution(layer), None, None
        left, right = self._left.layer, self._right.layer
        if self._takes_views():
            if left is None or right is None:
                raise NotReadyError(
                    "this model takes the two views of a dual-pixel camera: choose the layers of "
                    "the left and the right view, or another model"
                )
            views = full_resolution(left), full_resolution(right)
        sigma = None
        if self._method.value == "map":
            if self._sigma.layer is None:
                raise NotReadyError(
                    "choose the layer of the defocus map: an image layer with the blur in pixels "
                    "of sigma, of the size of the image"
                )
            sigma = full_resolution(self._sigma.layer)
        if scope != "all":
            sigma = sigma[index] if sigma is not None and sigma.ndim > 2 else sigma
            data = data[index]
            views = None if views is None else (views[0][index], views[1][index])
        if scope == "rectangle":
            if self._method.value != "kpac":
                raise ConfigError("deconvolution takes whole slices: choose one of those")
            region = selected_rectangle(layer, self._shapes.layer)
        return _Target(layer, scope, index, data, views, region, sigma)

    def _show_result(self, target: _Target, model: str, result: Any) -> None:
        layer = target.layer
        if find_layer(self._viewer, layer.unique_id) is None:
            self._message.setText("The image was removed, so its result was dropped.")
            return
        key = (layer.unique_id, target.scope, model)
        added = self._results.put(
            key,
            *target.placed(result.image),
            name=f"{layer.name} (deblurred)",
            beside=layer,
            record=result.recipe.to_dict(),
        )
        self._results.raise_above(layer, key)
        self._comparison.set_pair(layer, added)
        if result.sigma is not None and target.sigma is None:  # what was estimated, in pixels
            self._results.put(
                (layer.unique_id, "defocus map", model),
                *target.placed(result.sigma),
                name=f"{layer.name} (defocus map)",
                colormap="magma",
                contrast_limits=(0, 5),
                visible=False,
            )
        note = f" Note: {self._panel.note}." if self._panel.note else ""
        self._message.setText(f"Done in {self._panel.seconds:.1f} s: layer “{added.name}”.{note}")


@dataclass(frozen=True, eq=False)
class _Target:
    """What one run works on."""

    layer: Image
    scope: str
    index: tuple[int, ...]
    data: Any
    views: tuple[Any, Any] | None
    region: Region | None
    sigma: Any = None
    """The defocus map of one's own."""

    def placed(self, pixels: Any) -> tuple[Any, dict[str, Any]]:
        """Return a result with all axes of its layer, and where it lies."""
        if self.scope == "all":
            return pixels, placement(self.layer)
        top, _, left, _ = self.region or (0, 0, 0, 0)
        lead = (np.newaxis,) * len(self.index)
        return pixels[lead], moved(self.layer, (*self.index, top, left))


def _steps(
    data: Any, views: Any, region: Region | None, options: DeblurOptions, sigma: Any = None
) -> Steps[Any]:
    """Run the engine; loads torch on first use, so call it in a thread."""
    from napari_kpac.engine import Session, deblur_steps

    preferences.apply_to_engine()
    if region is None:
        return (yield from deblur_steps(data, options, views=views, sigma=sigma))
    fields = options.to_dict()
    session = Session(data, fields.pop("model"), fields.pop("device"), views=views, **fields)
    try:
        last = Progress(0, 1, "encode")
        for done, tiles in session.encode_steps():
            last = Progress(done, tiles + 1, "encode", session.note)
            yield last
        yield replace(last, stage="decode")
        return session.render(region=region)
    finally:
        session.close()


def selected_rectangle(layer: Image, shapes: Any) -> Region:
    """Return the region of an image that a shapes layer's rectangle covers."""
    if shapes is None or len(shapes.data) == 0:
        raise NotReadyError("draw a rectangle in a shapes layer first, and choose that layer")
    chosen = sorted(shapes.selected_data)
    corners = shapes.data[chosen[-1] if chosen else -1]
    points = np.array([layer.world_to_data(shapes.data_to_world(corner)) for corner in corners])
    region = region_within(layer, points.min(axis=0), points.max(axis=0))
    if region is None:
        raise ConfigError("the rectangle lies outside the image: draw it on the image")
    return region
