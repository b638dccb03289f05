"""Whether the two images of a pair show the same scene at the same place.

Not for: whether files can be read at all (faults).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter

from napari_kpac.core.errors import FileError
from napari_kpac.datasets.pairs import Floats, Pair, Pairs

CHECKED_PAIRS = 32
"""Pairs of a dataset that are looked at, evenly spaced."""
SIDE_PX = 512
"""Of the middle of an image that is compared."""
LARGEST_SHIFT_PX = 3
SMALLEST_CORRELATION = 0.5
CLEARLY = 0.1
"""Share of what a correlation lacks of 1 by which a shift must raise it. Strong blur of a texture
that repeats itself moves the best place a little without any shift."""
SIGMA_PX = 4.0
"""Both images are smoothed first, so that the blur itself does not matter."""


def check_aligned(pairs: Pairs, indices: Sequence[int]) -> None:
    """Raise if images of pairs are shifted against each other or show different scenes.

    Raises
    ------
    FileError
        All such pairs are named, with what is wrong.
    """
    places = np.unique(np.linspace(0, len(indices) - 1, CHECKED_PAIRS).round().astype(int))
    found = []
    for index in (indices[place] for place in places):
        problem = misalignment(pairs[index])
        if problem:
            found.append(f"{pairs.name(index)}: {problem}")
    if found:
        raise FileError(
            f"{len(found)} of {len(places)} pairs that were looked at do not agree pixel by pixel;"
            " align them, or take them out:\n  " + "\n  ".join(found)
        )


def misalignment(pair: Pair) -> str:
    """Return what is wrong with a pair; an empty text where its images agree."""
    blurred, sharp = (_smooth(image) for image in (pair.blurred, pair.sharp))
    spread = float(blurred.std() * sharp.std())
    if spread < 1e-6:  # nothing to compare
        return ""
    spectrum = np.fft.rfft2(blurred) * np.conj(np.fft.rfft2(sharp))
    correlation = np.fft.irfft2(spectrum, s=blurred.shape) / (blurred.size * spread)
    peak = float(correlation.max())
    if peak < SMALLEST_CORRELATION:
        return f"the images show different scenes (correlation {peak:.2f})"
    small = range(-LARGEST_SHIFT_PX, LARGEST_SHIFT_PX + 1)
    near = float(correlation.take(small, axis=0, mode="wrap").take(small, 1, mode="wrap").max())
    if peak - near <= CLEARLY * max(0.0, 1 - peak):
        return ""
    # A peak at s says that the sharp image lies at -s.
    place = np.unravel_index(int(np.argmax(correlation)), correlation.shape)
    y, x = (
        int(size - at if at > size // 2 else -at)
        for at, size in zip(place, correlation.shape, strict=True)
    )
    return f"the sharp image is shifted by about {x}, {y} px (x, y)"


def _smooth(image: Floats) -> Floats:
    """Return the smoothed middle of an image, around its mean and faded out at the border."""
    height, width = image.shape[:2]
    rows, columns = (min(SIDE_PX, side) for side in (height, width))
    top, left = (height - rows) // 2, (width - columns) // 2
    middle = image[top : top + rows, left : left + columns].mean(axis=2)
    values: Floats = gaussian_filter(middle, min(SIGMA_PX, min(rows, columns) / 8))
    window = np.outer(np.hanning(rows + 2)[1:-1], np.hanning(columns + 2)[1:-1])
    faded: Floats = ((values - values.mean()) * window).astype(np.float32)
    faded -= faded.mean()
    return faded
