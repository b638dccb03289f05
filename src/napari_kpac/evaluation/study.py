"""A study: everything that is to be measured, one row after the other.

Not for: keeping the rows (results), or the order in time (evaluating).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import ConfigError
from napari_kpac.datasets import open_pairs
from napari_kpac.datasets.pairs import Floats, Pair, Pairs
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.bins import bin_columns, bin_scores
from napari_kpac.evaluation.methods import (
    Comparator,
    ModelComparator,
    Unchanged,
    make_models,
    make_rival,
)
from napari_kpac.evaluation.metrics import ImageArray, lpips_measure, why_no_lpips
from napari_kpac.evaluation.options import EvaluateOptions
from napari_kpac.evaluation.probe import (
    Evidence,
    Probe,
    examine,
    in_focus,
    probe_columns,
    variance_evidence,
)
from napari_kpac.evaluation.results import Key, Row

DIFFERENCE = "result minus sharp"
"""The image of a row that has a sign: the mean over the channels."""


class PairStudy:
    """Every comparator on every pair at every noise."""

    def __init__(self, options: EvaluateOptions) -> None:
        self.options = options
        self.pairs = _open(options)
        models = make_models(options.model, options.device)
        for model in models:
            if model.dual and not self.pairs.dual:
                raise ConfigError(
                    f"the model {model.name} needs dual-pixel views; choose data that has them"
                    " and say so (dual), or leave the model out"
                )
        rivals = [make_rival(name, options) for name in options.method]
        self.comparators: Sequence[Comparator] = (Unchanged(), *models, *rivals)
        self.count = len(self.pairs)
        if options.kind != "synthetic" and options.limit is not None:
            self.count = min(self.count, options.limit)
        self._order = [
            (index, noise, comparator)
            for index in range(self.count)
            for noise in options.noise
            for comparator in self.comparators
        ]
        self.keys: Sequence[Key] = [
            (self.pairs.name(index), comparator.name, noise)
            for index, noise, comparator in self._order
        ]
        if len(set(self.keys)) < len(self.keys):
            raise ConfigError("two images have the same name; rename one, results go by names")
        self.lpips_missing = why_no_lpips() if options.lpips else "not asked for"
        self._lpips = None if self.lpips_missing else lpips_measure()
        self._last: tuple[tuple[int, float], Pair] | None = None
        self.columns = self._columns()

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides the scores, as plain values."""
        return {
            "options": self.options.to_dict(),
            "methods": {each.name: dict(each.settings) for each in self.comparators},
            "images": [self.pairs.name(index) for index in range(self.count)],
        }

    def measure(self, index: int) -> tuple[Row, Evidence | None]:
        """Measure one row."""
        number, noise, comparator = self._order[index]
        pair = self.pair(number, noise)
        if isinstance(comparator, ModelComparator):
            focused = with_noise(in_focus(pair), noise, (self.options.seed, number))
            probe = examine(comparator, pair, focused, fit=self.options.fit_exposure)
        else:
            found = variance_evidence(pair) if isinstance(comparator, Unchanged) else None
            probe = Probe(comparator.restore(pair.blurred, pair.views), evidence=found)
        return Row(*self.keys[index], self._scores(probe, pair)), probe.evidence

    def images(self, index: int) -> Mapping[str, ImageArray]:
        """Make the images of one row again: what went in, what came out, and the truth."""
        number, noise, comparator = self._order[index]
        pair = self.pair(number, noise)
        restored = comparator.restore(pair.blurred, pair.views)
        restored = np.clip(self.as_scored(restored, pair.sharp), 0, 1).astype(np.float32)
        return {
            "sharp": pair.sharp,
            "blurred": np.clip(pair.blurred, 0, 1),
            comparator.name: restored,
            DIFFERENCE: (restored - pair.sharp).mean(axis=2),
        }

    def pair(self, number: int, noise: float) -> Pair:
        """Read a pair and add noise to it; the last one is kept."""
        if self._last is None or self._last[0] != (number, noise):
            pair = with_noise(self.pairs[number], noise, (self.options.seed, number))
            self._last = (number, noise), pair
        return self._last[1]

    def as_scored(self, restored: ImageArray, truth: ImageArray) -> ImageArray:
        """Return a result as it is compared with the truth: fitted to it where that is asked."""
        return metrics.fitted(restored, truth) if self.options.fit_exposure else restored

    def _scores(self, probe: Probe, pair: Pair) -> dict[str, float]:
        restored = self.as_scored(probe.restored, pair.sharp)
        preset: metrics.Preset = "paper" if self.options.ssim == "paper" else "default"
        scores = {
            "psnr": metrics.psnr(restored, pair.sharp),
            "ssim": metrics.ssim(restored, pair.sharp, preset),
            "mae": metrics.mae(restored, pair.sharp),
            **probe.scores,
        }
        if self._lpips is not None:
            scores["lpips"] = self._lpips(restored, pair.sharp)
        if pair.radius is not None:
            scores |= bin_scores(restored, pair.sharp, pair.radius, preset)
        return scores

    def _columns(self) -> Sequence[str]:
        columns = ["psnr", "ssim", "mae"] + ([] if self.lpips_missing else ["lpips"])
        radius_known = self.pair(0, self.options.noise[0]).radius is not None
        models = [each for each in self.comparators if isinstance(each, ModelComparator)]
        columns += bin_columns() if radius_known else []
        if models:
            columns += probe_columns(models, radius_known=radius_known)
        return columns


def with_noise(pair: Pair, percent: float, seed: tuple[int, int]) -> Pair:
    """Add Gaussian noise of a sigma in percent of the range to what is blurred; not clipped."""
    if percent == 0:
        return pair

    def noisy(image: Floats, view: int) -> Floats:
        rng = np.random.default_rng((*seed, round(1000 * percent), view))
        return (image + rng.normal(0, percent / 100, image.shape)).astype(np.float32)

    views = pair.views and (noisy(pair.views[0], 1), noisy(pair.views[1], 2))
    return replace(pair, blurred=noisy(pair.blurred, 0), views=views)


def _open(options: EvaluateOptions) -> Pairs:
    if options.kind != "synthetic":
        return open_pairs(options, by_manifest=True)
    return SyntheticCases(
        Path(options.root),
        options.split,
        limit=options.limit,
        seed=options.seed,
        dual=options.dual,
    )
