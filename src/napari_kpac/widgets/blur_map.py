"""The Blur map widget: measure blur, choose what counts as blurred, score it, save it.

Not for: measuring (detection), what is computed in threads (blur_result.py).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from magicgui.widgets import FloatSpinBox
from napari.layers import Image, Labels
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QCheckBox, QGridLayout, QLabel, QSlider
from superqt.utils import qthrottled, signals_blocked

from napari_kpac.core.errors import NotReadyError
from napari_kpac.core.estimators import ESTIMATORS, find_estimator
from napari_kpac.core.options import DetectionOptions
from napari_kpac.widgets import preferences
from napari_kpac.widgets.blur_result import (
    BlurResult,
    HistogramPlot,
    decide_blur,
    describe_scores,
    find_regions,
    layer_features,
    measure,
    save,
    save_regions,
)
from napari_kpac.widgets.choices import (
    ChoiceFiller,
    ImageBox,
    LayerBox,
    ModelBox,
    estimator_text,
)
from napari_kpac.widgets.dialogs import ask_save_name
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form, button, choice_box, group
from napari_kpac.widgets.layers import ResultLayers, find_layer, full_resolution, placement
from napari_kpac.widgets.run_panel import Message, RunPanel
from napari_kpac.widgets.task import Latest

SOURCES = (
    ("α₁ of block 1 (the paper's)", "alpha1"),
    ("α₂ of block 1", "alpha2"),
    ("α₃ of block 1", "alpha3"),
    ("α₄ of block 1", "alpha4"),
    ("α₅ of block 1", "alpha5"),
    ("mean of all α", "mixture"),
    ("local variance (no network)", "variance"),
    *((estimator_text(each), each.name) for each in ESTIMATORS),
)
GOOD_FOR = {
    "alpha": "the network's attention: fine and coarse blur alike, as it was trained",
    "variance": "contrast of the neighbourhood: fast; flat areas read as blurred",
    **{each.name: each.good_for for each in ESTIMATORS},
}
RULES = (
    ("0.3 max + 0.7 min", "midrange"),
    ("1.5 × mean", "mean"),
    ("Otsu", "otsu"),
    ("by hand", "fixed"),
)
ENLARGE = (("automatic", "auto"), ("4 (the paper's)", 4), ("2", 2), ("not at all", 1))
POLARITIES = (("what is blurred", "blurred"), ("what is sharp", "sharp"))
FILES = {
    "Map, 8 bits (*.png)": "png8",
    "Map, 16 bits (*.png)": "png16",
    "Map, 32 bits (*.tif)": "tiff",
    "NumPy (*.npy)": "npy",
    "Overlay (*.png)": "overlay",
}
SLIDER_STEPS = 1000
MASK_OPACITY = 0.35
"""Of masks and regions: the image is to be seen through them."""


class BlurMapWidget(DockedWidget):
    """Measures blur once; thresholds, smoothing and masks follow at once."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._results = ResultLayers(napari_viewer)
        self._measured: Any = None
        self._source: Image | None = None
        """What was measured."""
        self._result: BlurResult | None = None
        """What of it counts as blurred."""
        self._deciding, self._scoring, self._extras = Latest(self), Latest(self), Latest(self)
        self._panel = RunPanel("Measure", "Measure the blur of the image; again to cancel.")
        self._message = self._panel.message
        self._image = self.kept(ImageBox(napari_viewer))
        self._model = ModelBox(single=True)
        lines = "\n".join(f"{name}: {text}" for name, text in GOOD_FOR.items())
        self._kind = choice_box("measure by", SOURCES, f"What tells blur.\n{lines}")
        self._enlarge = choice_box(
            "enlarge first",
            ENLARGE,
            "Automatic is what was measured to be best for the model; its card says what that is.",
        )
        self._smoothing = FloatSpinBox(
            label="smoothing", value=0, min=0, max=50, step=0.5, tooltip="Sigma in pixels."
        )
        self._rule = choice_box("threshold", RULES, "From which value on it is blurred.")
        tooltip = "A labels layer to score the mask against."
        self._truth = self.kept(LayerBox(napari_viewer, Labels, "truth", tooltip, "(none)"))
        self._polarity = choice_box(
            "its labels mark", POLARITIES, "What the labels of the truth stand for."
        )
        self.kept(ChoiceFiller(self._model, None, self))
        self._build()
        self._connect()
        self._message.setText(first_hint("Measure", self._image.layer))

    def _build(self) -> None:
        self._plot = HistogramPlot()
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, SLIDER_STEPS)
        self._slider.setToolTip("The threshold: move it to choose by hand.")
        self._mask_check = QCheckBox("mask as a labels layer")
        self._mask_check.setToolTip("Show what counts as blurred as a layer of labels.")
        self._mask_check.setChecked(True)
        self._scores = Message()
        scores = group("scores", Form([self._truth, self._polarity]), self._scores)
        form = Form([
            self._image, self._model, self._kind, self._enlarge, self._smoothing, self._rule,
        ])  # fmt: skip
        self._regions = button(
            "Regions", "Label the blurred areas and measure each.", self.add_regions
        )
        self._save_regions = button(
            "Save regions", "Save the measurements of the regions as CSV.", self._ask_save_regions
        )
        self._save = button(
            "Save map", "Save the map: PNG, TIFF, NumPy or overlay.", self._ask_save
        )
        row = QGridLayout()  # a narrow dock has no room for three buttons in a row
        row.addWidget(self._regions, 0, 0)
        row.addWidget(self._save_regions, 0, 1)
        row.addWidget(self._save, 1, 0, 1, 2)
        self._about = QLabel(GOOD_FOR["alpha"].capitalize() + ".")
        self._about.setWordWrap(True)
        self.fill_scrolling(
            form, self._about, self._panel, self._plot, self._slider, self._mask_check, scores, row
        )
        self._enable_buttons()

    def _connect(self) -> None:
        self._panel.wanted.connect(self.measure)
        self._deciding.failed.connect(self._message.show_error)
        self._extras.failed.connect(self._message.show_error)
        # No notification: it would come with every move of the threshold.
        self._scoring.failed.connect(lambda text: self._scores.setText(f"⚠ {text}"))
        self._slider.valueChanged.connect(self._move_threshold)
        self._kind.changed.connect(self._follow_kind)
        for control in (self._rule, self._smoothing, self._enlarge):
            control.changed.connect(self._decide)
        self._mask_check.toggled.connect(self._show_mask)
        for control in (self._truth, self._polarity):
            control.changed.connect(self._ask_scores)

    # -- measuring --------------------------------------------------------------------------

    def measure(self) -> None:
        """Measure the blur of the chosen image, in a thread."""
        with self._message.showing_errors():
            layer = self._image.chosen()
            make = partial(measure, full_resolution(layer), self._options(layer))
            self._panel.start(make, "Measuring ...", partial(self._show_measured, layer))

    def _options(self, source: Image | None) -> DetectionOptions:
        rule = self._rule.value
        return preferences.apply(
            DetectionOptions(
                model=self._model.value,
                source=self._kind.value,
                upsampling=self._enlarge.value,
                smoothing=float(self._smoothing.value),
                threshold_rule=rule,
                threshold=self._slider.value() / SLIDER_STEPS if rule == "fixed" else None,
                rgb=None if source is None else bool(source.rgb),
            )
        )

    def _show_measured(self, source: Image, measured: Any) -> None:
        # Not before: until then the sliders work on what was measured before.
        self._source, self._measured, self._result = source, measured, None
        self._enable_buttons()
        self._decide()

    def _follow_kind(self) -> None:
        kind = find_estimator(self._kind.value)
        attention = kind is None and self._kind.value != "variance"
        self._enlarge.visible = attention
        own_model = kind is not None and kind.needs_model
        self._model.visible = attention or own_model
        self._model.show_kind(self._kind.value if own_model else "kpac")
        self._about.setText(GOOD_FOR["alpha" if attention else self._kind.value].capitalize() + ".")
        self._decide()

    def _decide(self) -> None:
        """Choose, smooth and threshold what was measured, unless it must be measured again."""
        if self._measured is None:
            return
        options = self._options(self._source)
        if not self._measured.serves(options):
            self._message.setText("Press Measure to see this.")
            return
        before = None if self._result is None else self._result.detection
        self._deciding.ask(partial(decide_blur, self._measured, options, before), self._show_result)

    @qthrottled(timeout=60)
    def _move_threshold(self, value: int) -> None:
        del value
        if self._rule.value != "fixed":
            with self._rule.changed.blocked():
                self._rule.value = "fixed"
        self._decide()

    # -- showing ----------------------------------------------------------------------------

    def _show_result(self, result: BlurResult) -> None:
        found, source = result.detection, self._source
        if result.measured is not self._measured:
            return  # measured anew meanwhile
        if source is None or find_layer(self._viewer, source.unique_id) is None:
            self._message.setText("The image was removed.")
            return
        self._result = result
        if self._rule.value != "fixed":  # else it comes from the slider
            with signals_blocked(self._slider):
                self._slider.setValue(round(found.threshold * SLIDER_STEPS))
        self._plot.show_histogram(found.histogram.counts, found.threshold)
        if result.note:
            self._message.setText(f"⚠ {result.note[0].upper()}{result.note[1:]}.")
        else:
            self._message.setText(
                f"Threshold {found.threshold:.3f}; {result.share:.1%} of the image is blurred."
            )
        self._results.put(
            self._key("map", source),
            found.values,
            placement(source),
            name=f"{source.name} (blur)",
            record={"blur map": found.to_dict()},
            colormap="magma",
            contrast_limits=(0, 1),
            opacity=0.6,
        )
        self._show_mask()
        self._ask_scores()
        self._enable_buttons()

    def _key(self, what: str, source: Image) -> tuple[Any, ...]:
        """Return the key of a result: one per image and model."""
        return what, source.unique_id, self._measured.options.model

    def _enable_buttons(self) -> None:
        for each in (self._regions, self._save_regions, self._save):
            each.setEnabled(self._result is not None)

    def _show_mask(self) -> None:
        source, result = self._source, self._result
        if source is None or result is None:
            return
        key = self._key("mask", source)
        if not self._mask_check.isChecked():
            self._results.remove(key)
            return
        name = f"{source.name} (blurred)"
        self._results.put(
            key, result.mask, placement(source), name=name, kind="labels", opacity=MASK_OPACITY
        )

    def _ask_scores(self) -> None:
        truth, result, source = self._truth.layer, self._result, self._source
        own = None if source is None else self._results.find(self._key("mask", source))
        if result is None or truth is None or truth is own:
            self._scoring.cancel(forget=True)
            self._scores.setText("Choose a labels layer to score the mask against it.")
            return
        score = partial(describe_scores, result.detection, truth.data, self._polarity.value)
        self._scoring.ask(score, self._scores.setText)

    # -- results ----------------------------------------------------------------------------

    def add_regions(self) -> None:
        """Add the blurred areas as labels whose features are their measurements."""
        with self._message.showing_errors():
            found, source = self._known()
            find = partial(find_regions, found, tuple(source.scale), _units(source))
            self._extras.ask(find, partial(self._show_regions, source))

    def _show_regions(self, source: Image, regions: tuple[Any, Any]) -> None:
        if find_layer(self._viewer, source.unique_id) is None:
            return
        labels, table = regions
        key = self._key("regions", source)
        self._results.remove(key)  # its table is of other regions
        name = f"{source.name} (blurred regions)"
        features = layer_features(table)
        self._results.put(
            key, labels, placement(source), name=name, kind="labels", features=features,
            opacity=MASK_OPACITY,
        )  # fmt: skip
        count = int(labels.max(initial=0))
        found = "1 region; its" if count == 1 else f"{count} regions; their"
        self._message.setText(
            f"{found} measurements are in napari's features table: Layers > Metadata."
        )

    def save_regions(self, path: str | Path) -> None:
        """Write the measurements of the blurred areas as a CSV file, in a thread."""
        with self._message.showing_errors():
            found, source = self._known()
            write = partial(save_regions, found, path, tuple(source.scale), _units(source))
            self._message.setText("Saving ...")
            self._extras.ask(write, self._show_saved)

    def save_map(self, path: str | Path, kind: str | None = None) -> None:
        """Write the map in a thread; model and settings go into the file."""
        with self._message.showing_errors():
            found, source = self._known()
            pixels, scale = full_resolution(source), tuple(source.scale)
            write = partial(save, found, path, kind, pixels, scale, _units(source))
            self._message.setText("Saving ...")
            self._extras.ask(write, self._show_saved)

    def _show_saved(self, files: list[Path]) -> None:
        names = ", ".join(file.name for file in files)
        self._message.setText(f"Saved {names}.")

    def _known(self) -> tuple[Any, Image]:
        if self._result is None or self._source is None:
            raise NotReadyError("measure an image first")
        return self._result.detection, self._source

    def _ask_save(self) -> None:
        asked = ask_save_name(self, "Save blur map", "blur.png", ";;".join(FILES))
        if asked is not None:
            path, kind = asked
            self.save_map(path, FILES[kind])

    def _ask_save_regions(self) -> None:
        asked = ask_save_name(self, "Save regions", "regions.csv", "Table (*.csv)")
        if asked is not None:
            self.save_regions(asked[0])


def _units(layer: Image) -> list[str]:
    return [str(unit) for unit in layer.units]
