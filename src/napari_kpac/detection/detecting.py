"""Blur detection as one action: image in, blur map, threshold and mask out.

Not for: files (export.py), scores and regions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.options import DetectionOptions, ThresholdRule
from napari_kpac.core.progress import Steps, finish
from napari_kpac.detection.estimators import Map, Measured, Views, blur_values, measure_steps
from napari_kpac.detection.thresholds import Histogram, blurred_mask, find_threshold, histogram
from napari_kpac.engine.device import Model, model_name
from napari_kpac.engine.memory import explaining_shortage


@dataclass(frozen=True, eq=False)
class Detection:
    """A blur map, what in it counts as blurred, and how both were made."""

    values: Map
    """(H, W) in 0..1, larger = more blurred; leading axes of a stack come first."""
    mask: npt.NDArray[np.bool_]
    """Where the values reach the threshold."""
    threshold: float
    """The number that was used, one for all slices of a stack."""
    histogram: Histogram
    options: DetectionOptions
    upsampling: int
    """By how much the image was enlarged first."""
    model_name: str
    model_sha256: str
    """Both are empty where no network was asked."""

    def with_threshold(self, rule: ThresholdRule, threshold: float | None = None) -> Detection:
        """Return the same map under another threshold; fast enough for a slider."""
        options = replace(self.options, threshold_rule=rule, threshold=threshold)
        used = find_threshold(self.values, rule, threshold)
        mask = blurred_mask(self.values, used)
        return replace(self, options=options, threshold=used, mask=mask)

    def to_dict(self) -> dict[str, Any]:
        """Return model and settings as plain values, for the record in a file."""
        return {
            "blur map": self.options.to_dict(),
            "model": {"name": self.model_name, "sha256": self.model_sha256},
            "upsampling": self.upsampling,
            "threshold": self.threshold,
        }


def detect(
    image: Any,
    model: Model = "default",
    device: str = "auto",
    *,
    views: Views = None,
    **options: Any,
) -> Detection:
    """Find what is blurred in an image.

    Parameters
    ----------
    image
        Any image that :func:`napari_kpac.deblur` takes; stacks are measured slice by slice.
    model
        A name, a path, or a network from :func:`napari_kpac.load`.
    device
        ``auto``, ``cpu``, ``cuda:0``, ``mps``, ``xpu:0``.
    views
        The left and right view of a dual-pixel camera, for dual-pixel models.
    **options
        Further fields of :class:`DetectionOptions`: source, weights, window, smoothing,
        threshold_rule, threshold, upsampling, range, rgb, ...
    """
    chosen = DetectionOptions(model=model_name(model), device=device, **options)
    return finish(detect_steps(image, chosen, views=views, model=model))


def detect_steps(
    image: Any,
    options: DetectionOptions | None = None,
    *,
    views: Views = None,
    model: Model | None = None,
) -> Steps[Detection]:
    """Do the same step by step: yields progress, returns the detection.

    Closing the generator cancels the work. ``model`` overrides the name in the options.
    """
    options = options or DetectionOptions()
    with explaining_shortage():
        measured = yield from measure_steps(image, options, views=views, model=model)
        return decide(measured, options)


def decide(measured: Measured, options: DetectionOptions) -> Detection:
    """Make a detection of what was measured: everything that needs no network."""
    values = blur_values(measured, options)
    threshold = find_threshold(values, options.threshold_rule, options.threshold)
    return Detection(
        values=values,
        mask=blurred_mask(values, threshold),
        threshold=threshold,
        histogram=histogram(values),
        options=options,
        upsampling=measured.upsampling,
        model_name=measured.model_name,
        model_sha256=measured.model_sha256,
    )
