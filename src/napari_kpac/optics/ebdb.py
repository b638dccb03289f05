"""Estimate the blur of an image from its edges (EBDB, Karaali and Jung, 2018).

Not for: maps from a network's attention (detection), or removing the blur (deconvolution).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import spsolve
from skimage.feature import canny
from skimage.graph import pixel_graph

from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.optics.edge_aware import smooth_along
from napari_kpac.optics.pixels import Doubles, Floats, luma, to_unit

MAX_SIGMA_PX = 5.0
"""Estimates of the blur are cut off here."""
SCALES_PX = np.arange(1.0, 5.01, 0.5)
"""Sigmas of the edge detector."""
NEEDED_SCALES = 4
"""An edge must be seen at this many of the smallest scales."""
FIRST_SIGMA_PX = 1.0
"""Sigma of the sharper of the two gradients."""
EDGE_SMOOTHNESS = 10.0
"""How strongly neighbours along an edge are drawn together."""
COLOUR_RANGE = 3.75
"""How large a step of the image, in 0..1 summed over the channels, stops the spreading."""

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
    return finish(defocus_map_steps(image))


def defocus_map_steps(image: npt.ArrayLike) -> Steps[DefocusMap]:
    """Estimate as `defocus_map` does, yielding after each scale of the detector."""
    pixels = to_unit(image)
    total = len(SCALES_PX) + 2
    light = luma(pixels) ** 2.4
    seen = []
    for done, sigma in enumerate(SCALES_PX, start=1):
        seen.append(_canny(light, sigma))
        yield Progress(done, total, "estimating")
    edges, scale = _edges(np.stack(seen))
    empty = np.zeros(light.shape, dtype=np.float32)
    if not edges.any():
        return DefocusMap(empty, edges, empty)
    first, second = _slopes_at_edges(light, edges, scale)
    measured = _ratio_to_sigma(first / np.maximum(second, 1e-12), scale[edges] / 2)
    at_edges = empty.copy()
    at_edges[edges] = _smooth_edges(edges, measured, first / first.max())
    yield Progress(total - 1, total, "estimating")
    spread = smooth_along(
        np.stack([at_edges, edges.astype(np.float32)], axis=2),
        pixels,
        space=min(light.shape) / 8,
        range_=COLOUR_RANGE,
    )
    dense = spread[:, :, 0] / np.maximum(spread[:, :, 1], 1e-12)
    return DefocusMap(np.clip(dense, 0, MAX_SIGMA_PX).astype(np.float32), edges, at_edges)


def _edges(seen: Mask) -> tuple[Mask, Floats]:
    """Find the edges, and for each the largest scale at which it was seen without a gap."""
    steps = np.cumprod(seen, axis=0).sum(axis=0)
    edges: Mask = steps >= NEEDED_SCALES
    return edges, SCALES_PX[np.maximum(steps - 1, 0)].astype(np.float32)


def _canny(light: Floats, sigma: float) -> Mask:
    """Detect edges; the threshold follows the image, so that dark images have edges too."""
    # scikit-image measures slopes with Sobel's weights, which are four times a derivative's half.
    high = max(4 * float(np.quantile(_slope(light, sigma), 0.7)), 0.004)
    found: Mask = canny(light, sigma, low_threshold=0.4 * high, high_threshold=high, mode="nearest")
    return found


def _slope(light: npt.NDArray[Any], sigma: float) -> npt.NDArray[Any]:
    """Return the magnitude of the gradient at a scale."""
    parts = (gaussian_filter(light, sigma, order=order) for order in ((0, 1), (1, 0)))
    slope: npt.NDArray[Any] = np.hypot(*parts)
    return slope


def _slopes_at_edges(light: Floats, edges: Mask, scale: Floats) -> tuple[Doubles, Doubles]:
    """Return gradient magnitudes at the edges, at the first and at each edge's own scale."""
    exact, own = light.astype(np.float64), scale[edges]
    first = _slope(exact, FIRST_SIGMA_PX)[edges]
    second = np.ones_like(first)
    for sigma in np.unique(own):
        second[own == sigma] = _slope(exact, float(sigma) / 2)[edges][own == sigma]
    return first, second


def _ratio_to_sigma(ratio: Doubles, second: npt.NDArray[Any]) -> Doubles:
    """Solve for the blur: a step of that blur has gradients in this ratio."""
    square = ratio**2
    with np.errstate(divide="ignore", invalid="ignore"):
        sigma = np.sqrt((square * FIRST_SIGMA_PX**2 - second**2) / (1 - square))
    cut: Doubles = np.clip(np.nan_to_num(sigma, nan=0.0, posinf=0.0), 0, MAX_SIGMA_PX)
    return cut


def _smooth_edges(edges: Mask, sigma: Doubles, strength: Doubles) -> Doubles:
    """Smooth estimates along 8-connected edges, stronger edges counting for more."""
    graph, _ = pixel_graph(edges, connectivity=2, edge_function=lambda *ends: np.ones(len(ends[0])))
    links = 2 * EDGE_SMOOTHNESS * csc_array(graph)
    trust = 1 + strength
    system = diags_array(trust + links.sum(axis=1)) - links
    solved: Doubles = spsolve(csc_array(system), trust * sigma)
    return np.clip(solved, 0, MAX_SIGMA_PX)
