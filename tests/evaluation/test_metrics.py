"""The measures against scikit-image, closed forms and plain loops."""

import subprocess
import sys

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from napari_kpac import KpacError
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.metrics import BINS, bin_scores, column, inside


@pytest.fixture(scope="module")
def pair():
    sharp = data.coffee()[50:146, 200:320].astype(np.float64) / 255
    noise = np.random.default_rng(0).normal(0, 0.05, sharp.shape)
    return np.clip(sharp + noise, 0, 1), sharp


def test_measures_agree_with_scikit_image(pair):
    result, sharp = pair
    expected = peak_signal_noise_ratio(sharp, result, data_range=1)
    assert metrics.psnr(result, sharp) == pytest.approx(expected, abs=1e-6)
    for preset, data_range in (("default", 1), ("paper", 2)):
        expected = structural_similarity(sharp, result, data_range=data_range, channel_axis=2)
        assert metrics.ssim(result, sharp, preset) == pytest.approx(expected, abs=1e-6)
    grey = structural_similarity(sharp[..., 0], result[..., 0], data_range=1)
    assert metrics.ssim(result[..., 0], sharp[..., 0]) == pytest.approx(grey, abs=1e-6)


def test_ssim_agrees_with_its_formula_in_one_window(pair):
    result, sharp = (image[40:47, 40:47, 1] for image in pair)
    c1, c2 = 0.01**2, 0.03**2
    covariance = np.cov(result.ravel(), sharp.ravel())  # of samples, as scikit-image has it
    expected = ((2 * result.mean() * sharp.mean() + c1) * (2 * covariance[0, 1] + c2)) / (
        (result.mean() ** 2 + sharp.mean() ** 2 + c1) * (np.trace(covariance) + c2)
    )
    assert metrics.ssim(result, sharp) == pytest.approx(expected, abs=1e-6)


def test_closed_forms():
    flat = np.full((16, 20, 3), 0.5)
    assert metrics.psnr(flat + 0.1, flat) == pytest.approx(20, abs=1e-6)
    assert metrics.mae(flat - 0.1, flat) == pytest.approx(0.1, abs=1e-6)
    assert metrics.psnr(flat, flat) == float("inf")
    assert metrics.ssim(flat, flat) == pytest.approx(1, abs=1e-6)
    # Two flat images differ in their means alone: the formula's first factor.
    a, b = 0.25, 0.75
    expected = (2 * a * b + 1e-4) / (a * a + b * b + 1e-4)
    assert metrics.ssim(flat / 2, flat * 1.5) == pytest.approx(expected, abs=1e-6)


def test_values_are_clipped_and_not_rounded():
    white = np.ones((8, 8))
    assert metrics.psnr(white + 3, white) == float("inf")
    assert metrics.mae(white - 1.5, white) == pytest.approx(1)
    assert metrics.mae(white - 1e-5, white) == pytest.approx(1e-5)


def test_a_mask_counts_its_pixels_alone(pair):
    result, sharp = pair
    where = np.zeros(sharp.shape[:2], bool)
    where[10:20, 30:50] = True
    part = result[10:20, 30:50], sharp[10:20, 30:50]
    assert metrics.psnr(result, sharp, where) == pytest.approx(metrics.psnr(*part), abs=1e-9)
    assert metrics.mae(result, sharp, where) == pytest.approx(metrics.mae(*part), abs=1e-9)


def test_a_fit_finds_gain_and_offset_of_each_channel(pair):
    result, sharp = pair
    exposed = sharp * (0.5, 1.4, 0.8) + (0.2, -0.3, 0.0)
    np.testing.assert_allclose(metrics.fitted(exposed, sharp), sharp, atol=1e-12)
    found = metrics.fitted(result, sharp)
    for channel in range(3):
        line = np.polyfit(result[..., channel].ravel(), sharp[..., channel].ravel(), 1)
        expected = np.polyval(line, result[..., channel])
        np.testing.assert_allclose(found[..., channel], expected, atol=1e-9)
    # Grey images have one channel; what has no contrast becomes the mean.
    np.testing.assert_allclose(metrics.fitted(3 * sharp[..., 0], sharp[..., 0]), sharp[..., 0])
    flat = metrics.fitted(np.full((4, 5), 0.3), np.arange(20.0).reshape(4, 5))
    np.testing.assert_allclose(flat, 9.5)
    with pytest.raises(KpacError, match="shapes"):
        metrics.fitted(sharp, sharp[1:])


@pytest.mark.parametrize(
    ("result", "what"),
    [
        (np.zeros((8, 9)), "shapes"),
        (np.full((8, 8), np.nan), "NaN"),
        (np.zeros((8, 8), complex), "complex"),
    ],
)
def test_what_cannot_be_compared_is_refused(result, what):
    with pytest.raises(KpacError, match=what):
        metrics.psnr(result, np.zeros((8, 8)))


def test_ssim_refuses_small_images_and_unknown_presets():
    with pytest.raises(KpacError, match="at least 7"):
        metrics.ssim(np.zeros((6, 9)), np.zeros((6, 9)))
    with pytest.raises(KpacError, match="own"):
        metrics.ssim(np.zeros((9, 9)), np.zeros((9, 9)), "own")


def test_bins_pool_their_pixels(pair):
    result, sharp = pair
    radius = np.zeros(sharp.shape[:2], np.float32)
    radius[:, 20:40] = -1.0  # near; the lower edge belongs to the bin
    radius[:, 40:60] = 3.0
    radius[:, 60:] = 12.0
    radius[0, 0] = 6.0  # less than one pixel in a hundred
    scores = bin_scores(result, sharp, radius)
    for where, columns in ((BINS[1], slice(20, 40)), (BINS[2], slice(40, 60))):
        part = result[:, columns], sharp[:, columns]
        assert scores[column("psnr", where)] == pytest.approx(metrics.psnr(*part), abs=1e-6)
        assert scores[column("mae", where)] == pytest.approx(metrics.mae(*part), abs=1e-6)
    _, full = structural_similarity(sharp, result, data_range=1, channel_axis=2, full=True)
    expected = full[:, 60:].mean()
    assert scores[column("ssim", BINS[4])] == pytest.approx(expected, abs=1e-6)
    assert column("psnr", BINS[3]) not in scores
    assert inside(radius, 4, 8) is None


def test_measures_need_no_torch():
    code = (
        "import sys; from napari_kpac.evaluation.metrics import BINS, bin_scores, psnr;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
