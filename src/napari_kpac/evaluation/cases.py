"""The best and the worst cases of an evaluation, as crops side by side.

Not for: the page around them (report).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.ndimage import uniform_filter

from napari_kpac.evaluation.methods import Comparator, Unchanged
from napari_kpac.evaluation.metrics import ImageArray, psnr, squared_error
from napari_kpac.evaluation.results import Ledger
from napari_kpac.evaluation.study import PairStudy
from napari_kpac.evaluation.summary import INPUT

SHOWN = 3
"""Best cases, and as many worst ones."""
SIDE = 224


@dataclass(frozen=True)
class Case:
    """One image and what became of it."""

    image: str
    method: str
    """By whose gain it was chosen."""
    gain: float
    """PSNR above the input's, in dB."""
    crops: Sequence[tuple[ImageArray, str]]
    """Images of one size and what they are."""


def best_and_worst(study: PairStudy, ledger: Ledger) -> Iterator[tuple[str, Case]]:
    """Give the cases in which the first method gained most and least, at the first noise.

    Yields ``best`` or ``worst`` with each. Only these are computed again; results are not kept.
    """
    methods = study.comparators[1:]
    if not methods:
        return
    noise = study.options.noise[0]
    ranked = sorted(_gains(study, ledger, methods[0].name, noise), reverse=True)
    shown = min(SHOWN, (len(ranked) + 1) // 2)
    worst = ranked[shown:][-shown:][::-1]
    for kind, chosen in (("best", ranked[:shown]), ("worst", worst)):
        for gain, number in chosen:
            yield kind, _case(study, number, noise, gain, methods)


def _gains(
    study: PairStudy, ledger: Ledger, method: str, noise: float
) -> Iterator[tuple[float, int]]:
    for number in range(study.count):
        name = study.pairs.name(number)
        before, after = (ledger.find((name, each, noise)) for each in (INPUT, method))
        if before is not None and after is not None:
            gain = after.scores["psnr"] - before.scores["psnr"]
            if np.isfinite(gain):
                yield gain, number


def _case(
    study: PairStudy, number: int, noise: float, gain: float, methods: Sequence[Comparator]
) -> Case:
    pair = study.pair(number, noise)
    where = crop_where(squared_error(pair.blurred, pair.sharp))
    crops = []
    for method in (Unchanged(), *methods):
        restored = method.restore(pair.blurred, pair.views)
        score = psnr(study.as_scored(restored, pair.sharp), pair.sharp)
        caption = f"{method.name}, {score:.2f} dB"
        crops.append((restored[where], caption))
    crops.append((pair.sharp[where], "sharp"))
    return Case(pair.name, methods[0].name, gain, crops)


def crop_where(error: ImageArray, side: int = SIDE) -> tuple[slice, slice]:
    """Choose the square of an image in which an error (H, W) is largest."""
    side = min(side, *error.shape)
    smooth = uniform_filter(error, side)
    row, column = np.unravel_index(np.argmax(smooth), smooth.shape)
    starts = (
        int(np.clip(middle - side // 2, 0, length - side))
        for middle, length in zip((row, column), error.shape, strict=True)
    )
    top, left = starts
    return slice(top, top + side), slice(left, left + side)
