"""Accuracy of the estimators of defocus: all of them on the same scenes whose radii are known.

Not for: deblurring with their maps (study), or masks that people have drawn (study).

The rules. Truth is the radius of the fixed benchmark's scenes, seeded; sigma is half the radius.
Every fourth pixel of every fourth row is taken, all scenes together. The mean error is that of
sigma in pixels, for estimators that return pixels; over all radii, and by radius. Rank correlation
is Spearman's between map and truth. ROC AUC is the chance that a pixel blurred by more than 2 px
has a larger value than one blurred by less than 0.5 px: over all pixels, and over those with
texture alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.datasets.pairs import Pair
from napari_kpac.detection import detect
from napari_kpac.detection.scores import Curve
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.evaluation.attention import BLURRED_ABOVE_PX, SHARP_BELOW_PX, STRIDE_PX
from napari_kpac.evaluation.benchmark import SyntheticCases, textured
from napari_kpac.evaluation.metrics import BINS
from napari_kpac.evaluation.tables import Table, decimal

Values = npt.NDArray[np.float32]

CONSTANT = "median everywhere"
"""A map that says the same everywhere: the median of the truth, which nobody knows beforehand."""


@dataclass(frozen=True)
class Accuracy:
    """How well one estimator's maps agree with the truth; None where that is not defined."""

    name: str
    error: float | None
    """Mean absolute error of sigma in pixels."""
    errors: Mapping[str, float] = field(default_factory=dict)
    """The same by radius."""
    rank_correlation: float | None = None
    roc_auc: float | None = None
    roc_auc_texture: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)


def accuracy_steps(
    root: Path,
    split: str = "val",
    *,
    limit: int | None = None,
    seed: int = 0,
    model: str = "default",
    estimator_models: Mapping[str, str] | None = None,
    device: str = "auto",
) -> Steps[list[Accuracy]]:
    """Measure all estimators on the benchmark's scenes; yields after every map.

    Parameters
    ----------
    root, split, limit, seed
        Of the benchmark, see :class:`SyntheticCases`.
    model
        Of alpha_1.
    estimator_models
        Models of estimators that are networks, by the estimator's name; those without one are
        left out.
    device
        Where networks run.
    """
    cases, weights = SyntheticCases(root, split, limit=limit, seed=seed), estimator_models or {}
    ready = {
        each.label: prepare_estimator(each.name, weights.get(each.name, "default"), device)
        for each in ESTIMATORS
        if not each.needs_model or each.name in weights
    }
    others: dict[str, dict[str, Any]] = {
        "alpha_1": {"model": model, "device": device},
        "local variance": {"source": "variance"},
    }
    found: dict[str, list[Values]] = {name: [] for name in (*ready, *others)}
    radii, textures = [], []
    done, total = 0, len(cases) * len(found)
    for index in range(len(cases)):
        pair = cases[index]
        for name in found:
            if name in ready:
                values = finish(ready[name].estimate(np.ascontiguousarray(pair.blurred)))
            else:
                values = detect(pair.blurred, range="unit", rgb=True, **others[name]).values
            found[name].append(_sampled(values))
            done += 1
            yield Progress(done, total, f"{pair.name}: {name}")
        radii.append(_sampled(_radius(pair)))
        textures.append(_sampled(textured(pair.sharp)))
    radius, texture = np.concatenate(radii), np.concatenate(textures)
    rows = [
        accuracy(name, np.concatenate(maps), radius, texture, in_pixels=name in ready)
        for name, maps in found.items()
    ]
    same = np.full_like(radius, np.median(radius) / 2)
    return [*rows, accuracy(CONSTANT, same, radius, texture, in_pixels=True)]


def accuracy(
    name: str,
    values: Values,
    radius: Values,
    texture: npt.NDArray[np.bool_],
    *,
    in_pixels: bool,
) -> Accuracy:
    """Compare values of a map with the radii of the same pixels."""
    error = np.abs(values - radius / 2)
    errors = {
        where.label: float(error[here].mean())
        for where in BINS
        if (here := (radius >= where.low) & (radius < where.high)).any()
    }
    varies = float(values.min()) < float(values.max())
    correlation = float(spearmanr(values, radius).statistic) if varies else None
    return Accuracy(
        name,
        float(error.mean()) if in_pixels else None,
        errors if in_pixels else {},
        correlation,
        _roc_auc(values, radius),
        _roc_auc(values[texture], radius[texture]),
    )


def accuracy_table(rows: Sequence[Accuracy]) -> Table:
    """Return the accuracies as text."""
    bins = [where.label for where in BINS if any(where.label in row.errors for row in rows)]
    return Table(
        "Estimators of defocus on scenes whose radii are known",
        (
            "estimator",
            "mean error (px of sigma)",
            *(f"radius {label} px" for label in bins),
            "rank correlation",
            "ROC AUC",
            "ROC AUC, texture",
        ),
        [
            (
                row.name,
                decimal(row.error, 2),
                *(decimal(row.errors.get(label), 2) for label in bins),
                decimal(row.rank_correlation, 3),
                decimal(row.roc_auc, 3),
                decimal(row.roc_auc_texture, 3),
            )
            for row in rows
        ],
        "sigma is half the radius; alpha_1 and local variance have no unit, so there is no error "
        "in pixels. AUC: blurred (above 2 px) against sharp (below 0.5 px)",
    )


def _radius(pair: Pair) -> Values:
    assert pair.radius is not None  # noqa: S101 - the benchmark's scenes have one
    size: Values = np.abs(pair.radius)
    return size


def _sampled(values: Any) -> Any:
    return np.ascontiguousarray(values[::STRIDE_PX, ::STRIDE_PX]).ravel()


def _roc_auc(values: Values, radius: Values) -> float | None:
    kept = (radius > BLURRED_ABOVE_PX) | (radius < SHARP_BELOW_PX)
    blurred = radius[kept] > BLURRED_ABOVE_PX
    if blurred.all() or not blurred.any():
        return None
    return float(Curve.of(values[kept], blurred).roc_auc())
