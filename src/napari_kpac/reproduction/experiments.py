"""The paper's experiments on variants of the network: what is trained, and what the paper got.

Not for: training them (variants).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from napari_kpac.core.errors import ConfigError
from napari_kpac.evaluation import paper


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


def _two(slug: str, printed: paper.PaperRow, **changes: Any) -> Variant:
    return Variant(slug, printed.label, {"levels": 2, **changes}, {0.0: printed})


_UNSHARED, _SHARED = paper.WEIGHT_SHARING
_BASELINE, _ACS, _SHAPE, _SCALE, _FULL = paper.ABLATION
_PRINTED = {row.label: row for row in paper.COMPARISON}
_THREE = Variant("3-level", "KPAC (3-level)", {"levels": 3}, {0.0: _PRINTED["KPAC (3-level)"]})


def _noisy(slug: str, label: str, **changes: Any) -> Variant:
    printed = {
        sigma: paper.PaperRow(label, psnr=psnr) for sigma, psnr in paper.NOISE[label].items()
    }
    return Variant(slug, label, {"levels": 2, **changes}, printed)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "weight-sharing",
            "Effect of weight sharing (2-level)",
            (_two("unshared", _UNSHARED, shared_kernels=False), _two("full", _SHARED)),
        ),
        Experiment(
            "ablation",
            "Ablation (2-level)",
            (
                _two("residual", _BASELINE, network="residual"),
                _two("acs", _ACS, scale_attention=False, shape_attention=False),
                _two("acs-shape", _SHAPE, scale_attention=False),
                _two("acs-scale", _SCALE, shape_attention=False),
                _two("full", _FULL),
            ),
        ),
        Experiment(
            "num-blocks",
            "Number of KPAC blocks (2-level)",
            tuple(
                _two("full" if blocks == 2 else f"blocks-{blocks}", printed, blocks=blocks)
                for blocks, printed in enumerate(paper.NUMBER_OF_BLOCKS, start=1)
            ),
        ),
        Experiment(
            "noise",
            "Sensitivity to noise (2-level)",
            (
                _noisy("full", "without noise augmentation"),
                _noisy("noisy", "with noise augmentation", noise=0.03, noise_probability=1.0),
            ),
            noises=(0.0, 1.0, 3.0, 5.0),
        ),
        Experiment(
            "levels",
            "Levels of the encoder and decoder",
            (
                _two("full", _PRINTED["KPAC (2-level)"]),
                _THREE,
            ),
        ),
        Experiment(
            "dual",
            "Dual-pixel input (3-level)",
            (
                _THREE,
                Variant(
                    "dual",
                    "KPAC (dual)",
                    {"levels": 3, "dual": True},
                    {0.0: _PRINTED["KPAC (dual)"]},
                ),
            ),
            dual=True,
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """Look an experiment up."""
    if name not in EXPERIMENTS:
        raise ConfigError(f"no experiment is called {name!r}; choose {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name]
