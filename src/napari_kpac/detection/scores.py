"""How well a blur map agrees with a mask drawn by hand.

Blurred is always the positive class. Which class the mask marks must be said (polarity),
it is never guessed. Not for: reading data sets (datasets, evaluation).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.options import ThresholdRule
from napari_kpac.detection.thresholds import Values, blurred_mask, find_threshold

Polarity = Literal["blurred", "sharp"]
"""What the marked (non-zero) pixels of a mask are."""
Mask = npt.NDArray[np.bool_]

BETAS_SQUARED = (0.3, 1.0)
RULES: tuple[ThresholdRule, ...] = ("midrange", "mean", "otsu")


@dataclass(frozen=True)
class Confusion:
    """Pixels counted by what they are and what they were taken for.

    Where a denominator is 0 there is nothing to be found or nothing was claimed: a score is
    then 1 if both masks are empty (they agree), and 0 otherwise.
    """

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int

    @classmethod
    def of(cls, mask: Mask, truth: Mask) -> Confusion:
        """Count pixels; in both masks True means blurred."""
        _check_shapes(mask, truth)
        both = int(np.count_nonzero(mask & truth))
        claimed, real = int(np.count_nonzero(mask)), int(np.count_nonzero(truth))
        return cls(both, claimed - both, real - both, mask.size - claimed - real + both)

    @property
    def precision(self) -> float:
        """Share of what was called blurred that is."""
        return self._share(self.true_positive, self.true_positive + self.false_positive)

    @property
    def recall(self) -> float:
        """Share of what is blurred that was called so."""
        return self._share(self.true_positive, self.true_positive + self.false_negative)

    @property
    def accuracy(self) -> float:
        """Share of pixels that were called what they are."""
        right = self.true_positive + self.true_negative
        return right / (right + self.false_positive + self.false_negative)

    @property
    def iou(self) -> float:
        """Intersection over union of what is blurred and what was called so."""
        wrong = self.false_positive + self.false_negative
        return self._share(self.true_positive, self.true_positive + wrong)

    def f_measure(self, beta_squared: float = 1.0) -> float:
        """Return (1 + b2) * precision * recall / (b2 * precision + recall)."""
        hits = (1 + _checked(beta_squared)) * self.true_positive
        return self._share(hits, hits + beta_squared * self.false_negative + self.false_positive)

    def _share(self, part: float, whole: float) -> float:
        if whole:
            return part / whole
        return float(self.false_positive + self.false_negative == 0)


@dataclass(frozen=True, eq=False)
class Curve:
    """What every threshold of a map would find; pixels of equal value are found together."""

    thresholds: npt.NDArray[np.float64]
    """All values that occur, the largest first."""
    true_positives: npt.NDArray[np.int64]
    """Blurred pixels with at least that value."""
    false_positives: npt.NDArray[np.int64]
    """Sharp pixels with at least that value."""

    @classmethod
    def of(cls, values: Values, truth: Mask) -> Curve:
        """Count for all thresholds; True in the truth means blurred."""
        values = np.asarray(values)
        _check_shapes(values, truth)
        if np.isnan(values).any():
            raise ImageError("a map with NaN cannot be scored; fill the gaps or crop them off")
        order = np.argsort(values, axis=None)[::-1]
        falling, hits = values.reshape(-1)[order], truth.reshape(-1)[order]
        last = np.append(np.flatnonzero(np.diff(falling)), falling.size - 1)
        found = np.cumsum(hits, dtype=np.int64)[last]
        return cls(falling[last].astype(np.float64), found, last + 1 - found)

    @property
    def blurred(self) -> int:
        """Number of blurred pixels."""
        return int(self.true_positives[-1])

    @property
    def sharp(self) -> int:
        """Number of sharp pixels."""
        return int(self.false_positives[-1])

    def average_precision(self) -> float:
        """Return the mean of the precision over the recall, without interpolation.

        A truth without blurred pixels has no recall and is an error; one without sharp
        pixels gives 1. A constant map gives the share of blurred pixels.
        """
        self._need("average precision", self.blurred, "blurred")
        precision = self.true_positives / (self.true_positives + self.false_positives)
        gained = np.diff(self.true_positives, prepend=0)
        return float(np.dot(gained, precision) / self.blurred)

    def roc_auc(self) -> float:
        """Return the chance that a blurred pixel has a larger value than a sharp one.

        Ties count half. Needs both kinds of pixels. A constant map gives 0.5.
        """
        self._need("ROC AUC", self.blurred, "blurred")
        self._need("ROC AUC", self.sharp, "sharp")
        before = self.true_positives - np.diff(self.true_positives, prepend=0)
        stepped = np.diff(self.false_positives, prepend=0)
        twice = np.dot(stepped.astype(np.float64), (before + self.true_positives))
        return float(twice / (2 * self.blurred * self.sharp))

    def best_f(self, beta_squared: float = 1.0) -> BestF:
        """Return the largest F-measure over all thresholds, and the largest such threshold.

        A truth without blurred pixels is an error.
        """
        self._need("the best F-measure", self.blurred, "blurred")
        hits = (1 + _checked(beta_squared)) * self.true_positives
        missed = self.blurred - self.true_positives
        measures = hits / (hits + beta_squared * missed + self.false_positives)
        best = int(np.argmax(measures))
        return BestF(float(measures[best]), float(self.thresholds[best]))

    def _need(self, score: str, count: int, kind: str) -> None:
        if not count:
            raise ImageError(f"{score} is not defined: no pixel of the true mask is {kind}")


class BestF(NamedTuple):
    """The largest F-measure and where it is reached."""

    f_measure: float
    threshold: float


@dataclass(frozen=True)
class ScoreRow:
    """Scores of a map under one threshold."""

    rule: str
    """The rule that gave the threshold; ``best F`` with its beta^2 for the best there is."""
    threshold: float
    confusion: Confusion

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON or a table."""
        counts = self.confusion
        return {
            "rule": self.rule,
            "threshold": self.threshold,
            "precision": counts.precision,
            "recall": counts.recall,
            **{f"f{beta:g}": counts.f_measure(beta) for beta in BETAS_SQUARED},
            "accuracy": counts.accuracy,
            "iou": counts.iou,
        }


