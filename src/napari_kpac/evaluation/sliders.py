"""What the sliders of a network do, measured on images whose radius of blur is known.

Not for: what muting costs (attention), or words on it (widgets).

The rules. All sliders: every alpha of every block is multiplied by the same gain. Won is the PSNR
of the result above that of the input, over all pixels and over those with a radius in a bin. A
value overshoots where it leaves the range of the sharp image in the 5x5 pixels around it by more
than 4 grey levels of 8 bits; a ringing edge does. Input kept is the PSNR of the result with all
sliders at 0 against the blurred image. One slider: the change is the root mean square difference,
in grey levels of 8 bits, between the results with and without the alphas of one dilation, in all
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.ndimage import maximum_filter, minimum_filter

from napari_kpac.core.sliders import (
    GAINS,
    INPUT_KEPT,
    change_column,
    overshoot_column,
    won_column,
)
from napari_kpac.core.units import RadiusBin
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.evaluation.metrics import BINS, ImageArray, Mask, decibels, psnr, squared_error

OVERSHOOT_WINDOW_PX = 5
OVERSHOOT_LEVELS = 4
WHITE = 255

Render = Callable[[Sequence[float]], Floats]
"""Renders an image with a gain for each dilation."""


def slider_columns(dilations: Sequence[int]) -> list[str]:
    """Return the names of all columns that :func:`slider_scores` may fill."""
    places = (None, *BINS)
    return [
        *(won_column(gain, where) for gain in GAINS for where in places),
        *(overshoot_column(gain) for gain in GAINS),
        INPUT_KEPT,
        *(change_column(dilation, where) for dilation in dilations for where in places),
    ]


def slider_scores(
    render: Render, pair: Pair, dilations: Sequence[int], masks: Mapping[RadiusBin, Mask]
) -> dict[str, float]:
    """Return what the sliders do to one image.

    Parameters
    ----------
    render
        Renders the blurred image.
    pair
        The image and the truth.
    dilations
        Of the network.
    masks
        The pixels of every bin that has enough of them.
    """
    scores: dict[str, float] = {}
    places: list[tuple[RadiusBin | None, Any]] = [(None, ...), *masks.items()]
    plain = render([1.0] * len(dilations))
    for muted in dilations:
        changed = squared_error(render([float(other != muted) for other in dilations]), plain)
        for where, mask in places:
            scores[change_column(muted, where)] = WHITE * float(np.sqrt(changed[mask].mean()))
    before = squared_error(pair.blurred, pair.sharp)
    for gain in GAINS:
        restored = render([gain] * len(dilations))
        after = squared_error(restored, pair.sharp)
        for where, mask in places:
            won = decibels(float(after[mask].mean())) - decibels(float(before[mask].mean()))
            scores[won_column(gain, where)] = won
        scores[overshoot_column(gain)] = 100 * overshoot(restored, pair.sharp)
        if gain == 0:
            scores[INPUT_KEPT] = psnr(restored, pair.blurred)
    # An image without an error has no PSNR that could be compared.
    return {name: score for name, score in scores.items() if np.isfinite(score)}


def overshoot(result: ImageArray, truth: ImageArray) -> float:
    """Return the share of an image's values that leave the range of the truth around them."""
    size = (OVERSHOOT_WINDOW_PX, OVERSHOOT_WINDOW_PX, *(1,) * (truth.ndim - 2))
    margin = OVERSHOOT_LEVELS / WHITE
    values = np.clip(result, 0, 1)
    above = values > maximum_filter(truth, size) + margin
    below = values < minimum_filter(truth, size) - margin
    return float((above | below).mean())
