"""Estimate the blur of an image from its edges (EBDB, Karaali and Jung, 2018).

Not for: maps from a network's attention (detection), or removing the blur (classical).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter
from scipy.sparse import coo_array, csc_array, diags_array
from scipy.sparse.linalg import spsolve
from skimage.feature import canny

from napari_kpac.optics.domain_transform import smooth_along
from napari_kpac.optics.pixels import Doubles, Floats, to_unit

SCALES = np.arange(1.0, 5.01, 0.5)
"""Sigmas of the edge detector."""
NEEDED = 4
"""An edge must be seen at this many of the smallest scales."""
FIRST = 1.0
"""Sigma of the sharper of the two gradients."""
LARGEST = 5.0
"""Blur in pixels of sigma at which estimates are cut off."""
TOGETHER = 10.0
"""How strongly neighbours along an edge are drawn together."""
RANGE = 3.75
ITERATIONS = 5

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class DefocusMap:
    """Blur of an image in pixels of sigma."""

    sigma: Floats
    """(H, W): at every pixel."""
    edges: Mask
    """Where it was measured."""
    at_edges: Floats
    """(H, W): what was measured, after smoothing along the edges; 0 elsewhere."""


def defocus_map(image: npt.ArrayLike) -> DefocusMap:
    """Estimate how strongly each pixel of an image is blurred.

    Blur widens edges. At each edge that several scales of a detector agree on, the image
    is smoothed a little and a little more; the ratio of the two gradients tells how wide the
    edge was. Estimates are evened out along edges and spread over the areas between them.

    Parameters
    ----------
    image
        Grey (H, W) or sRGB (H, W, 3); uint8, uint16, or floats in 0..1.

    Returns
    -------
    DefocusMap
        Sigma in pixels, up to 5; all zero for an image without edges.
    """
    pixels = to_unit(image)
    luma = (
        pixels if pixels.ndim == 2 else pixels @ np.array([0.299, 0.587, 0.114], dtype=np.float32)
    )
    light = luma**2.4
    edges, scale = _edges(light)
    empty = np.zeros(light.shape, dtype=np.float32)
    if not edges.any():
        return DefocusMap(empty, edges, empty)
    first, second, strength = _gradients(light, edges, scale)
    sigma = _ratio_to_sigma(first / np.maximum(second, 1e-12), scale[edges] / 2)
    smoothed = _along_edges(edges, sigma, strength)
    at_edges = empty.copy()
    at_edges[edges] = smoothed
    spread = smooth_along(
        np.stack([at_edges, edges.astype(np.float32)], axis=2),
        pixels,
        space=min(light.shape) / 8,
        range_=RANGE,
        iterations=ITERATIONS,
    )
    dense = spread[:, :, 0] / np.maximum(spread[:, :, 1], 1e-12)
    return DefocusMap(np.clip(dense, 0, LARGEST).astype(np.float32), edges, at_edges)


def _edges(light: Floats) -> tuple[Mask, Floats]:
    """Find the edges, and for each the largest scale at which it was seen without a gap."""
    seen = np.stack([_canny(light, sigma) for sigma in SCALES])
    steps = np.cumprod(seen, axis=0).sum(axis=0)
    edges: Mask = steps >= NEEDED
    return edges, SCALES[np.maximum(steps - 1, 0)].astype(np.float32)


def _canny(light: Floats, sigma: float) -> Mask:
    """Detect edges; the threshold follows the image, so that dark images have edges too."""
    slope = np.hypot(*(gaussian_filter(light, sigma, order=o) for o in ((0, 1), (1, 0))))
    # scikit-image measures slopes with Sobel's weights, which are four times a derivative's half.
    high = max(4 * float(np.quantile(slope, 0.7)), 0.004)
    found: Mask = canny(light, sigma, low_threshold=0.4 * high, high_threshold=high, mode="nearest")
    return found


def _gradients(light: Floats, edges: Mask, scale: Floats) -> tuple[Doubles, Doubles, Doubles]:
    """Measure gradient magnitudes at the edges at the first and at each edge's second scale."""

    def magnitude(sigma: float) -> Doubles:
        parts = (
            gaussian_filter(light.astype(np.float64), sigma, order=o) for o in ((0, 1), (1, 0))
        )
        slope: Doubles = np.hypot(*parts)[edges]
        return slope

    first = magnitude(FIRST)
    own = scale[edges]
    second = np.ones_like(first)
    for sigma in np.unique(own):
        second[own == sigma] = magnitude(float(sigma) / 2)[own == sigma]
    return first, second, first / first.max()


def _ratio_to_sigma(ratio: Doubles, second: npt.NDArray[Any]) -> Doubles:
    """Solve for the blur: a step of that blur has gradients in this ratio."""
    square = ratio**2
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.sqrt((square * FIRST**2 - second**2) / (1 - square))
    cut: Doubles = np.clip(np.nan_to_num(sigma, nan=0.0, posinf=0.0), 0, LARGEST)
    return cut


def _along_edges(edges: Mask, sigma: Doubles, strength: Doubles) -> Doubles:
    """Even estimates out along 8-connected edges, stronger edges counting for more."""
    count = len(sigma)
    number = np.full(edges.shape, -1)
    number[edges] = np.arange(count)
    pairs = []
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = number[: edges.shape[0] - dy, max(0, -dx) : edges.shape[1] - max(0, dx)]
        there = number[dy:, max(0, dx) : edges.shape[1] + min(0, dx)]
        both = (here >= 0) & (there >= 0)
        pairs.append(np.stack([here[both], there[both]]))
    a, b = np.concatenate(pairs, axis=1)
    links = coo_array((np.ones(len(a)), (a, b)), shape=(count, count)).tocsc()
    links = links + links.T
    trust = 1 + strength
    system = diags_array(trust + 2 * TOGETHER * links.sum(axis=1)) - 2 * TOGETHER * links
    solved: Doubles = spsolve(csc_array(system), trust * sigma)
    return np.clip(solved, 0, LARGEST)
