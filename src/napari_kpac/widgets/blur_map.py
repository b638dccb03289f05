"""The Blur map widget: measure blur, choose what counts as blurred, score it, save it.

Not for: measuring (detection).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from magicgui.widgets import ComboBox, FloatSpinBox
from napari.layers import Image, Labels
from napari.utils.notifications import show_info
from napari.viewer import Viewer
from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QCheckBox,
    QFileDialog,
    QGridLayout,
    QGroupBox,
    QLabel,
    QProgressBar,
    QPushButton,
    QSlider,
    QVBoxLayout,
)
from superqt.utils import qthrottled, signals_blocked

from napari_kpac.core.errors import KpacError, NotReadyError, for_people
from napari_kpac.core.options import DetectionOptions
from napari_kpac.core.progress import Progress
from napari_kpac.widgets import preferences
from napari_kpac.widgets.blur_choice import (
    Choice,
    choose,
    describe_scores,
    find_regions,
    measure,
)
from napari_kpac.widgets.choices import ChoiceFiller, LayerBox, ModelBox, image_box
from napari_kpac.widgets.docked import DockedWidget, first_hint
from napari_kpac.widgets.form import Form
from napari_kpac.widgets.histogram import HistogramPlot
from napari_kpac.widgets.layers import METADATA, find_layer, full_resolution, placement
from napari_kpac.widgets.task import Latest, Task

SOURCES = (
    ("α₁ of block 1 (the paper's)", "alpha1"),
    ("α₂ of block 1", "alpha2"),
    ("α₃ of block 1", "alpha3"),
    ("α₄ of block 1", "alpha4"),
    ("α₅ of block 1", "alpha5"),
    ("mean of all α", "mixture"),
    ("local variance (no network)", "variance"),
    ("edges, EBDB (no network)", "ebdb"),
)
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
TICKS = 1000


class BlurMapWidget(DockedWidget):
    """Measures blur once; thresholds, smoothing and masks follow at once."""

    def __init__(self, napari_viewer: Viewer) -> None:
        super().__init__(napari_viewer)
        self._measured: Any = None
        self._detection: Any = None
        self._mask: Any = None
        self._asked: Image | None = None
        """What is being measured."""
        self._source: Image | None = None
        """What was measured."""
        self._map_id: Any = None
        self._mask_id: Any = None
        self._task = Task(self)
        self._task.progressed.connect(self._show_progress)
        self._task.succeeded.connect(self._show_measured)
        self._task.failed.connect(self._show_error)
        self._task.cancelled.connect(lambda: self._message.setText("Cancelled."))
        self._task.ended.connect(self._show_idle)
        self._choosing, self._scoring, self._errands = Latest(self), Latest(self), Latest(self)
        self._choosing.answered.connect(self._show_choice)
        self._choosing.failed.connect(self._show_error)
        self._errands.answered.connect(self._finish_errand)
        self._errands.failed.connect(self._show_error)
        self._build()
        self._scoring.answered.connect(self._scores.setText)
        self._scoring.failed.connect(lambda text: self._scores.setText(f"⚠ {text}"))
        self._filler = ChoiceFiller(self._model, None, self)
        self._show_idle()
        self._message.setText(first_hint("Measure", self._image.layer))

    def _build(self) -> None:
        self._image = image_box(self._viewer)
        self._model = ModelBox(single=True)
        self._kind = ComboBox(label="measure by", choices=list(SOURCES), tooltip="What tells blur.")
        self._enlarge = ComboBox(
            label="enlarge first",
            choices=list(ENLARGE),
            tooltip="The network sees small blur better in an enlarged image.",
        )
        self._smoothing = FloatSpinBox(
            label="smoothing", value=0, min=0, max=50, step=0.5, tooltip="Sigma in pixels."
        )
        self._rule = ComboBox(
            label="threshold", choices=list(RULES), tooltip="From which value on it is blurred."
        )
        form = Form([
                self._image, self._model, self._kind, self._enlarge, self._smoothing, self._rule,
        ])  # fmt: skip
        self._plot = HistogramPlot()
        self._slider = QSlider(Qt.Orientation.Horizontal)
        self._slider.setRange(0, TICKS)
        self._slider.setToolTip("The threshold: move it to choose by hand.")
        self._button = QPushButton()
        self._button.setToolTip("Measure the blur of the image; again to cancel.")
        self._button.clicked.connect(self._toggle)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._mask_check = QCheckBox("mask as a labels layer")
        self._mask_check.setToolTip("Show what counts as blurred as a layer of labels.")
        self._mask_check.setChecked(True)

        layout = self.fill_scrolling()
        layout.addWidget(form)
        layout.addWidget(self._button)
        layout.addWidget(self._bar)
        layout.addWidget(self._message)
        layout.addWidget(self._plot)
        layout.addWidget(self._slider)
        layout.addWidget(self._mask_check)
        layout.addWidget(self._build_truth())
        layout.addLayout(self._build_buttons())
        layout.addStretch(1)

        self._slider.valueChanged.connect(self._move_threshold)
        self._rule.changed.connect(self._decide)
        self._smoothing.changed.connect(self._decide)
        self._kind.changed.connect(self._follow_kind)
        self._enlarge.changed.connect(self._decide)
        self._mask_check.toggled.connect(self._show_mask)
        self._truth.changed.connect(self._ask_scores)
        self._polarity.changed.connect(self._ask_scores)

    def _build_truth(self) -> QGroupBox:
        self._truth = LayerBox(
            self._viewer, Labels, label="truth", optional="(none)",
            tooltip="A labels layer to score the mask against.",
        )  # fmt: skip
        self._polarity = ComboBox(
            label="its labels mark",
            choices=list(POLARITIES),
            tooltip="What the labels of the truth stand for.",
        )
        self._scores = QLabel()
        self._scores.setWordWrap(True)
        self._scores.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        form = Form([self._truth, self._polarity])
        group = QGroupBox("scores")
        layout = QVBoxLayout(group)
        layout.addWidget(form)
        layout.addWidget(self._scores)
        return group

    def _build_buttons(self) -> QGridLayout:
        grid = QGridLayout()
        self._actions = {}
        for place, (text, tooltip, action) in enumerate(
            (
                ("Regions", "Label the blurred areas and measure each.", self.add_regions),
                ("Save map", "Save the map: PNG, TIFF, NumPy or overlay.", self._ask_save),
            )
        ):
            button = QPushButton(text)
            button.setToolTip(tooltip)
            button.clicked.connect(lambda _=False, action=action: self._try(action))
            grid.addWidget(button, 0, place)
            self._actions[text] = button
        return grid

    def release(self) -> None:
        """Stop work and stop following the viewer."""
        self._task.cancel(forget=True)
        for asked in (self._choosing, self._scoring, self._errands):
            asked.forget()
        self._filler.release()
        self._image.release()
        self._truth.release()

    # -- measuring --------------------------------------------------------------------------

    def _toggle(self) -> None:
        if self._task.is_running:
            self._task.cancel()
        else:
            self.measure()

    def measure(self) -> None:
        """Measure the blur of the chosen image, in a thread."""
        layer = self._image.layer
        if layer is None:
            self._show_error("There is no image layer: open an image first (File > Open).")
            return
        self._asked = layer
        options = self._options(layer)
        data = full_resolution(layer)
        self._button.setText("Cancel")
        self._bar.setRange(0, 0)
        self._message.setText("Measuring ...")
        self._task.start(lambda: measure(data, options))

    def _options(self, source: Image | None) -> DetectionOptions:
        rule = self._rule.value
        rgb = None if source is None else bool(source.rgb)
        return preferences.apply(
            DetectionOptions(
                model=self._model.value,
                source=self._kind.value,
                upsampling=self._enlarge.value,
                smoothing=float(self._smoothing.value),
                threshold_rule=rule,
                threshold=self._slider.value() / TICKS if rule == "fixed" else None,
                rgb=rgb,
            )
        )

    def _show_measured(self, measured: Any) -> None:
        # Not before: until then the sliders work on what was measured before.
        self._source, self._asked = self._asked, None
        self._measured, self._detection = measured, None
        self._decide()

    def _follow_kind(self) -> None:
        self._model.visible = self._enlarge.visible = self._kind.value not in ("variance", "ebdb")
        self._decide()

    def _decide(self) -> None:
        """Choose, smooth and threshold what was measured, unless it must be measured again."""
        if self._measured is None:
            return
        options = self._options(self._source)
        if not self._measured.serves(options):
            self._message.setText("Press Measure to see this.")
            return
        measured, before = self._measured, self._detection
        self._choosing.ask(lambda: choose(measured, options, before))

    @qthrottled(timeout=60)
    def _move_threshold(self, value: int) -> None:
        del value
        if self._rule.value != "fixed":
            with self._rule.changed.blocked():
                self._rule.value = "fixed"
        self._decide()

    # -- showing ----------------------------------------------------------------------------

    def _show_choice(self, choice: Choice) -> None:
        found, source = choice.detection, self._source
        if choice.measured is not self._measured:
            return  # measured anew meanwhile
        if source is None or find_layer(self._viewer, source.unique_id) is None:
            self._message.setText("The image was removed.")
            return
        self._detection, self._mask = found, choice.mask
        if self._rule.value != "fixed":  # else it comes from the slider
            with signals_blocked(self._slider):
                self._slider.setValue(round(found.threshold * TICKS))
        self._plot.show_histogram(found.histogram.counts, found.threshold)
        self._message.setText(
            f"Threshold {found.threshold:.3f}; {choice.share:.1%} of the image is blurred."
        )
        record = {METADATA: {"blur map": found.to_dict()}}
        layer = find_layer(self._viewer, self._map_id)
        if layer is not None and layer.data.shape == found.values.shape:
            if layer.data is not found.values:
                layer.data = found.values
            layer.metadata = record
        else:
            layer = self._viewer.add_image(
                found.values, name=f"{source.name} (blur)", colormap="magma",
                contrast_limits=(0, 1), opacity=0.6, metadata=record, rgb=False,
                **placement(source),
            )  # fmt: skip
            self._map_id = layer.unique_id
        self._show_mask()
        self._ask_scores()
        self._show_idle()

    def _show_mask(self) -> None:
        mask, source = self._mask, self._source
        layer = find_layer(self._viewer, self._mask_id)
        if mask is None or source is None or not self._mask_check.isChecked():
            if layer is not None:
                self._viewer.layers.remove(layer)
            return
        if layer is not None and layer.data.shape == mask.shape:
            layer.data = mask
            return
        layer = self._viewer.add_labels(
            mask, name=f"{source.name} (blurred)", opacity=0.35, **placement(source)
        )
        self._mask_id = layer.unique_id

    def _ask_scores(self) -> None:
        truth, found = self._truth.layer, self._detection
        if found is None or truth is None or truth.unique_id == self._mask_id:
            self._scoring.forget()
            self._scores.setText("Choose a labels layer to score the mask against it.")
            return
        labels, polarity = truth.data, self._polarity.value
        self._scoring.ask(lambda: describe_scores(found, labels, polarity))

    def _show_progress(self, progress: Progress) -> None:
        self._bar.setRange(0, progress.total)
        self._bar.setValue(progress.done)

    def _show_error(self, text: str) -> None:
        self._message.setText(f"⚠ {text}")
        show_info(text)

    def _show_idle(self) -> None:
        if not self._task.is_running:
            self._button.setText("Measure")
            self._bar.setRange(0, 1)
            self._bar.setValue(0)
        for button in self._actions.values():
            button.setEnabled(self._detection is not None)

    # -- results ----------------------------------------------------------------------------

    def add_regions(self) -> None:
        """Add the blurred areas as labels whose features are their measurements."""
        found, source = self._known()
        scale, units = tuple(source.scale), [str(unit) for unit in source.units]
        known = source.unique_id
        self._errands.ask(lambda: ("regions", (known, *find_regions(found, scale, units))))

    def _put_regions(self, regions: tuple[Any, Any, Any]) -> None:
        known, labels, table = regions
        source = find_layer(self._viewer, known)
        if source is None:
            return
        name = f"{source.name} (blurred regions)"
        for layer in [known for known in self._viewer.layers if known.name == name]:
            self._viewer.layers.remove(layer)
        self._viewer.add_labels(labels, name=name, features=table, **placement(source))
        count = int(labels.max(initial=0))
        self._message.setText(f"{count} regions; their table is in the layer's features.")

    def save_map(self, path: str | Path, kind: str | None = None) -> None:
        """Write the map in a thread; model and settings go into the file."""
        found, source = self._known()
        image, scale = full_resolution(source), tuple(source.scale)
        units = [str(unit) for unit in source.units]

        def write() -> Any:
            from napari_kpac.detection.files import export

            return export(
                path,
                found.values,
                kind,  # type: ignore[arg-type]
                image=image,
                scale=scale,
                units=units,
                description=json.dumps(found.to_dict()),
                reading=replace(found.options),
            )

        self._message.setText("Saving ...")
        self._errands.ask(lambda: ("files", write()))

    def _known(self) -> tuple[Any, Image]:
        if self._detection is None or self._source is None:
            raise NotReadyError("measure an image first")
        return self._detection, self._source

    def _finish_errand(self, errand: tuple[str, Any]) -> None:
        what, found = errand
        if what == "regions":
            self._put_regions(found)
        else:
            self._message.setText(f"Saved {len(found)} file(s): {found[0].name}")

    def _ask_save(self) -> None:
        path, chosen = QFileDialog.getSaveFileName(
            self, "Save blur map", "blur.png", ";;".join(FILES)
        )
        if path:
            self.save_map(path, FILES[chosen])

    def _try(self, action: Any) -> None:
        try:
            action()
        except KpacError as error:
            self._show_error(for_people(error))
