"""``evaluate``: a study knows all rows that can be measured, and measures one after the other.

Not for: keeping the rows (results), reports, or terminals (cli).

The rules of blur detection. Blurred is the positive class. Each measure is thresholded image by
image by every rule; ``best F`` takes the best threshold of each image, which nobody knows
beforehand: an upper bound. F-measures have beta^2 = 0.3 and 1; accuracy is the share of pixels
that are called what they are. Tables show means over images.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets import MaskedImage, open_masked, open_pairs
from napari_kpac.datasets.pairs import Floats, Pair, Pairs
from napari_kpac.detection import detect
from napari_kpac.detection.scores import BETAS_SQUARED, RULES, score
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.attention import (
    UPSAMPLINGS,
    Examined,
    attention_columns,
    examine,
    in_focus,
    sample_variance,
)
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.methods import (
    INPUT,
    ModelMethod,
    classical_method,
    load_estimators,
    load_models,
    name_models,
)
from napari_kpac.evaluation.metrics import ImageArray
from napari_kpac.evaluation.options import EvaluateOptions
from napari_kpac.evaluation.results import IMAGES, Key, Line, Results, Row, summarise

DIFFERENCE = "result minus sharp"
"""The image of a row that has a sign: the mean over the channels."""


RULE_NAMES = (*RULES, *(f"best F{beta:g}" for beta in BETAS_SQUARED))
BLUR_MEASURES = (*(f"f{beta:g}" for beta in BETAS_SQUARED), "accuracy")
WITHOUT_THRESHOLD = ("average_precision", "roc_auc")


class Study(ABC):
    """Every method on every image at every noise, each by its name."""

    columns: Sequence[str]
    """Names of all scores that a row may have."""

    def __init__(
        self,
        options: EvaluateOptions,
        images: Sequence[str],
        methods: Sequence[str],
        noises: Sequence[float],
        settings: Mapping[str, Mapping[str, Any]],
    ) -> None:
        self.options = options
        # Everything that decides the scores, as plain values.
        self.settings: Mapping[str, Any] = {
            "options": options.to_dict(),
            "methods": settings,
            IMAGES: images,
        }
        self.count = len(images)
        self._order = list(product(range(len(images)), noises, range(len(methods))))
        self.keys: Sequence[Key] = [(images[i], methods[m], noise) for i, noise, m in self._order]
        if len(set(self.keys)) < len(self.keys):
            raise ConfigError(
                "two images or two methods have the same name; rename one, results go by names"
            )

    @abstractmethod
    def measure(self, index: int) -> Row:
        """Measure one row."""

    @abstractmethod
    def images(self, index: int) -> Mapping[str, ImageArray]:
        """Return the images of one row, made again: what went in, what came out, the truth."""


class PairStudy(Study):
    """Deblurring: every method on every pair at every noise."""

    def __init__(self, options: EvaluateOptions) -> None:
        self.pairs = _open(options)
        models = load_models(options.model, options.device)
        for model in models:
            if model.config.views == 2 and not self.pairs.dual:
                raise ConfigError(
                    f"the model {model.name} needs dual-pixel views; choose data that has them"
                    " and say so (dual), or leave the model out"
                )
        estimators = load_estimators(options.model, options.device, options.deconvolution)
        classical = [classical_method(name, options) for name in options.method]
        self.methods = [INPUT, *models, *estimators, *classical]
        count = len(self.pairs)
        if options.kind != "synthetic" and options.limit is not None:
            count = min(count, options.limit)
        images = [self.pairs.name(number) for number in range(count)]
        methods = [each.name for each in self.methods]
        settings = {each.name: dict(each.settings) for each in self.methods}
        super().__init__(options, images, methods, options.noise, settings)
        self.pair = lru_cache(maxsize=1)(self._read_pair)
        self.lpips_missing = metrics.why_no_lpips() if options.lpips else "not asked for"
        self._lpips = None if self.lpips_missing else metrics.lpips_measure()
        radius_known = self.pair(0, options.noise[0]).radius is not None
        if options.sliders and not radius_known:
            raise ConfigError(
                "what sliders do is measured by the radius of the blur, which is not known here;"
                " choose synthetic data, or leave sliders out"
            )
        self.columns = [
            *("psnr", "ssim", "mae"),
            *([] if self.lpips_missing else ["lpips"]),
            *(metrics.bin_columns() if radius_known else []),
            *(
                attention_columns(models, radius_known=radius_known, sliders=options.sliders)
                if models
                else []
            ),
        ]

    def measure(self, index: int) -> Row:
        """Deblur an image and score the result."""
        number, noise, method_number = self._order[index]
        method = self.methods[method_number]
        pair = self.pair(number, noise)
        if isinstance(method, ModelMethod):
            focused = with_noise(in_focus(pair), noise, (self.options.seed, number))
            fit, sliders = self.options.fit_exposure, self.options.sliders
            found = examine(method, pair, focused, fit=fit, sliders=sliders)
        else:
            samples = sample_variance(pair) if method is INPUT else None
            found = Examined(method.restore(pair.blurred, pair.views), {}, samples)
        scores = {**self._scores(found.restored, pair), **found.scores}
        return Row(*self.keys[index], scores, found.samples)

    def images(self, index: int) -> Mapping[str, ImageArray]:
        """Return what went in, what came out, the truth, and the difference."""
        number, noise, method_number = self._order[index]
        method = self.methods[method_number]
        pair = self.pair(number, noise)
        restored = method.restore(pair.blurred, pair.views)
        restored = np.clip(self.as_scored(restored, pair.sharp), 0, 1).astype(np.float32)
        return {
            "sharp": pair.sharp,
            "blurred": np.clip(pair.blurred, 0, 1),
            method.name: restored,
            DIFFERENCE: (restored - pair.sharp).mean(axis=2),
        }

    def as_scored(self, restored: ImageArray, truth: ImageArray) -> ImageArray:
        """Return a result as it is compared with the truth: fitted to it where that is asked."""
        return metrics.fitted(restored, truth) if self.options.fit_exposure else restored

    def _read_pair(self, number: int, noise: float) -> Pair:
        return with_noise(self.pairs[number], noise, (self.options.seed, number))

    def _scores(self, restored: ImageArray, pair: Pair) -> dict[str, float]:
        restored = self.as_scored(restored, pair.sharp)
        preset = self.options.ssim
        scores = {
            "psnr": metrics.psnr(restored, pair.sharp),
            "ssim": metrics.ssim(restored, pair.sharp, preset),
            "mae": metrics.mae(restored, pair.sharp),
        }
        if self._lpips is not None:
            scores["lpips"] = self._lpips(restored, pair.sharp)
        if pair.radius is not None:
            scores |= metrics.bin_scores(restored, pair.sharp, pair.radius, preset)
        return scores


def _open(options: EvaluateOptions) -> Pairs:
    if options.kind != "synthetic":
        return open_pairs(options, by_manifest=True)
    return SyntheticCases(
        Path(options.root),
        options.split,
        limit=options.limit,
        seed=options.seed,
        dual=options.dual,
        blur=options.blur,
    )


def with_noise(pair: Pair, percent: float, seed: tuple[int, int]) -> Pair:
    """Add Gaussian noise of a sigma in percent of the range to what is blurred; not clipped."""
    if percent == 0:
        return pair

    def noisy(image: Floats, view: int) -> Floats:
        rng = np.random.default_rng((*seed, round(1000 * percent), view))
        return (image + rng.normal(0, percent / 100, image.shape)).astype(np.float32)

    views = pair.views and (noisy(pair.views[0], 1), noisy(pair.views[1], 2))
    return replace(pair, blurred=noisy(pair.blurred, 0), views=views)


class BlurStudy(Study):
    """Blur detection: alpha_1 at several enlargements, estimators of defocus, local variance."""

    def __init__(self, options: EvaluateOptions) -> None:
        self.data = open_masked(options)
        models = load_models(options.model, options.device)
        measures: dict[str, Mapping[str, Any]] = {
            f"{model.name}, alpha_1, enlarged {factor}x": {
                "model": model.net,
                "upsampling": factor,
                "device": options.device,
            }
            for model in models
            for factor in UPSAMPLINGS
        }
        measures |= {
            each.name: {"source": each.name} for each in ESTIMATORS if not each.needs_model
        }
        measures |= {
            name: {"source": each.name, "model": model, "device": options.device}
            for each in ESTIMATORS
            if each.needs_model
            for name, model in name_models(options.model, each.name)
        }
        measures["local variance"] = {"source": "variance"}
        self._measures = list(measures.values())
        count = min(len(self.data), options.limit or len(self.data))
        images = [self.data.name(number) for number in range(count)]
        estimators = load_estimators(options.model, options.device, options.deconvolution)
        settings = {each.name: dict(each.settings) for each in (*models, *estimators)}
        super().__init__(options, images, list(measures), (0.0,), settings)
        self.columns = [
            *(f"{measure} by {rule}" for rule in RULE_NAMES for measure in BLUR_MEASURES),
            *WITHOUT_THRESHOLD,
        ]
        self._image = lru_cache(maxsize=1)(self.data.__getitem__)

    def measure(self, index: int) -> Row:
        """Detect blur and score the map."""
        image, values = self._detect(index)
        report = score(values, image.mask, "blurred")
        scores = {
            f"{measure} by {row.rule}": row.to_dict()[measure]
            for row in report.rows
            for measure in BLUR_MEASURES
        }
        for name in WITHOUT_THRESHOLD:
            value = getattr(report, name)
            if value is not None:
                scores[name] = value
        return Row(*self.keys[index], scores)

    def images(self, index: int) -> Mapping[str, ImageArray]:
        """Return what went in, the truth, and the blur map."""
        image, values = self._detect(index)
        truth = image.mask.astype(np.float32)
        return {"image": image.image, "truth": truth, self.keys[index][1]: values}

    def _detect(self, index: int) -> tuple[MaskedImage, ImageArray]:
        number, _, measure = self._order[index]
        image = self._image(number)
        found = detect(image.image, range="unit", rgb=True, **self._measures[measure])
        return image, found.values


@dataclass(frozen=True)
class EvaluateProgress(Progress):
    """One more row is there."""

    row: Row | None = None
    study: Study | None = None
    results: Results | None = None
    """What was measured so far, for :func:`evaluated_so_far`."""


@dataclass(frozen=True)
class Evaluation:
    """What was measured."""

    study: PairStudy | BlurStudy
    results: Results
    lines: list[Line]
    """Means over images, one line for each method and noise."""
    report: Path | None = None
    """The page that was written."""

    @property
    def options(self) -> EvaluateOptions:
        """What was compared on what."""
        return self.study.options


def evaluate(options: EvaluateOptions, output: Path | None = None) -> Steps[Evaluation]:
    """Compare models and methods on a dataset.

    Yields progress after every result; closing the generator cancels. With a folder, results
    are kept as they come: the same call again goes on where the last one stopped.

    Parameters
    ----------
    options
        What is compared on what.
    output
        Folder for ``results.csv``, ``summary.json`` and ``report.html``.

    Raises
    ------
    ConfigError
        If the options make no sense, or the folder holds an evaluation with others.
    FileError
        If data cannot be read or results not be written.
    """
    study = BlurStudy(options) if options.kind == "cuhk" else PairStudy(options)
    results = Results(study.columns, output, study.settings)
    for index, key in enumerate(study.keys):
        image, method, _ = key
        if results.find(key) is None:
            with explaining_shortage(f"{method} on {image}"):
                results.add(study.measure(index))
        stage = f"{image}: {method}"
        row = results.find(key)
        yield EvaluateProgress(index + 1, len(study.keys), stage, "", row, study, results)
    found = Evaluation(study, results, summarise(results))
    return found if output is None else (yield from _with_report(found, output))


def evaluated_so_far(last: EvaluateProgress) -> Evaluation | None:
    """Return what an evaluation that was closed after this step has measured.

    The means are over images of which every row is there, so that all methods are compared on
    the same ones; None before the first such image.
    """
    study, results = last.study, last.results
    if results is None or not isinstance(study, PairStudy | BlurStudy):
        return None
    missing = {key[0] for key in study.keys if results.find(key) is None}
    complete = Results(results.columns)
    for row in results.rows:
        if row.image not in missing:
            complete.add(replace(row, samples=results.samples(row)))
    return Evaluation(study, results, summarise(complete)) if complete.rows else None


def export_steps(found: Evaluation, output: Path) -> Steps[Evaluation]:
    """Write an evaluation that is only in memory into a folder, as if it had been made there."""
    written = Results(found.results.columns, output, found.study.settings)
    for row in found.results.rows:
        if written.find(row.key) is None:
            written.add(replace(row, samples=found.results.samples(row)))
    return (yield from _with_report(replace(found, results=written), output))


def _with_report(found: Evaluation, output: Path) -> Steps[Evaluation]:
    # Not above: the report knows what an evaluation is.
    from napari_kpac.evaluation.report import report_steps

    return replace(found, report=(yield from report_steps(found, output)))
