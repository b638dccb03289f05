"""Random crops, flips, rotations, scales and noise of a pair, from a random generator alone.

Not for: which pairs are drawn, or batches of them (training).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from skimage.transform import resize

from napari_kpac.core.errors import ImageError
from napari_kpac.datasets.options import Augmentation
from napari_kpac.datasets.pairs import Floats, Pair


def augment(pair: Pair, options: Augmentation, rng: np.random.Generator) -> Pair:
    """Return a random square piece of a pair; what belongs together stays together.

    A mirrored scene swaps its dual-pixel views, and views are never turned by 90 degrees, since
    their disparity is horizontal. The radius map is scaled with the images.

    Parameters
    ----------
    pair
        Images of at least ``options.crop`` pixels a side; they are not changed.
    options
        What is done.
    rng
        Decides everything: the same state gives the same piece.

    Raises
    ------
    ImageError
        If the pair is smaller than the crop.
    """
    # Every number is drawn for every pair, so that options do not shift those that follow.
    scale, top, left = rng.uniform(size=3)
    mirror, upend, quarters = rng.integers((2, 2, 4))
    strength = rng.uniform()
    height, width = pair.sharp.shape[:2]
    if min(height, width) < options.crop:
        raise ImageError(
            f"the pair {pair.name} has {width}x{height} pixels, too few for crops of"
            f" {options.crop}; use smaller crops or leave it out"
        )
    side = _window(options, scale, min(height, width))
    row, column = int(top * (height - side + 1)), int(left * (width - side + 1))
    if not options.flips:
        mirror = upend = 0
    if not options.rotations:
        quarters = 0
    elif pair.views is not None:
        quarters = 2 * (quarters % 2)

    def piece(values: Floats, scaled: Callable[[Floats, int], Floats] = _scaled) -> Floats:
        cut = scaled(values[row : row + side, column : column + side], options.crop)
        cut = cut[:, ::-1] if mirror else cut
        cut = cut[::-1] if upend else cut
        return np.array(np.rot90(cut, quarters), np.float32, order="C")

    views = pair.views and (piece(pair.views[0]), piece(pair.views[1]))
    if views is not None and bool(mirror) != (quarters == 2):
        views = views[1], views[0]
    blurred, views = _noisy(piece(pair.blurred), views, np.float32(strength * options.noise), rng)
    radius = None
    if pair.radius is not None:
        radius = piece(pair.radius, _nearest) * np.float32(options.crop / side)
    return Pair(pair.name, blurred, piece(pair.sharp), views, radius)


def _window(options: Augmentation, scale: float, most: int) -> int:
    """Return the side of what is cut out, to be scaled to the crop."""
    low, high = options.scale
    factor = math.exp(math.log(low) + scale * (math.log(high) - math.log(low)))
    return min(most, max(1, round(options.crop / factor)))


def _scaled(values: Floats, side: int) -> Floats:
    if len(values) == side:
        return values
    smaller = side < len(values)
    made: Floats = resize(values, (side, side), order=1, anti_aliasing=smaller)
    return made


def _nearest(values: Floats, side: int) -> Floats:
    """Scale a radius map; between near and far lies an edge, not a sharp rim."""
    if len(values) == side:
        return values
    made: Floats = resize(values, (side, side), order=0, anti_aliasing=False)
    return made


def _noisy(
    blurred: Floats,
    views: tuple[Floats, Floats] | None,
    sigma: np.float32,
    rng: np.random.Generator,
) -> tuple[Floats, tuple[Floats, Floats] | None]:
    """Add noise without clipping; that of the centre is the mean of that of its views."""
    if not sigma:
        return blurred, views
    first: Floats = sigma * rng.standard_normal(blurred.shape, np.float32)
    if views is None:
        return blurred + first, None
    second: Floats = sigma * rng.standard_normal(blurred.shape, np.float32)
    return blurred + np.float32(0.5) * (first + second), (views[0] + first, views[1] + second)
