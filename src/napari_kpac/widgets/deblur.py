"""The Deblur widget: choose an image, press one button, see the result.

Not for: the work (engine), steering it (mixer).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from magicgui.types import FileDialogMode
from napari.layers import Image, Shapes
from napari.viewer import Viewer
from qtpy.QtWidgets import QLabel

from napari_kpac.core.errors import ConfigError, NotReadyError
from napari_kpac.core.estimators import ESTIMATORS, find_estimator
from napari_kpac.core.options import DECONVOLUTION_HELP, DeblurOptions
from napari_kpac.images import read_values
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import (
    ChoiceFiller,
    Choices,
    DeviceBox,
    ImageBox,
    LayerBox,
    ModelBox,
)
from napari_kpac.widgets.compare import Comparison
from napari_kpac.widgets.deblur_target import (
    Deblur,
    LayerProgress,
    Pixels,
    Run,
    Target,
    apply_recipe,
    deblur_pixels,
    each_layer,
    selected_rectangle,
)
from napari_kpac.widgets.dialogs import ask_save_name
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.files import RESULT_FILES, write_result
from napari_kpac.widgets.form import (
    Form,
    button,
    choice_box,
    file_edit,
    group,
    read_folder,
)
from napari_kpac.widgets.layers import (
    ResultLayers,
    current_index,
    find_layer,
    full_resolution,
    is_ours,
    rgb_option,
)
from napari_kpac.widgets.recipe import RecipeEdit
from napari_kpac.widgets.run_panel import RunPanel
from napari_kpac.widgets.task import Latest

if TYPE_CHECKING:
    from napari_kpac.weights.store import Config

METHODS = (
    ("KPAC network", "kpac"),
    *((f"deconvolution, {each.label} map", each.name) for each in ESTIMATORS),
    ("deconvolution, own map", "map"),
)
GOOD_FOR = {
    "kpac": "the network: fast, and best for blur as it was trained on",
    **{each.name: f"defocus by {each.good_for}" for each in ESTIMATORS},
    "map": "removes the blur that a layer or a file says, in pixels of sigma (half the radius)",
}
DECONVOLUTIONS = (("our settings", "default"), ("the literature's settings", "paper"))
MAP_FILES = "Maps (*.tif *.tiff *.npy);;All files (*)"
RANGES = (
    ("automatic", "auto"),
    ("contrast limits of the layer", "contrast"),
    ("full range of the data type", "dtype"),
    ("0 to 1", "unit"),
    ("percentiles of the stack", "percentile"),
)
CANCELLED = "Cancelled; nothing was changed."
SCOPES = (
    ("all slices", "all"),
    ("the slice on display", "slice"),
    ("a rectangle of that slice", "rectangle"),
    ("all selected layers", "selected"),
)
EXACTNESS = (
    ("exact", "exact"),
    ("fast (beta is estimated)", "sampled"),
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
        self._sigma_file = file_edit(
            "or its file",
            "Where no layer is chosen: a file of the blur in pixels of sigma, float TIFF or .npy.",
            FileDialogMode.EXISTING_FILE,
            MAP_FILES,
        )
        self._deconvolution = choice_box(
            "deconvolution", DECONVOLUTIONS, DECONVOLUTION_HELP.capitalize() + "."
        )
        self._exactness = choice_box(
            "rectangle is",
            EXACTNESS,
            "Exact: the whole image goes through the network first, which takes as long as "
            "deblurring most of it. Fast: only a sample of it does, to estimate the shape "
            "attention (beta), which depends on the whole image; see the documentation for how "
            "far results differ.",
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
            cancelled=CANCELLED,
        )
        self._message = self._panel.message
        self._run: Run | None = None
        self._recipe = RecipeEdit("A recipe that the mixer saved, or a result that carries one.")
        self._recipe.read.connect(self._show_controls)
        self._apply = button(
            "Apply recipe",
            "Make what is chosen under “process” by the recipe; model and settings are its own.",
            self.apply_recipe,
        )
        self._save = button(
            "Save result ...",
            "Save the last result as TIFF or Zarr, with scale, units and recipe.",
            self._ask_save,
        )
        self._saving = Latest(self)
        self._saving.failed.connect(self._message.show_error)
        self._build()
        self._panel.wanted.connect(self.run)
        task = self._panel.task
        task.progressed.connect(self._show_step)
        task.cancelled.connect(self._show_cancelled)
        task.ended.connect(self._forget)
        for control in (self._scope, self._model, self._method):
            control.changed.connect(self._show_controls)
        self._show_controls()
        self._message.setText(first_hint("Deblur", self._image.layer))

    def _layer_box(self, label: str, tooltip: str, kind: Any = Image) -> LayerBox:
        return self.kept(LayerBox(self._viewer, kind, label, tooltip, "(none)"))

    def _build(self) -> None:
        controls = [
            self._image, self._method, self._model, self._device, self._range, self._scope,
            self._shapes, self._exactness, self._sigma, self._sigma_file, self._deconvolution,
            self._left, self._right,
        ]  # fmt: skip
        self._about = QLabel()
        self._about.setWordWrap(True)
        recipe = group("recipe", self._recipe, self._apply)
        compare = group("compare", self._comparison)
        self.fill_scrolling(Form(controls), self._about, self._panel, recipe, compare, self._save)

    def _show_controls(self) -> None:
        """Show the controls that go with the method, the model and the scope."""
        method = self._method.value
        info = find_estimator(method)
        own_model = info is not None and info.needs_model
        self._model.visible = self._device.visible = method == "kpac" or own_model
        self._model.show_kind(method if own_model else "kpac")
        self._sigma.visible = self._sigma_file.visible = method == "map"
        self._deconvolution.visible = method != "kpac"
        self._about.setText(GOOD_FOR[method].capitalize() + ".")
        self._image.visible = self._scope.value != "selected"
        takes_views = self._model_is_dual() or self._recipe_is_dual()
        self._left.visible = self._right.visible = takes_views
        self._shapes.visible = self._exactness.visible = self._scope.value == "rectangle"

    def _learn_configs(self, found: Choices) -> None:
        self._configs = found.configs
        self._show_controls()

    def _model_is_dual(self) -> bool:
        return self._method.value == "kpac" and self._is_dual(self._model.value)

    def _recipe_is_dual(self) -> bool:
        recipe = self._recipe.recipe
        return recipe is not None and self._is_dual(recipe.options.model)

    def _is_dual(self, model: str) -> bool:
        config = self._configs.get(preferences.model(model))
        return config is not None and config.views == 2

    def run(self) -> None:
        """Start deblurring what is chosen."""
        with self._message.showing_errors():
            targets = list(self._targets(dual=self._model_is_dual()))
            options = targets[0].pixels.options
            model = options.model if options.method == "kpac" else options.method
            self._start(deblur_pixels, targets, model, "deblurred")

    def apply_recipe(self) -> None:
        """Start making what is chosen by the recipe."""
        with self._message.showing_errors():
            path = self._recipe.chosen()
            if self._scope.value == "rectangle":
                raise ConfigError("a recipe is applied to whole slices: choose one of those")
            targets = list(self._targets(dual=self._recipe_is_dual()))
            self._start(partial(apply_recipe, path), targets, str(path), path.stem)

    def _start(self, deblur: Deblur, targets: list[Target], model: str, name: str) -> None:
        self._run = Run(targets, model, name)
        self._apply.setEnabled(False)
        # The thread gets no more of the targets than this: it must not hold on to a layer.
        make = partial(each_layer, deblur, [target.pixels for target in targets])
        self._panel.start(make, "Loading the model ...", self._show_done)

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
                deconvolution=self._deconvolution.value,
            )
        )

    def _targets(self, *, dual: bool) -> Iterator[Target]:
        """Yield what is to be processed; raises where there is nothing.

        ``dual``: with the two views of a dual-pixel camera.
        """
        if self._scope.value != "selected":
            yield self._target(self._image.chosen(), self._scope.value, dual=dual)
            return
        selected = self._viewer.layers.selection
        layers = [
            layer
            for layer in self._viewer.layers
            if layer in selected and type(layer) is Image and not is_ours(layer)
        ]
        if not layers:
            raise NotReadyError("select one or more image layers in the list of layers first")
        if dual:
            raise ConfigError(
                "a dual-pixel model takes one image and its two views at a time: choose all slices"
            )
        for layer in layers:
            yield self._target(layer, "all")

    def _target(self, layer: Image, scope: str, *, dual: bool = False) -> Target:
        index = current_index(self._viewer, layer)
        data, views, region = full_resolution(layer), None, None
        left, right = self._left.layer, self._right.layer
        if dual:
            if left is None or right is None:
                raise NotReadyError(
                    "this model takes the two views of a dual-pixel camera: choose the layers of "
                    "the left and the right view, or another model"
                )
            views = full_resolution(left), full_resolution(right)
        sigma = self._own_map() if self._method.value == "map" else None
        if scope != "all":
            sigma = sigma[index] if sigma is not None and sigma.ndim > 2 else sigma
            data = data[index]
            views = None if views is None else (views[0][index], views[1][index])
        if scope == "rectangle":
            if self._method.value != "kpac":
                raise ConfigError("deconvolution takes whole slices: choose one of those")
            region = selected_rectangle(layer, self._shapes.layer)
        sampled = self._exactness.value == "sampled"
        options = self._options(layer)
        pixels = Pixels(layer.name, data, options, views, region, sampled, sigma)
        return Target(layer, scope, index, pixels)

    def _own_map(self) -> Any:
        """Return the defocus map of the layer that is chosen, else of the file that is named."""
        if self._sigma.layer is not None:
            return full_resolution(self._sigma.layer)
        path = read_folder(self._sigma_file)
        if path is None:
            raise NotReadyError(
                "choose the layer of the defocus map, an image layer with the blur in pixels of "
                "sigma, of the size of the image; or name a file of it"
            )
        return read_values(path)

    def _show_step(self, progress: LayerProgress) -> None:
        """Show the result of a layer when it is there."""
        run, number = self._run, getattr(progress, "number", None)
        if run is None or number is None:
            return
        run.ended.append(number)
        if progress.problem:
            run.said.append(f"⚠ “{run.targets[number].layer.name}”: {progress.problem}")
        else:
            self._show_result(run, run.targets[number], progress.result)

    def _show_result(self, run: Run, target: Target, result: Any) -> None:
        layer = target.layer
        if find_layer(self._viewer, layer.unique_id) is None:
            run.said.append("The image was removed, so its result was dropped.")
            return
        key = (layer.unique_id, target.scope, run.model)
        added = self._results.put(
            key,
            *target.placed(result.image),
            name=f"{layer.name} ({run.name})",
            beside=layer,
            record=result.recipe.to_dict(),
        )
        self._results.raise_above(layer, key)
        self._comparison.set_pair(layer, added, target.part)
        run.made.append(added.name)
        # What was estimated, in pixels.
        if result.sigma is not None and target.pixels.sigma is None:
            self._results.put(
                (layer.unique_id, "defocus map", run.model),
                *target.placed(result.sigma),
                name=f"{layer.name} (defocus map)",
                colormap="magma",
                contrast_limits=(0, 5),
                visible=False,
            )
        if result.sampled:
            run.said.append("Fast: beta was estimated from a sample of the image.")

    def _show_done(self, _: None) -> None:
        run = self._run
        if run is None:
            return
        if len(run.ended) < len(run.targets):  # cancelled while the last result was on its way
            self._message.setText(CANCELLED)
            self._show_cancelled()
            return
        if run.made:
            note = f" Note: {self._panel.note}." if self._panel.note else ""
            names = ", ".join(f"“{name}”" for name in run.made)
            layers = "layer" if len(run.made) == 1 else "layers"
            run.said.insert(0, f"Done in {self._panel.seconds:.1f} s: {layers} {names}.{note}")
        self._message.setText("\n".join(run.said))

    def _show_cancelled(self) -> None:
        if self._run is not None and self._run.made:
            count = f"{len(self._run.made)} of {len(self._run.targets)} layers"
            self._message.setText(f"Cancelled; {count} were done before.")

    def _ask_save(self) -> None:
        with self._message.showing_errors():
            layer = self._comparison.result
            if layer is None:
                raise NotReadyError("deblur an image first: there is no result to save")
            asked = ask_save_name(self, "Save result", f"{layer.name}.tif", RESULT_FILES)
            if asked is not None:
                self._message.setText("Saving ...")
                write = partial(write_result, asked[0], *layer.as_layer_data_tuple()[:2])
                self._saving.ask(write, lambda files: self._message.setText(f"Saved {files[0]}."))

    def _forget(self) -> None:
        self._run = None  # it holds on to layers
        self._apply.setEnabled(True)
