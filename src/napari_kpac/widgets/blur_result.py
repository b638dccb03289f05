"""Parts of the Blur map widget: what it computes in threads, and its histogram.

Not for: controls and layers (blur_map.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtGui import QColor, QPainter
from qtpy.QtWidgets import QWidget

from napari_kpac.core.options import DetectionOptions
from napari_kpac.core.progress import Steps

BELOW, ABOVE, LINE = QColor("#7f8fa6"), QColor("#e08a3c"), QColor("#d64545")


@dataclass(frozen=True, eq=False)
class BlurResult:
    """What counts as blurred, ready to be shown."""

    measured: Any
    """What it was made from."""
    detection: Any
    """A Detection: options, map, threshold."""
    mask: npt.NDArray[np.uint8]
    share: float
    """Of the image that is blurred."""
    note: str = ""
    """What keeps the map from being a result, if anything does."""


def measure(data: Any, options: DetectionOptions) -> Steps[Any]:
    """Run the measurement; loads torch on first use."""
    from napari_kpac.detection import measure_steps

    return (yield from measure_steps(data, options))


def decide_blur(measured: Any, options: DetectionOptions, before: Any) -> BlurResult:
    """Pick, smooth and threshold a map of what was measured.

    ``before`` is the last detection of the same measurement, or None: where only the threshold
    moved, its map is used again.
    """
    from napari_kpac.detection import decide

    rule, threshold = options.threshold_rule, options.threshold
    if before is not None and options == replace(
        before.options, threshold_rule=rule, threshold=threshold
    ):
        found = before.with_threshold(rule, threshold)
    else:
        found = decide(measured, options)
    mask = found.mask.astype(np.uint8)
    return BlurResult(measured, found, mask, float(found.mask.mean()), found.note)


def describe_scores(detection: Any, truth: Any, polarity: str) -> str:
    """Score a detection against the labels of a layer; returns lines for a person."""
    from napari_kpac.detection import score

    report = score(
        detection.values,
        np.asarray(truth) > 0,
        polarity,  # type: ignore[arg-type]
        rules=(),
        threshold=detection.threshold,
    )
    counts = report.rows[0].confusion
    return (
        f"precision {counts.precision:.3f}, recall {counts.recall:.3f}, IoU {counts.iou:.3f}"
        f"<br>accuracy {counts.accuracy:.3f}, F (β²=0.3) {counts.f_measure(0.3):.3f}, "
        f"F (β²=1) {counts.f_measure(1):.3f}<br>average precision "
        f"{_number(report.average_precision)}, ROC AUC {_number(report.roc_auc)}"
    )


def find_regions(detection: Any, scale: tuple[float, ...], units: list[str]) -> tuple[Any, Any]:
    """Return the labels of the blurred areas and the table of their measurements."""
    from napari_kpac.detection import components, measure_regions, region_table

    labels = components(detection.mask)
    regions = measure_regions(detection.values, detection.mask, labels, scale, units)
    return labels, region_table(regions)


def layer_features(table: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Return a table of regions as the features of their labels layer.

    napari takes the number of a row for the label, so the background has a row too, without values.
    """
    empty = {"index": 0, "area_unit": ""}
    return {name: [empty.get(name, np.nan), *values] for name, values in table.items()}


def save_regions(
    detection: Any, path: str | Path, scale: tuple[float, ...], units: list[str]
) -> list[Path]:
    """Write the table of the blurred areas as a CSV file."""
    from napari_kpac.detection.files import export_table

    return [export_table(path, find_regions(detection, scale, units)[1])]


def save(
    detection: Any,
    path: str | Path,
    kind: Any,
    image: Any,
    scale: tuple[float, ...],
    units: list[str],
) -> list[Path]:
    """Write the map of a detection; model and settings go into the file."""
    from napari_kpac.detection.files import export

    record = json.dumps(detection.to_dict())
    return export(
        path, detection.values, kind, image, scale, units, record, reading=detection.options
    )


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"


class HistogramPlot(QWidget):
    """Draws counts over 0..1; what lies above the threshold is coloured."""

    def __init__(self) -> None:
        super().__init__()
        self._counts: npt.NDArray[Any] = np.zeros(0)
        self._threshold = 0.5
        self.setFixedHeight(70)
        self.setToolTip("How often each blur value occurs; orange counts as blurred.")

    def show_histogram(self, counts: npt.NDArray[Any], threshold: float) -> None:
        """Show these counts."""
        self._counts, self._threshold = np.asarray(counts, float), threshold
        self.update()

    def paintEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Draw bars (on a root scale, so that small ones show) and the threshold."""
        del event
        painter = QPainter(self)
        painter.fillRect(self.rect(), self.palette().base())
        width, height = self.width(), self.height()
        if len(self._counts) and self._counts.max() > 0:
            heights = np.sqrt(self._counts / self._counts.max()) * (height - 4)
            step = width / len(heights)
            for index, tall in enumerate(heights):
                colour = ABOVE if (index + 0.5) / len(heights) >= self._threshold else BELOW
                left = int(index * step)
                painter.fillRect(left, int(height - tall), max(1, int(step + 1)), int(tall), colour)
            painter.fillRect(int(self._threshold * (width - 1)), 0, 2, height, LINE)
        painter.end()
