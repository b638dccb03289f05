"""The Blur map widget: measure blur, choose what counts as blurred, score it, save it.

Not for: measuring (detection).
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
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

from napari_kpac.errors import KpacError
from napari_kpac.options import DetectionOptions
from napari_kpac.progress import Progress, Steps
from napari_kpac.widgets import preferences
from napari_kpac.widgets.choices import ChoiceFiller, LayerBox, ModelBox, image_box
from napari_kpac.widgets.docked import DockedWidget
from napari_kpac.widgets.form import Form
from napari_kpac.widgets.histogram import HistogramPlot
from napari_kpac.widgets.placement import METADATA, find_layer, full_resolution, placement
from napari_kpac.widgets.task import Task

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
POLARITIES = (("marks what is blurred", "blurred"), ("marks what is sharp", "sharp"))
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
        super().__init__()
        self._viewer = napari_viewer
        self._measured: Any = None
        self._detection: Any = None
        self._source: Image | None = None
        self._map_id: Any = None
        self._mask_id: Any = None
        self._task = Task(self)
        self._task.progressed.connect(self._show_progress)
        self._task.succeeded.connect(self._show_measured)
        self._task.failed.connect(self._show_error)
        self._task.cancelled.connect(lambda: self._message.setText("Cancelled."))
        self._task.ended.connect(self._show_idle)
        self._build()
        self._filler = ChoiceFiller(self._model, None, self)
        self._show_idle()
        self._message.setText("Choose an image and press Measure.")

    def _build(self) -> None:
        self._image = image_box(self._viewer)
        self._model = ModelBox()
        self._kind = ComboBox(label="measure by", choices=list(SOURCES), tooltip="What tells blur.")
        self._enlarge = ComboBox(
            label="enlarge first",
            choices=list(ENLARGE),
            tooltip="The network sees small blur better in an enlarged picture.",
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
        self._button.clicked.connect(self._toggle)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._message = QLabel()
        self._message.setWordWrap(True)
        self._mask_check = QCheckBox("mask as a labels layer")
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
        self.setMinimumWidth(340)

        self._slider.valueChanged.connect(self._move_threshold)
        self._rule.changed.connect(self._decide)
        self._smoothing.changed.connect(self._decide)
        self._kind.changed.connect(self._follow_kind)
        self._enlarge.changed.connect(self._decide)
        self._mask_check.toggled.connect(self._show_mask)
        self._truth.changed.connect(self._show_scores)
        self._polarity.changed.connect(self._show_scores)

    def _build_truth(self) -> QGroupBox:
        self._truth = LayerBox(
            self._viewer, Labels, label="truth", optional="(none)",
            tooltip="A labels layer to score the mask against.",
        )  # fmt: skip
        self._polarity = ComboBox(label="the truth", choices=list(POLARITIES))
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
            self._show_error("There is no image layer: open a picture first (File > Open).")
            return
        self._source = layer
        options = self._options()
        data = full_resolution(layer)
        self._button.setText("Cancel")
        self._bar.setRange(0, 0)
        self._message.setText("Measuring ...")
        self._task.start(lambda: _steps(data, options))

    def _options(self) -> DetectionOptions:
        rule = self._rule.value
        rgb = None if self._source is None else bool(self._source.rgb)
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
        self._measured = measured
        self._show_choice()

    def _follow_kind(self) -> None:
        self._model.visible = self._enlarge.visible = self._kind.value not in ("variance", "ebdb")
        self._decide()

    def _decide(self) -> None:
        if self._measured is not None and not self._task.is_running:
            self._show_choice()

    def _show_choice(self) -> None:
        """Choose, smooth and threshold what was measured, unless it must be measured again."""
        from napari_kpac.detection import decide

        options = self._options()
        if not self._measured.serves(options):
            self._message.setText("Press Measure to see this.")
            return
        try:
            self._detection = decide(self._measured, options)
        except KpacError as error:
            self._show_error(str(error))
            return
        self._show_detection()

    @qthrottled(timeout=60)
    def _move_threshold(self, value: int) -> None:
        if self._detection is None:
            return
        if self._rule.value != "fixed":
            with self._rule.changed.blocked():
                self._rule.value = "fixed"
        self._detection = self._detection.with_threshold("fixed", value / TICKS)
        self._show_detection()

    # -- showing ----------------------------------------------------------------------------

    def _show_detection(self) -> None:
        found, source = self._detection, self._source
        if source is None or find_layer(self._viewer, source.unique_id) is None:
            self._message.setText("The image was removed.")
            return
        with signals_blocked(self._slider):
            self._slider.setValue(round(found.threshold * TICKS))
        self._plot.show_histogram(found.histogram.counts, found.threshold)
        share = float(found.mask.mean())
        self._message.setText(
            f"Threshold {found.threshold:.3f}; {share:.1%} of the picture is blurred."
        )
        record = {METADATA: {"blur map": found.to_dict()}}
        layer = find_layer(self._viewer, self._map_id)
        if layer is not None and layer.data.shape == found.values.shape:
            layer.data, layer.metadata = found.values, record
        else:
            layer = self._viewer.add_image(
                found.values, name=f"{source.name} (blur)", colormap="magma",
                contrast_limits=(0, 1), opacity=0.6, metadata=record, rgb=False,
                **placement(source),
            )  # fmt: skip
            self._map_id = layer.unique_id
        self._show_mask()
        self._show_scores()
        self._show_idle()

    def _show_mask(self) -> None:
        found, source = self._detection, self._source
        layer = find_layer(self._viewer, self._mask_id)
        if found is None or source is None or not self._mask_check.isChecked():
            if layer is not None:
                self._viewer.layers.remove(layer)
            return
        mask = found.mask.astype(np.uint8)
        if layer is not None and layer.data.shape == mask.shape:
            layer.data = mask
            return
        layer = self._viewer.add_labels(
            mask, name=f"{source.name} (blurred)", opacity=0.35, **placement(source)
        )
        self._mask_id = layer.unique_id

    def _show_scores(self) -> None:
        from napari_kpac.detection import score

        truth = self._truth.layer
        if self._detection is None or truth is None or truth.unique_id == self._mask_id:
            self._scores.setText("Choose a labels layer to score the mask against it.")
            return
        try:
            report = score(
                self._detection.values,
                np.asarray(truth.data) > 0,
                self._polarity.value,
                rules=(),
                threshold=self._detection.threshold,
            )
        except KpacError as error:
            self._scores.setText(f"⚠ {error}")
            return
        counts = report.rows[0].confusion
        self._scores.setText(
            f"precision {counts.precision:.3f}, recall {counts.recall:.3f}, IoU {counts.iou:.3f}"
            f"<br>accuracy {counts.accuracy:.3f}, F (β²=0.3) {counts.f_measure(0.3):.3f}, "
            f"F (β²=1) {counts.f_measure(1):.3f}<br>average precision "
            f"{_number(report.average_precision)}, ROC AUC {_number(report.roc_auc)}"
        )

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
        from napari_kpac.detection import components, measure_regions, region_table

        found, source = self._detection, self._source
        if found is None or source is None:
            raise KpacError("measure an image first")
        labels = components(found.mask)
        units = [str(unit) for unit in source.units]
        regions = measure_regions(found.values, found.mask, labels, tuple(source.scale), units)
        name = f"{source.name} (blurred regions)"
        for layer in [known for known in self._viewer.layers if known.name == name]:
            self._viewer.layers.remove(layer)
        self._viewer.add_labels(
            labels, name=name, features=region_table(regions), **placement(source)
        )
        self._message.setText(f"{len(regions)} regions; their table is in the layer's features.")

    def save_map(self, path: str | Path, kind: str | None = None) -> list[Path]:
        """Write the map; model and settings go into the file."""
        from napari_kpac.detection.export import export

        found, source = self._detection, self._source
        if found is None or source is None:
            raise KpacError("measure an image first")
        written = export(
            path,
            found.values,
            kind,  # type: ignore[arg-type]
            image=full_resolution(source),
            scale=tuple(source.scale),
            units=[str(unit) for unit in source.units],
            description=json.dumps(found.to_dict()),
            reading=replace(found.options),
        )
        self._message.setText(f"Saved {len(written)} file(s): {written[0].name}")
        return written

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
            self._show_error(str(error))


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"


def _steps(data: Any, options: DetectionOptions) -> Steps[Any]:
    """Run the measurement; loads torch on first use, so call it in a thread."""
    from napari_kpac.detection import measure_steps

    return (yield from measure_steps(data, options))
