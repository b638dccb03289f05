"""``evaluate``: every comparator on every picture, step by step.

Not for: tables (summary), files (ledger, report), or terminals (cli).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from napari_kpac.datasets.pair import Pair, Pairs
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.bins import bin_scores
from napari_kpac.evaluation.comparators import (
    Comparator,
    ModelComparator,
    Unchanged,
    model_names,
)
from napari_kpac.evaluation.ledger import Ledger, Row
from napari_kpac.evaluation.options import EvaluateOptions
from napari_kpac.evaluation.probe import Probe, examine, variance_evidence
from napari_kpac.progress import Progress, Steps


@dataclass(frozen=True)
class Evaluation:
    """What was measured."""

    options: EvaluateOptions
    ledger: Ledger
    comparators: Sequence[Comparator]


def evaluate(options: EvaluateOptions) -> Steps[Evaluation]:
    """Compare models on a dataset; yields after every result, returns all of them."""
    pairs = open_dataset(options)
    comparators = make_comparators(options)
    ledger = Ledger()
    total = len(pairs) * len(options.noise) * len(comparators)
    done = 0
    for index in range(len(pairs)):
        keys = [(pairs.name(index), c.name, n) for n in options.noise for c in comparators]
        pair = None if all(map(ledger.has, keys)) else pairs[index]
        for noise in options.noise:
            noisy = None if pair is None else with_noise(pair, noise, (options.seed, index))
            for comparator in comparators:
                if noisy is not None and not ledger.has((noisy.name, comparator.name, noise)):
                    _measure(noisy, comparator, noise, options, ledger)
                done += 1
                yield Progress(done, total, f"{pairs.name(index)}: {comparator.name}")
    return Evaluation(options, ledger, comparators)


def open_dataset(options: EvaluateOptions) -> Pairs:
    """Open the data that the options name."""
    from napari_kpac.evaluation.benchmark import synthetic_cases

    return synthetic_cases(
        Path(options.root), options.split, limit=options.limit, seed=options.seed
    )


def make_comparators(options: EvaluateOptions) -> list[Comparator]:
    """Make everything that is compared; the input comes first."""
    named = zip(options.model, model_names(options.model), strict=True)
    networks = [ModelComparator(model, options.device, name) for model, name in named]
    return [Unchanged(), *networks]


def with_noise(pair: Pair, percent: float, seed: tuple[int, int]) -> Pair:
    """Add Gaussian noise of a sigma in percent of the range to what is blurred; not clipped."""
    if percent == 0:
        return pair

    def noisy(picture: metrics.Picture, view: int) -> metrics.Picture:
        rng = np.random.default_rng((*seed, round(1000 * percent), view))
        noise = rng.normal(0, percent / 100, picture.shape)
        return (picture + noise).astype(np.float32)

    views = pair.views and (noisy(pair.views[0], 1), noisy(pair.views[1], 2))
    return replace(pair, blurred=noisy(pair.blurred, 0), views=views)


def _measure(
    pair: Pair, comparator: Comparator, noise: float, options: EvaluateOptions, ledger: Ledger
) -> None:
    if isinstance(comparator, ModelComparator):
        probe = examine(comparator, pair)
    else:
        found = variance_evidence(pair) if isinstance(comparator, Unchanged) else None
        probe = Probe(comparator.restore(pair.blurred, pair.views), evidence=found)
    restored = probe.restored
    preset: metrics.Preset = "paper" if options.ssim == "paper" else "default"
    scores = {
        "psnr": metrics.psnr(restored, pair.sharp),
        "ssim": metrics.ssim(restored, pair.sharp, preset),
        "mae": metrics.mae(restored, pair.sharp),
        **probe.scores,
    }
    if pair.radius is not None:
        scores |= bin_scores(restored, pair.sharp, pair.radius, preset)
    ledger.add(Row(pair.name, comparator.name, noise, scores), probe.evidence)
