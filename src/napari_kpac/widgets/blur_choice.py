"""What the Blur map widget computes in threads: the choice, its scores, its regions.

Not for: controls and layers (blur_map.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.options import DetectionOptions
from napari_kpac.core.progress import Steps
from napari_kpac.widgets import preferences


@dataclass(frozen=True, eq=False)
class Choice:
    """What counts as blurred, ready to be shown."""

    measured: Any
    """What it was made from."""
    detection: Any
    mask: npt.NDArray[np.uint8]
    share: float
    """Of the image that is blurred."""


def measure(data: Any, options: DetectionOptions) -> Steps[Any]:
    """Run the measurement; loads torch on first use."""
    from napari_kpac.detection import measure_steps

    preferences.apply_to_engine()
    return (yield from measure_steps(data, options))


def choose(measured: Any, options: DetectionOptions, before: Any) -> Choice:
    """Choose, smooth and threshold what was measured.

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
    return Choice(measured, found, found.mask.astype(np.uint8), float(found.mask.mean()))


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


def _number(value: float | None) -> str:
    return "not defined" if value is None else f"{value:.3f}"