@dataclass(frozen=True)
class ScoreReport:
    """All scores of a map against a mask."""

    polarity: Polarity
    """What the mask marked."""
    blurred: float
    """Share of pixels that are blurred in truth."""
    rows: tuple[ScoreRow, ...]
    average_precision: float | None
    """None where it is not defined: nothing is blurred in truth."""
    roc_auc: float | None
    """None where it is not defined: everything or nothing is blurred in truth."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "polarity": self.polarity,
            "blurred in truth": self.blurred,
            "average_precision": self.average_precision,
            "roc_auc": self.roc_auc,
            "thresholds": [row.to_dict() for row in self.rows],
        }


def true_blur(truth: npt.ArrayLike, polarity: Polarity) -> Mask:
    """Return a mask that is True where it is blurred.

    Parameters
    ----------
    truth
        Booleans, or numbers of which one kind is 0 and the other any one number (1, 255).
        More than two values are an error, for what they would mean is a guess.
    polarity
        What the non-zero pixels are: ``blurred`` or ``sharp``.
    """
    if polarity not in get_args(Polarity):
        raise ConfigError(f"polarity={polarity!r}: say what the mask marks, blurred or sharp")
    given = np.asarray(truth)
    if not given.size:
        raise ImageError("the true mask is empty")
    marked: Mask = given != 0
    others = given[marked]
    if others.size and not (others == others[0]).all():
        raise ImageError(
            "a true mask holds 0 and one other value, this one holds more; compare it with a "
            "number or a label first, for example mask > 127"
        )
    return marked if polarity == "blurred" else ~marked


def score(
    values: Values,
    truth: npt.ArrayLike,
    polarity: Polarity,
    *,
    rules: Iterable[ThresholdRule] = RULES,
    threshold: float | None = None,
) -> ScoreReport:
    """Score a map against a mask, under every rule, a given threshold, and the best ones."""
    real = true_blur(truth, polarity)
    curve = Curve.of(values, real)
    chosen: list[tuple[str, float]] = [(rule, find_threshold(values, rule)) for rule in rules]
    if threshold is not None:
        chosen.append(("fixed", float(threshold)))
    if curve.blurred:
        chosen += [(f"best F{b:g}", curve.best_f(b).threshold) for b in BETAS_SQUARED]
    return ScoreReport(
        polarity=polarity,
        blurred=curve.blurred / real.size,
        rows=tuple(
            ScoreRow(rule, used, Confusion.of(blurred_mask(values, used), real))
            for rule, used in chosen
        ),
        average_precision=curve.average_precision() if curve.blurred else None,
        roc_auc=curve.roc_auc() if curve.blurred and curve.sharp else None,
    )


def _check_shapes(values: npt.NDArray[Any], truth: npt.NDArray[Any]) -> None:
    if values.shape != truth.shape:
        raise ImageError(
            f"the map has shape {values.shape} and the true mask {truth.shape}; they must agree"
        )
    if not values.size:
        raise ImageError("the map is empty")


def _checked(beta_squared: float) -> float:
    if not beta_squared > 0 or not np.isfinite(beta_squared):
        raise ConfigError(f"beta_squared={beta_squared!r}: must be a number above 0")
    return beta_squared
