"""Blur maps and masks: measures, thresholds, scores, regions, and files of them.

Not for: deblurring (engine) or windows (widgets).
"""

from napari_kpac.detection.detecting import Detection, decide, detect, detect_steps
from napari_kpac.detection.export import export
from napari_kpac.detection.regions import Region, components, regions, table
from napari_kpac.detection.scores import Confusion, Curve, ScoreReport, score, true_blur
from napari_kpac.detection.sources import Measured, blur_values, measure_steps
from napari_kpac.detection.thresholds import blurred_mask, find_threshold, histogram
from napari_kpac.options import DetectionOptions

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
    "export",
    "find_threshold",
    "histogram",
    "measure_steps",
    "regions",
    "score",
    "table",
    "true_blur",
]
