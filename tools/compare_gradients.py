"""Compare the gradients of results with those of the sharp images, by radius of the blur.

    python tools/compare_gradients.py kpac-3level sharper.safetensors --photos PHOTOS --limit 12

PSNR favours what is a little too soft. This shows how much, on the benchmark's scenes, for every
model with all of its sliders at each gain: the PSNR above the input's, and how the gradients of
the result compare with those of the truth, whichever pixels they lie at. ``amount`` is the mean
gradient over that of the truth: below 1 is too soft, above 1 too sharp. ``distance`` is the earth
mover's distance of the two distributions, in grey levels of 8 bits per pixel.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import wasserstein_distance

import napari_kpac as kpac
from napari_kpac.cli.common import print_table
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.methods import INPUT, ModelMethod, load_models
from napari_kpac.evaluation.metrics import BINS, Mask, inside, psnr
from napari_kpac.evaluation.sliders import WHITE


class Score(NamedTuple):
    """How one result compares with the truth, over the pixels of one bin."""

    gain: float
    amount: float
    distance: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Score every model at every gain and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="+", help="for one image, not for dual-pixel views")
    parser.add_argument("--photos", type=Path, required=True, help="sharp photographs")
    parser.add_argument("--limit", type=int, help="use only the first photographs")
    parser.add_argument("--gain", type=float, nargs="+", default=[1.0, 1.25, 1.5])
    given = parser.parse_args(arguments)
    models = load_models(given.model, "auto")
    cases = SyntheticCases(given.photos, limit=given.limit)
    found: dict[str, list[list[Score]]] = {}
    for index in range(len(cases)):
        pair = cases[index]
        for name, result in results(pair, models, given.gain):
            found.setdefault(name, []).append(scores(result, pair))
        print(f"{index + 1} of {len(cases)} scenes", flush=True)
    headings = ["dB / amount / distance", *(f"{where.label} px" for where in BINS)]
    print_table(headings, [row_of(name, scored) for name, scored in found.items()])


def results(
    pair: Pair, models: Sequence[ModelMethod], gains: Sequence[float]
) -> Iterator[tuple[str, Floats]]:
    """Yield the blurred image, then what every model makes of it with all sliders at each gain."""
    yield INPUT.name, pair.blurred
    for model in models:
        dilations = len(model.config.dilations)
        with closing(model.session(pair.blurred, pair.views)) as session:
            for gain in gains:
                modulation = kpac.Modulation(gains=(gain,) * dilations)
                yield f"{model.name}, {gain:g}", session.render(modulation).image


def scores(result: Floats, pair: Pair) -> list[Score]:
    """Return the score in each bin, of NaN where too few pixels lie in it."""
    assert pair.radius is not None
    found = []
    for where in BINS:
        mask = inside(pair.radius, *where)
        if mask is None:
            found.append(Score(np.nan, np.nan, np.nan))
            continue
        ours, true = gradients(result, mask), gradients(pair.sharp, mask)
        gain = psnr(result, pair.sharp, mask) - psnr(pair.blurred, pair.sharp, mask)
        amount = float(ours.mean() / true.mean())
        found.append(Score(gain, amount, float(wasserstein_distance(ours, true))))
    return found


def gradients(image: Floats, mask: Mask) -> Floats:
    """Return how steep the grey values are at the pixels of a mask, in levels per pixel."""
    grey = WHITE * np.clip(image, 0, 1).mean(axis=2)
    steep: Floats = np.hypot(*np.gradient(grey))[mask]
    return steep


def row_of(name: str, scored: Sequence[Sequence[Score]]) -> list[str]:
    """Return a row of the table: the means over the scenes."""
    means = np.ma.masked_invalid(np.array(scored)).mean(axis=0)
    cells = (
        "-" if np.ma.is_masked(mean) else f"{mean[0]:+.2f} / {mean[1]:.2f} / {mean[2]:.2f}"
        for mean in means
    )
    return [name, *cells]


if __name__ == "__main__":
    main()
