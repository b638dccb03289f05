"""Which threshold each rule finds, and what lies above it."""

import numpy as np
import pytest

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.detection import blurred_mask, find_threshold, histogram

CONTRAST_RULES = ("midrange", "mean", "otsu")


@pytest.fixture
def values(rng):
    low, high = rng.uniform(0.1, 0.3, 300), rng.uniform(0.6, 0.9, 100)
    return np.concatenate([low, high]).astype(np.float32).reshape(20, 20)


def test_rules_by_their_formulae(values):
    exact = values.astype(float)
    assert find_threshold(values) == pytest.approx(0.3 * exact.max() + 0.7 * exact.min())
    assert find_threshold(values, "mean") == pytest.approx(1.5 * exact.mean())
    assert find_threshold(values, "fixed", 0.25) == 0.25
    assert blurred_mask(values, find_threshold(values, "otsu")).sum() == 100


def test_no_threshold_lies_beyond_the_scale(values):
    saturated = 1 - values / 4
    assert 1.5 * saturated.mean() > 1
    assert find_threshold(saturated, "mean") == 1
    saturated[3, 4] = 1
    assert blurred_mask(saturated, find_threshold(saturated, "mean")).sum() == 1


def test_otsu_maximises_the_variance_between_both_sides(values):
    def between(threshold):
        high = values >= threshold
        share = high.mean()
        return share * (1 - share) * (values[high].mean() - values[~high].mean()) ** 2

    tried = np.unique(values)[1:]
    best = max(between(threshold) for threshold in tried)
    assert between(find_threshold(values, "otsu")) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("rule", CONTRAST_RULES)
@pytest.mark.parametrize(("level", "all_blurred"), [(0.0, False), (0.1, False), (0.9, True)])
def test_a_map_without_contrast_is_judged_by_the_middle_of_the_scale(rule, level, all_blurred):
    values = np.full((4, 5), level, np.float32)
    threshold = find_threshold(values, rule)
    assert threshold == 0.5
    assert (blurred_mask(values, threshold) == all_blurred).all()


@pytest.mark.parametrize("rule", CONTRAST_RULES)
def test_what_is_not_finite_plays_no_part(rule, values):
    gaps = values.copy()
    gaps[3, 4] = values[3, 4] = 0.2
    padded = np.pad(gaps, 1, constant_values=np.nan)
    padded[0, 0] = np.inf
    assert find_threshold(padded, rule) == pytest.approx(find_threshold(values, rule), rel=1e-6)
    assert not blurred_mask(padded, 0.0)[0, 1:].any()
    assert histogram(padded).counts.sum() == values.size
    with pytest.raises(ImageError, match="finite"):
        find_threshold(np.full((3, 3), np.nan), rule)


def test_a_pixel_at_the_threshold_counts_as_blurred():
    values = np.array([[0.1, 0.3, 0.5]], np.float32)
    assert blurred_mask(values, float(values[0, 1])).tolist() == [[False, True, True]]
    assert blurred_mask(values, 0.3).tolist() == [[False, True, True]]


def test_the_histogram_covers_the_whole_scale(values):
    counts, edges = histogram(values, bins=10)
    assert edges[0] == 0
    assert edges[-1] == 1
    assert counts.tolist() == [int(((values >= a) & (values < a + 0.1)).sum()) for a in edges[:-1]]


@pytest.mark.parametrize(
    ("rule", "threshold"), [("best", None), ("fixed", None), ("otsu", 0.4), ("fixed", np.nan)]
)
def test_rules_that_make_no_sense(values, rule, threshold):
    with pytest.raises(ConfigError):
        find_threshold(values, rule, threshold)
