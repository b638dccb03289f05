"""The study of blur detection: measures of blur against masks drawn by hand.

Not for: deblurring (study), or the scores themselves (detection.scores).

The rules. Blurred is the positive class. Each measure is thresholded image by image by
every rule; ``best F`` takes the best threshold of each image, which nobody knows beforehand:
an upper bound. F-measures have beta^2 = 0.3 and 1; accuracy is the share of pixels that are
called what they are. Tables show means over images.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from napari_kpac.datasets import MaskedImage, open_masked
from napari_kpac.detection import detect
from napari_kpac.detection.scores import BETAS_SQUARED, RULES, ScoreReport, score
from napari_kpac.evaluation.methods import make_models
from napari_kpac.evaluation.metrics import ImageArray
from napari_kpac.evaluation.options import EvaluateOptions
from napari_kpac.evaluation.probe import Evidence
from napari_kpac.evaluation.results import Key, Row

UPSAMPLINGS = (1, 2, 4)
RULE_NAMES = (*RULES, *(f"best F{beta:g}" for beta in BETAS_SQUARED))
MEASURES = (*(f"f{beta:g}" for beta in BETAS_SQUARED), "accuracy")
WHOLE = ("average_precision", "roc_auc")
"""Scores that need no threshold."""


class BlurStudy:
    """alpha_1 of every model at several enlargements, EBDB and local variance."""

    def __init__(self, options: EvaluateOptions) -> None:
        self.options = options
        self.data = open_masked(options)
        self.count = min(len(self.data), options.limit or len(self.data))
        self._models = {model.name: model for model in make_models(options.model, options.device)}
        self._measures: Mapping[str, Mapping[str, Any]] = {
            **{
                f"{name}, alpha_1, enlarged {factor}x": {
                    "model": model.net,
                    "upsampling": factor,
                    "device": options.device,
                }
                for name, model in self._models.items()
                for factor in UPSAMPLINGS
            },
            "ebdb": {"source": "ebdb"},
            "local variance": {"source": "variance"},
        }
        self._order = [(index, name) for index in range(self.count) for name in self._measures]
        self.keys: Sequence[Key] = [
            (self.data.name(index), name, 0.0) for index, name in self._order
        ]
        self.columns = [
            *(f"{measure} by {rule}" for rule in RULE_NAMES for measure in MEASURES),
            *WHOLE,
        ]
        self._last: tuple[int, MaskedImage] | None = None

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides the scores, as plain values."""
        return {
            "options": self.options.to_dict(),
            "methods": {name: dict(model.settings) for name, model in self._models.items()},
            "images": [self.data.name(index) for index in range(self.count)],
        }

    def measure(self, index: int) -> tuple[Row, Evidence | None]:
        """Measure one row."""
        image, values = self._detect(index)
        report = score(values, image.mask, "blurred")
        return Row(*self.keys[index], _scores(report)), None

    def images(self, index: int) -> Mapping[str, ImageArray]:
        """Make the images of one row again: what went in, the blur map, and the truth."""
        image, values = self._detect(index)
        truth = image.mask.astype(np.float32)
        return {"image": image.image, "truth": truth, self._order[index][1]: values}

    def _detect(self, index: int) -> tuple[MaskedImage, ImageArray]:
        number, name = self._order[index]
        if self._last is None or self._last[0] != number:
            self._last = number, self.data[number]
        image = self._last[1]
        found = detect(image.image, range="unit", rgb=True, **self._measures[name])
        return image, found.values


def _scores(report: ScoreReport) -> dict[str, float]:
    scores = {
        f"{measure} by {row.rule}": row.to_dict()[measure]
        for row in report.rows
        for measure in MEASURES
    }
    whole = report.to_dict()
    return scores | {name: whole[name] for name in WHOLE if whole[name] is not None}
