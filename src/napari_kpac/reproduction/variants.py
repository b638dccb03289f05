"""The paper's experiments on variants of the network: what is trained, how, and how it compares.

All variants get the same number of steps. Everything is in one folder: the plan, one run for each
variant, and the scores of each. What is there already is not done again, so that a run that was
stopped goes on. Not for: how training works (training).
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.files import read_record, write_record
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.evaluation import metrics, paper
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.study import with_noise
from napari_kpac.network import count_parameters
from napari_kpac.training import TrainOptions, preset, read_trained, resume, train
from napari_kpac.training.run_folder import OPTIONS, STATE
from napari_kpac.training.state import start_network

TIMED_STEPS = 6
"""Steps by which the slowest variant is timed; the first does not count."""
TRAINING_SHARE = 0.9
"""Of the budget that goes into training; the rest is for comparing."""
MIN_STEPS = 2
MEASURES: Mapping[str, Callable[[Floats, Floats], float]] = {
    "psnr": metrics.psnr,
    "ssim": metrics.ssim,
    "mae": metrics.mae,
}
Scores = Mapping[str, Mapping[str, float]]
"""By noise in percent: psnr, ssim, mae."""


@dataclass(frozen=True)
class Variant:
    """A network that is trained like the others but for a few options."""

    slug: str
    """Name of its run; equal runs of several experiments have equal names."""
    label: str
    """The paper's word for it."""
    changes: Mapping[str, Any]
    """Options of training that differ."""
    printed: Mapping[float, paper.PaperRow]
    """What the paper prints, by noise in percent."""


@dataclass(frozen=True)
class Experiment:
    """One of the paper's tables."""

    name: str
    title: str
    variants: Sequence[Variant]
    noises: Sequence[float] = (0.0,)
    """Noise in percent at which the variants are compared."""
    dual: bool = False
    """Whether the data has dual-pixel views."""


def _variant(slug: str, printed: paper.PaperRow, *, levels: int = 2, **changes: Any) -> Variant:
    return Variant(slug, printed.label, {"levels": levels, **changes}, {0.0: printed})


def _noise_variant(slug: str, label: str, **changes: Any) -> Variant:
    psnrs = paper.NOISE[label].items()
    printed = {sigma: paper.PaperRow(label, psnr=psnr) for sigma, psnr in psnrs}
    return Variant(slug, label, {"levels": 2, **changes}, printed)


