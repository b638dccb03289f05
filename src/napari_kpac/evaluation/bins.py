"""Scores by how much a pixel was blurred.

Not for: the measures themselves (metrics).

The rule: a pixel belongs to the bin in which the magnitude of its radius lies, the lower edge
included. The squared errors of an image's pixels in a bin are pooled into one PSNR, their
absolute errors into one MAE, and the SSIM map is averaged over them. An image counts in a bin
where it has at least 1 % of its pixels; a table shows the mean over the images that count.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from napari_kpac.core.units import MIN_BIN_SHARE, RADIUS_BINS, RadiusBin
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.metrics import ImageArray, Mask, Preset

Bin = RadiusBin
BINS = RADIUS_BINS
GAIN_BINS = BINS[1:4]
"""The bins of the mean gain: 1 to 8 px."""
MEASURES = ("psnr", "ssim", "mae")


def column(measure: str, where: Bin) -> str:
    """Name the column of a measure in a bin."""
    return f"{measure} {where.label} px"


def bin_columns() -> list[str]:
    """Name all columns that :func:`bin_scores` may fill."""
    return [column(measure, where) for measure in MEASURES for where in BINS]


def inside(radius: npt.NDArray[np.float32], low: float, high: float) -> Mask | None:
    """Mark the pixels with a radius in ``low <= |r| < high``; None where they are too few.

    The last bin holds its upper edge as well.
    """
    size = np.abs(radius)
    mask: Mask = (size >= low) & ((size < high) | ((size == high) & (high == BINS[-1].high)))
    return mask if mask.mean() >= MIN_BIN_SHARE else None


def bin_scores(
    result: ImageArray,
    truth: ImageArray,
    radius: npt.NDArray[np.float32],
    preset: Preset = "default",
) -> dict[str, float]:
    """Give PSNR, SSIM and MAE in every bin in which the image has enough pixels."""
    squared = metrics.squared_error(result, truth)
    absolute = metrics.absolute_error(result, truth)
    similar = metrics.ssim_map(result, truth, preset)
    scores = {}
    for where in BINS:
        mask = inside(radius, where.low, where.high)
        if mask is not None:
            scores[column("psnr", where)] = metrics.decibels(float(squared[mask].mean()))
            scores[column("ssim", where)] = float(similar[mask].mean())
            scores[column("mae", where)] = float(absolute[mask].mean())
    return scores
