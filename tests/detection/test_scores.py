"""Scores against slow, independent counting and against closed forms."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.detection import Confusion, Curve, blurred_mask, score, true_blur

TRUE = np.array([True])
FALSE = np.array([False])


def slow_counts(mask, truth):
    pairs = list(zip(mask, truth, strict=True))
    return [pairs.count(kind) for kind in ((1, 1), (1, 0), (0, 1), (0, 0))]


def slow_f(precision, recall, beta_squared):
    if precision + recall == 0:
        return 0.0
    return (1 + beta_squared) * precision * recall / (beta_squared * precision + recall)


def slow_precision_recall(values, truth, threshold):
    called = [t for v, t in zip(values, truth, strict=True) if v >= threshold]
    return sum(called) / len(called), sum(called) / sum(truth)


def slow_average_precision(values, truth):
    total, before = 0.0, 0.0
    for threshold in sorted(set(values), reverse=True):
        precision, recall = slow_precision_recall(values, truth, threshold)
        total += (recall - before) * precision
        before = recall
    return total


def slow_auc(values, truth):
    blurred = [v for v, t in zip(values, truth, strict=True) if t]
    sharp = [v for v, t in zip(values, truth, strict=True) if not t]
    wins = sum((a > b) + 0.5 * (a == b) for a, b in product(blurred, sharp))
    return wins / (len(blurred) * len(sharp))


# Few different values, so that ties are the rule.
PIXELS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=2, max_size=40).filter(
    lambda pixels: 0 < sum(t for _, t in pixels) < len(pixels)
)


@given(PIXELS)
def test_curves_agree_with_slow_counting(pixels):
    values, truth = ([float(v) / 6 for v, _ in pixels], [t for _, t in pixels])
    curve = Curve.of(np.array(values, np.float64), np.array(truth))
    assert curve.average_precision() == pytest.approx(slow_average_precision(values, truth))
    assert curve.roc_auc() == pytest.approx(slow_auc(values, truth))
    for beta_squared in (0.3, 1, 4):
        tried = {
            threshold: slow_f(*slow_precision_recall(values, truth, threshold), beta_squared)
            for threshold in set(values)
        }
        best = curve.best_f(beta_squared)
        assert best.f_measure == pytest.approx(max(tried.values()))
        assert best.f_measure == pytest.approx(tried[best.threshold])


@given(PIXELS)
def test_masks_agree_with_slow_counting(pixels):
    mask, truth = ([v > 3 for v, _ in pixels], [t for _, t in pixels])
    counts = Confusion.of(np.array(mask), np.array(truth))
    tp, fp, fn, tn = slow_counts(mask, truth)
    assert (
        counts.true_positive,
        counts.false_positive,
        counts.false_negative,
        counts.true_negative,
    ) == (tp, fp, fn, tn)
    assert counts.accuracy == pytest.approx((tp + tn) / len(pixels))
    assert counts.iou == pytest.approx(tp / (tp + fp + fn))
    if tp + fp:
        assert counts.precision == pytest.approx(tp / (tp + fp))
        assert counts.recall == pytest.approx(tp / (tp + fn))
        for beta_squared in (0.3, 1, 2):
            expected = slow_f(counts.precision, counts.recall, beta_squared)
            assert counts.f_measure(beta_squared) == pytest.approx(expected)


def test_closed_forms(rng):
    # Blurred pixels uniform in 0.5..1.5, sharp ones in 0..1: AUC = 1 - 0.5 * 0.5**2.
    n = 20_000
    even = (np.arange(n) + 0.5) / n
    values, truth = np.concatenate([even + 0.5, even]), np.repeat([True, False], n)
    assert Curve.of(values, truth).roc_auc() == pytest.approx(1 - 0.125, abs=1e-4)
    # Everything called blurred: precision is the share p, F1 = 2p / (1 + p).
    constant = Curve.of(np.full(10, 0.4), np.arange(10) < 3)
    assert constant.roc_auc() == 0.5
    assert constant.average_precision() == pytest.approx(0.3)
    assert constant.best_f(1).f_measure == pytest.approx(0.6 / 1.3)
    assert constant.best_f(1).threshold == 0.4
    # A perfect map, and its opposite.
    truth = rng.random(500) < 0.3
    assert Curve.of(truth * 0.5, truth).roc_auc() == 1
    assert Curve.of(truth * 0.5, truth).average_precision() == 1
    assert Curve.of(truth * -0.5, truth).roc_auc() == 0


def test_scores_do_not_depend_on_a_monotone_change_of_scale(rng):
    values, truth = rng.random((30, 40)), rng.random((30, 40)) < 0.4
    first, second = Curve.of(values, truth), Curve.of(values**3, truth)
    assert first.roc_auc() == second.roc_auc()
    assert first.average_precision() == second.average_precision()
    assert first.best_f(0.3).f_measure == second.best_f(0.3).f_measure


@pytest.mark.parametrize(
    ("mask", "truth", "expected"),
    [(FALSE, FALSE, 1), (FALSE, TRUE, 0), (TRUE, FALSE, 0), (TRUE, TRUE, 1)],
)
def test_empty_masks_have_defined_scores(mask, truth, expected):
    counts = Confusion.of(mask, truth)
    for value in (counts.precision, counts.recall, counts.iou, counts.accuracy):
        assert value == expected
    assert counts.f_measure(0.3) == counts.f_measure(1) == expected


def test_truths_of_one_kind():
    values = np.array([0.1, 0.2, 0.2])
    everything = Curve.of(values, np.ones(3, bool))
    assert everything.average_precision() == 1
    assert everything.best_f(0.3) == (1, 0.1)
    with pytest.raises(ImageError, match="sharp"):
        everything.roc_auc()
    nothing = Curve.of(values, np.zeros(3, bool))
    for undefined in (nothing.roc_auc, nothing.average_precision, nothing.best_f):
        with pytest.raises(ImageError, match="blurred"):
            undefined()
    report = score(values, np.zeros(3), "blurred")
    assert report.average_precision is report.roc_auc is None
    assert [row.rule for row in report.rows] == ["midrange", "mean", "otsu"]
    assert score(values, np.ones(3), "blurred").roc_auc is None


def test_polarity_must_be_said_and_turns_the_mask_around():
    drawn = np.array([[0, 255], [255, 0]], np.uint8)
    blurred = true_blur(drawn, "blurred")
    assert blurred.tolist() == [[False, True], [True, False]]
    assert (true_blur(drawn, "sharp") == ~blurred).all()
    with pytest.raises(ConfigError, match="blurred or sharp"):
        true_blur(drawn, "white")
    with pytest.raises(TypeError):
        true_blur(drawn)


@pytest.mark.parametrize(
    ("values", "truth", "word"),
    [
        (np.zeros((2, 2)), np.zeros((2, 3)), "shape"),
        (np.zeros((2, 2)), np.array([[0, 1], [2, 3]]), "one other value"),
        (np.full((2, 2), np.nan), np.eye(2), "NaN"),
        (np.zeros((0, 2)), np.zeros((0, 2)), "empty"),
    ],
)
def test_what_cannot_be_scored(values, truth, word):
    with pytest.raises(ImageError, match=word):
        score(values, truth, "blurred")


@pytest.mark.parametrize("beta_squared", [0, -1, np.nan, np.inf])
def test_beta_must_be_above_zero(beta_squared):
    with pytest.raises(ConfigError):
        Confusion(1, 1, 1, 1).f_measure(beta_squared)


def test_a_report_has_every_rule_the_given_threshold_and_the_best(rng):
    truth = rng.random((40, 50)) < 0.4
    values = np.clip(0.3 * truth + rng.random(truth.shape) * 0.7, 0, 1).astype(np.float32)
    report = score(values, ~truth, "sharp", threshold=0.5)
    rules = [row.rule for row in report.rows]
    assert rules == ["midrange", "mean", "otsu", "fixed", "best F0.3", "best F1"]
    fixed, best = report.rows[3], report.rows[5]
    assert fixed.confusion == Confusion.of(blurred_mask(values, 0.5), truth)
    curve = Curve.of(values, truth)
    assert best.confusion.f_measure(1) == pytest.approx(curve.best_f(1).f_measure)
    assert all(row.confusion.f_measure(1) <= best.confusion.f_measure(1) for row in report.rows)
    plain = report.to_dict()
    assert plain["roc_auc"] == curve.roc_auc()
    assert plain["thresholds"][3]["f0.3"] == fixed.confusion.f_measure(0.3)
    assert plain["blurred in truth"] == pytest.approx(truth.mean())