_UNSHARED, _SHARED = paper.WEIGHT_SHARING
_BASELINE, _ACS, _SHAPE, _SCALE, _FULL = paper.ABLATION
_PRINTED = {row.label: row for row in paper.COMPARISON}
_THREE_LEVELS = _variant("3-level", _PRINTED["KPAC (3-level)"], levels=3)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "weight-sharing",
            "Effect of weight sharing (2-level)",
            (_variant("unshared", _UNSHARED, shared_kernels=False), _variant("full", _SHARED)),
        ),
        Experiment(
            "ablation",
            "Ablation (2-level)",
            (
                _variant("residual", _BASELINE, network="residual"),
                _variant("acs", _ACS, scale_attention=False, shape_attention=False),
                _variant("acs-shape", _SHAPE, scale_attention=False),
                _variant("acs-scale", _SCALE, shape_attention=False),
                _variant("full", _FULL),
            ),
        ),
        Experiment(
            "num-blocks",
            "Number of KPAC blocks (2-level)",
            tuple(
                _variant("full" if blocks == 2 else f"blocks-{blocks}", printed, blocks=blocks)
                for blocks, printed in enumerate(paper.NUMBER_OF_BLOCKS, start=1)
            ),
        ),
        Experiment(
            "noise",
            "Sensitivity to noise (2-level)",
            (
                _noise_variant("full", "without noise augmentation"),
                _noise_variant(
                    "noisy", "with noise augmentation", noise=0.03, noise_probability=1.0
                ),
            ),
            noises=(0.0, 1.0, 3.0, 5.0),
        ),
        Experiment(
            "levels",
            "Levels of the encoder and decoder",
            (_variant("full", _PRINTED["KPAC (2-level)"]), _THREE_LEVELS),
        ),
        Experiment(
            "dual",
            "Dual-pixel input (3-level)",
            (
                _THREE_LEVELS,
                _variant("dual", _PRINTED["KPAC (dual)"], levels=3, dual=True),
            ),
            dual=True,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """Return an experiment by its name."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"no experiment is called {name!r}; choose {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]


@dataclass(frozen=True)
class VariantOptions:
    """How variants are trained and compared."""

    root: str
    """Folder of sharp photographs: split train to learn from, val to compare on."""
    budget: float = 3600.0
    """Seconds for all variants together."""
    steps: int | None = None
    """Steps of each variant, instead of what the budget allows."""
    photos: int = 10
    """Photographs of the comparison, two crops of each."""
    seed: int = 0
    device: str = "auto"
    preset: str = "default"
    """What is not said here is as in this preset of training."""


@dataclass(frozen=True)
class Outcome:
    """What became of one variant."""

    parameters: int
    scores: Scores


@dataclass(frozen=True)
class Compared:
    """All variants of some experiments."""

    steps: int
    input_scores: Scores
    """Those of the blurred images."""
    outcomes: Mapping[str, Outcome]
    """By the slug of a variant."""
    cases: SyntheticCases
    folder: Path

    def trained(self, slug: str) -> Trained:
        """Load a variant."""
        return Trained(self.folder / "runs" / slug)


def variant_steps(
    experiments: Sequence[Experiment], options: VariantOptions, folder: Path
) -> Steps[Compared]:
    """Train every variant of some experiments and compare them; yields after every step.

    Raises
    ------
    ConfigError
        If the folder was begun with other options, or the budget is too small.
    """
    variants = list({v.slug: v for e in experiments for v in e.variants}.values())
    dual = any(experiment.dual for experiment in experiments)
    steps = _plan(variants, options, folder)
    cases = SyntheticCases(
        Path(options.root), "val", limit=options.photos, seed=options.seed, dual=dual
    )
    total = len(variants) * steps
    outcomes = {}
    for number, variant in enumerate(variants):
        run = folder / "runs" / variant.slug
        yield from _trained(variant, options, steps, run, number * steps, total)
        network = Trained(run)
        wanted = _noises(e for e in experiments if variant.slug in {v.slug for v in e.variants})
        scores = _scores(variant.slug, network.restore, cases, wanted, folder)
        outcomes[variant.slug] = Outcome(network.parameters, scores)
        yield Progress((number + 1) * steps, total, f"{variant.slug}: compared")
    blurred = _scores("input", lambda pair: pair.blurred, cases, _noises(experiments), folder)
    return Compared(steps, blurred, outcomes, cases, folder)


def _noises(experiments: Iterable[Experiment]) -> list[float]:
    return sorted({noise for experiment in experiments for noise in experiment.noises})


def train_options(variant: Variant, options: VariantOptions, steps: int) -> TrainOptions:
    """Return a variant's options: the same for all but for what makes the variant.

    Nothing ties alpha to the radius here, no slider is moved and there are no phases, since the
    paper has none of these; and there is no noise but where noise is the question.
    """
    common: dict[str, Any] = {
        "kind": "synthetic",
        "root": options.root,
        "steps": steps,
        "warmup": min(100, steps // 10),
        "attention_loss": 0.0,
        "steering": 0.0,
        "phases": (),
        "noise": 0.0,
        "validate_every": max(steps, 1),
        "validation_crops": 4,
        "save_every": 50,
        "seed": options.seed,
        "device": options.device,
        "name": variant.slug,
    }
    return preset(options.preset, **{**common, **variant.changes})


class Trained:
    """A trained variant, of whatever kind, as something to compare."""

    def __init__(self, run: Path) -> None:
        self._net = read_trained(run).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = count_parameters(self._net)

    @torch.inference_mode()
    def restore(self, pair: Pair) -> Floats:
        """Deblur a crop of the benchmark, whose sides fit every network."""
        views = None
        if getattr(getattr(self._net, "config", None), "views", 1) == 2:
            if pair.views is None:
                raise ConfigError("a dual-pixel variant needs data with dual-pixel views")
            views = [_tensor(view) for view in pair.views]
        output = self._net(_tensor(pair.blurred), views)
        restored: Floats = ((output[0].permute(1, 2, 0) + 1) / 2).numpy()
        return restored


def _tensor(image: Floats) -> torch.Tensor:
    values = torch.from_numpy(image).permute(2, 0, 1)[None] * 2 - 1
    return values.contiguous(memory_format=torch.channels_last)


def _plan(variants: Sequence[Variant], options: VariantOptions, folder: Path) -> int:
    """Decide how many steps each variant gets, or read what was decided before.

    A second experiment in the same folder gets as many as the first, so that both can be
    compared and share what is trained for both.
    """
    path = folder / "plan.json"
    wanted = {name: getattr(options, name) for name in ("root", "photos", "seed", "preset")}
    if path.exists():
        plan = read_record(path)
        steps = int(plan.pop("steps"))
        if plan != wanted or options.steps not in (None, steps):
            raise ConfigError(
                f"{folder} was begun with other options; use the same again, or another folder"
            )
        return steps
    steps = options.steps or int(
        TRAINING_SHARE * options.budget / (len(variants) * _seconds_a_step(variants, options))
    )
    if steps < MIN_STEPS:
        raise ConfigError(
            f"a budget of {options.budget:g} s is too small for {len(variants)} variants; "
            "give more time"
        )
    write_record(path, {**wanted, "steps": steps})
    return steps


def _seconds_a_step(variants: Sequence[Variant], options: VariantOptions) -> float:
    """Time the variant with the most work in it: those with many channels and many blocks."""
    with tempfile.TemporaryDirectory() as folder:
        slowest = max(variants, key=lambda variant: _work(variant, options))
        steps = train(train_options(slowest, options, 10_000), Path(folder) / "timed")
        times = []
        for _ in range(TIMED_STEPS):
            start = time.perf_counter()
            next(steps)
            times.append(time.perf_counter() - start)
        steps.close()
    return float(np.mean(times[1:]))


def _work(variant: Variant, options: VariantOptions) -> float:
    """Estimate the work of a step: 2 levels have a bottleneck of 4 times the pixels."""
    chosen = train_options(variant, options, 10)
    with torch.device("meta"):
        parameters = count_parameters(start_network(chosen))
    return parameters * float(4 ** (3 - chosen.levels))


def _trained(
    variant: Variant, options: VariantOptions, steps: int, run: Path, before: int, total: int
) -> Steps[None]:
    """Train a variant, or go on with it; one that is finished yields once."""
    begun = (run / STATE).exists()
    if not begun:
        # Stopped before anything was kept: it begins anew.
        (run / OPTIONS).unlink(missing_ok=True)
    started = resume(run) if begun else train(train_options(variant, options, steps), run)
    with closing(started) as training:
        for progress in training:
            loss = getattr(progress, "loss", 0.0)
            yield Progress(before + progress.done, total, f"{variant.slug}: loss {loss:.4f}")


def _scores(
    name: str,
    restore: Callable[[Pair], Floats],
    cases: SyntheticCases,
    noises: Iterable[float],
    folder: Path,
) -> Scores:
    """Average the scores over all cases, at every noise; they are kept."""
    tail = "-dual" if cases.dual else ""
    paths = {noise: folder / "scores" / f"{name}{tail}-{noise:g}.json" for noise in noises}
    missing: dict[float, list[list[float]]] = {
        noise: [] for noise, path in paths.items() if not path.exists()
    }
    for index in range(len(cases) if missing else 0):
        case = cases[index]
        for noise, rows in missing.items():
            pair = with_noise(case, noise, (0, index))
            image = restore(pair)
            rows.append([measure(image, pair.sharp) for measure in MEASURES.values()])
    for noise, rows in missing.items():
        means = np.mean(rows, axis=0).tolist()
        write_record(paths[noise], dict(zip(MEASURES, means, strict=True)))
    return {f"{noise:g}": read_record(path) for noise, path in paths.items()}
