"""Edge-aware smoothing: the recursive filter of the domain transform (Gastal and Oliveira, 2011).

Not for: knowing what is smoothed.
"""

from __future__ import annotations

import numpy as np

from napari_kpac.optics.pixels import Floats


def smooth_along(
    planes: Floats, guide: Floats, *, space: float, range_: float, iterations: int = 5
) -> Floats:
    """Smooth planes (H, W, N) within the areas that the edges of a guide divide.

    Parameters
    ----------
    planes
        What is smoothed.
    guide
        (H, W) or (H, W, C): the image whose edges are respected.
    space
        Standard deviation in pixels where the guide is flat.
    range_
        Standard deviation in units of the guide: how large a step stops the smoothing.
    iterations
        More leave fewer streaks.
    """
    steps = []
    colours = np.atleast_3d(guide).astype(np.float32)
    for axis in (0, 1):
        change = np.abs(np.diff(colours, axis=axis)).sum(axis=2)
        steps.append(1 + space / range_ * change)
    result = planes.astype(np.float32)
    for i in range(1, iterations + 1):
        sigma = space * np.sqrt(3) * 2 ** (iterations - i) / np.sqrt(4**iterations - 1)
        feedback = float(np.exp(-np.sqrt(2) / sigma))
        result = _both_ways(result.swapaxes(0, 1), feedback ** steps[1].T).swapaxes(0, 1)
        result = _both_ways(result, feedback ** steps[0])
    return result


def _both_ways(planes: Floats, weights: Floats) -> Floats:
    """Filter forth and back along the first axis; weights lie between neighbours."""
    result = np.array(planes, order="C")
    weights = np.ascontiguousarray(weights)[:, :, None]
    for i in range(1, len(result)):
        result[i] += weights[i - 1] * (result[i - 1] - result[i])
    for i in range(len(result) - 2, -1, -1):
        result[i] += weights[i] * (result[i + 1] - result[i])
    return result
