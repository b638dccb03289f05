"""Blur maps and masks: estimators, thresholds, scores, regions, and files of them.

Files are in ``detection.files``. Not for: deblurring (engine) or windows (widgets).
"""

from napari_kpac.core.options import DetectionOptions
from napari_kpac.detection.estimators import (
    Detection,
    Measured,
    blur_values,
    decide,
    detect,
    detect_steps,
    measure_steps,
)
from napari_kpac.detection.regions import Region, components, measure_regions, region_table
from napari_kpac.detection.scores import Confusion, Curve, ScoreReport, score, true_blur
from napari_kpac.detection.thresholds import blurred_mask, find_threshold, histogram

__all__ = [
    "Confusion",
    "Curve",
    "Detection",
    "DetectionOptions",
    "Measured",
    "Region",
    "ScoreReport",
    "blur_values",
    "blurred_mask",
    "components",
    "decide",
    "detect",
    "detect_steps",
    "find_threshold",
    "histogram",
    "measure_regions",
    "measure_steps",
    "region_table",
    "score",
    "true_blur",
]
