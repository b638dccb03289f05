"""What counts as blurred: thresholds for a map, and the mask above them.

All are cheap and know nothing of where the map came from. Not for: making the map
(estimators).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from skimage.filters import threshold_otsu

from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import ThresholdRule, check_threshold

BINS = 256
WITHOUT_CONTRAST = 0.5
"""Threshold of a map without contrast, for the rules that go by contrast."""
MIN_CONTRAST = 0.1
"""Between the 1st and the 99th percentile of a map: with less it separates nothing."""

Values = npt.NDArray[np.floating]


class Histogram(NamedTuple):
    """How often values occur in a map; what is not finite does not count."""

    counts: npt.NDArray[np.int64]
    edges: npt.NDArray[np.float64]
    """One more than there are counts."""


def find_threshold(
    values: Values, rule: ThresholdRule = "midrange", threshold: float | None = None
) -> float:
    """Find the threshold of a map, over all its slices together.

    ============  ===================================================================
    rule          threshold
    ============  ===================================================================
    ``midrange``  0.3 times the largest plus 0.7 times the smallest value
    ``mean``      1.5 times the mean, at most 1
    ``otsu``      Otsu's: the split with the most variance between both sides
    ``fixed``     the number that is given
    ============  ===================================================================

    Values that are not finite play no part. A map of an image that is sharp, or blurred, all over
    has no contrast to go by (less than `MIN_CONTRAST`): the first three rules then take the middle
    of the scale, 0.5.
    """
    check_threshold(rule, threshold)
    if threshold is not None:
        return float(threshold)
    finite = values[np.isfinite(values)]
    if not finite.size:
        raise ImageError("the map has no finite values, so there is no threshold to be found")
    if contrast(values) < MIN_CONTRAST:
        return WITHOUT_CONTRAST
    low, high = float(finite.min()), float(finite.max())
    if rule == "midrange":
        return 0.3 * high + 0.7 * low
    if rule == "mean":
        return min(1.5 * float(finite.mean(dtype=np.float64)), 1.0)
    # scikit-image names the centre of the last bin below the split; the split is at its end.
    return float(threshold_otsu(finite, nbins=BINS)) + (high - low) / BINS / 2


def contrast(values: Values) -> float:
    """Return the difference of the 99th and the 1st percentile of a map; 0 where it has no values.

    Values that are not finite play no part.
    """
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0
    low, high = np.quantile(finite, (0.01, 0.99))
    return float(high - low)


def blurred_mask(values: Values, threshold: float) -> npt.NDArray[np.bool_]:
    """Return True where values are at or above the threshold; NaN never is."""
    return values >= np.asarray(threshold, values.dtype)


def histogram(values: Values, bins: int = BINS) -> Histogram:
    """Count the values of a map in equal bins over 0..1."""
    counts, edges = np.histogram(values[np.isfinite(values)], bins=bins, range=(0, 1))
    return Histogram(counts.astype(np.int64), edges)
