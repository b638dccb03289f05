"""Smoothing that stops at edges: two filters of the domain transform, and the bilateral filter.

The estimators of defocus spread with them what was measured at edges. Not for: blur by an aperture
(compositing), or images of several planes.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

from napari_kpac.optics.pixels import Doubles, Floats


def smooth_along(
    planes: Floats, guide: Floats, *, space: float, range_: float, iterations: int = 5
) -> Floats:
    """Smooth planes (H, W, N) within the areas that the edges of a guide divide.

    This is the recursive filter of the domain transform (Gastal and Oliveira, 2011): ``space``
    is its standard deviation in pixels where the guide, (H, W) or (H, W, C), is flat, and
    ``range_`` that in units of the guide. More iterations leave fewer streaks.
    """
    steps = [_distances(guide, axis, space / range_) for axis in (0, 1)]
    result = planes.astype(np.float32)
    for i in range(iterations):
        feedback = float(np.exp(-np.sqrt(2) / _sigma(space, i, iterations)))
        result = _both_ways(result.swapaxes(0, 1), feedback ** steps[1].T).swapaxes(0, 1)
        result = _both_ways(result, feedback ** steps[0])
    return result


def average_along(
    planes: Floats, guide: Floats, *, space: float, range_: float, iterations: int = 3
) -> Floats:
    """Smooth as `smooth_along` does, by the normalised convolution of the domain transform.

    Each pixel becomes the mean of those that lie within a distance of it, where the edges of the
    guide are far: unlike the recursive filter this one reaches no further than that.
    """
    places = []
    for across in (guide, guide.swapaxes(0, 1)):
        steps = _distances(across, 1, space / range_).astype(np.float64)
        places.append(np.cumsum(np.pad(steps, ((0, 0), (1, 0))), axis=1))
    result = planes.astype(np.float32)
    for i in range(iterations):
        radius = np.sqrt(3) * _sigma(space, i, iterations)
        result = _row_means(result, places[0], radius)
        result = _row_means(result.swapaxes(0, 1), places[1], radius).swapaxes(0, 1)
    return result


def bilateral(values: Floats, *, space: float, range_: float) -> Floats:
    """Smooth a plane with the bilateral filter.

    Exact at values that are ``range_`` apart and interpolated between them (Durand and Dorsey,
    2002): that takes a few Gaussians in place of a window around each pixel.
    """
    low, high = float(values.min()), float(values.max())
    levels = np.linspace(low, high, max(2, int(np.ceil((high - low) / range_)) + 1))
    if low == high:
        return values.copy()
    place = (values - low) / (high - low) * (len(levels) - 1)
    result = np.zeros_like(values)
    for i, level in enumerate(levels):
        weight = np.exp(-0.5 * ((values - level) / range_) ** 2).astype(np.float32)
        smooth = gaussian_filter(weight * values, space)
        smooth /= np.maximum(gaussian_filter(weight, space), 1e-12)
        result += smooth * np.clip(1 - np.abs(place - i), 0, None)
    return result


def _sigma(space: float, iteration: int, iterations: int) -> float:
    """Return the standard deviation of an iteration; all together have that of ``space``."""
    share = np.sqrt(3) * 2 ** (iterations - 1 - iteration) / np.sqrt(4**iterations - 1)
    return float(space * share)


def _distances(guide: Floats, axis: int, steepness: float) -> Floats:
    """Return how far neighbours along an axis are from each other."""
    colours = np.atleast_3d(guide).astype(np.float32)
    change = np.abs(np.diff(colours, axis=axis)).sum(axis=2)
    distances: Floats = 1 + np.float32(steepness) * change
    return distances


def _both_ways(planes: Floats, weights: Floats) -> Floats:
    """Filter forth and back along the first axis; weights lie between neighbours."""
    result = np.array(planes, order="C")
    weights = np.ascontiguousarray(weights)[:, :, None]
    for i in range(1, len(result)):
        result[i] += weights[i - 1] * (result[i - 1] - result[i])
    for i in range(len(result) - 2, -1, -1):
        result[i] += weights[i] * (result[i + 1] - result[i])
    return result


def _row_means(planes: Floats, places: Doubles, radius: float) -> Floats:
    """Replace each pixel by the mean of those of its row that lie within a distance of it."""
    height, width = places.shape
    # All rows in one sorted array: they are further apart than any two pixels of a row.
    apart = places[:, -1].max() + 2 * radius + 1
    line = (places + apart * np.arange(height)[:, None]).ravel()
    first = np.searchsorted(line, line - radius)
    last = np.searchsorted(line, line + radius, side="right")
    flat = planes.reshape(height * width, -1).astype(np.float64)
    sums = np.concatenate([np.zeros((1, flat.shape[1])), np.cumsum(flat, axis=0)])
    means = (sums[last] - sums[first]) / (last - first)[:, None]
    found: Floats = means.astype(np.float32).reshape(planes.shape)
    return found
