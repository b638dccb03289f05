"""Inverse kernels: the paper's Eq. 4 and Eq. 5, and refusals."""

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio

from napari_kpac import KpacError
from napari_kpac.optics import (
    Aperture,
    accuracy,
    apply_kernel,
    blend,
    compare_inverses,
    dilate,
    fit_weights,
    inverse_kernels,
    inverse_on_grid,
    psf,
    upsample,
    wiener_inverse,
)

EPSILON = 0.01
KERNELS = {"gaussian": psf(Aperture("gaussian"), 2.0), "disc": psf(Aperture("disc"), 2.0)}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
scales = pytest.mark.parametrize("scale", [3, 4, 5])


@pytest.fixture(scope="module")
def sharp():
    return data.camera()[100:400, 100:420] / 255


def psnr(first, second):
    return peak_signal_noise_ratio(first, second, data_range=1.0)


def embedded(kernel, size):
    """Put a kernel into the middle of a square of zeros."""
    return np.pad(kernel, (size - len(kernel)) // 2)


@kernels
@pytest.mark.parametrize("epsilon", [0.1, 0.01, 0.001])
def test_the_support_grows_until_the_sum_is_right(kernel, epsilon):
    inverse = wiener_inverse(kernel, epsilon)
    assert inverse.sum() == pytest.approx(1 / (1 + epsilon), rel=0.01)
    assert inverse.shape[0] % 2 == 1
    # A smaller crop would not have done, whatever the sum at some sizes in between.
    if inverse.shape[0] > kernel.shape[0]:
        smaller = inverse[1:-1, 1:-1].sum()
        assert abs(smaller * (1 + epsilon) - 1) > 0.01


def test_a_disc_with_little_noise_needs_far_more_than_41_pixels():
    assert wiener_inverse(KERNELS["disc"], 0.001).shape[0] > 41


@kernels
@scales
def test_with_fourier_upsampling_eq_4_holds_to_float_precision(kernel, scale):
    grid = embedded(kernel, 41)
    left = inverse_on_grid(upsample(grid, scale, "fourier"), EPSILON)
    right = upsample(inverse_on_grid(grid, EPSILON), scale, "fourier")
    np.testing.assert_allclose(left, right, atol=1e-14)
    assert np.abs(right).max() > 0.01


@kernels
@scales
def test_with_lanczos_the_sides_of_eq_4_and_dilated_kernels_agree(kernel, scale, sharp):
    blurred = apply_kernel(sharp, upsample(kernel, scale))
    found = compare_inverses(blurred, inverse_kernels(kernel, scale, EPSILON))
    assert found.direct_to_upsampled > 40
    assert found.upsampled_to_dilated > 40
    assert psnr(found.by_direct, found.by_upsampled) == pytest.approx(found.direct_to_upsampled)
    for result in (found.by_direct, found.by_upsampled, found.by_dilated):
        assert psnr(sharp, result) > psnr(sharp, blurred) + 1


@pytest.mark.parametrize(
    "triple", [(3, 3.4, 4), (3, 3.5, 4), (3, 3.6, 4), (2, 2.6, 3), (1, 1.7, 2)]
)
@kernels
def test_eq_5_blends_neighbouring_scales(kernel, triple, sharp):
    low, between, high = triple
    inverse = wiener_inverse(kernel, EPSILON)
    blurred = apply_kernel(sharp, upsample(kernel, between))
    target = apply_kernel(blurred, upsample(inverse, between))
    for made in (lambda s: upsample(inverse, s), lambda s: dilate(inverse, s)):
        images = [apply_kernel(blurred, made(s)) for s in (low, high)]
        weights = fit_weights(images, target)
        assert (weights >= 0).all()
        equal, fitted = blend(images, (0.5, 0.5)), blend(images, weights)
        assert ((fitted - target) ** 2).sum() <= ((equal - target) ** 2).sum() * (1 + 1e-9)
        assert accuracy(equal, target).value > 0.85
        # The accuracy is not what least squares minimise, so it may fall by a hair.
        assert accuracy(fitted, target).value >= accuracy(equal, target).value - 1e-3


@pytest.mark.parametrize("method", ["lanczos", "fourier"])
def test_upsampling_keeps_the_sum_and_widens(method):
    kernel = embedded(KERNELS["gaussian"], 21)
    for scale in (2, 3, 5):
        large = upsample(kernel, scale, method)
        assert large.sum() == pytest.approx(1, abs=1e-3)
        # Every scale-th value is one of the small kernel's, over scale squared.
        middle, own = np.array(large.shape) // 2, 10
        found = large[middle[0] % scale :: scale, middle[1] % scale :: scale] * scale**2
        start = (middle[0] - middle[0] % scale) // scale - own
        cut = found[start : start + 21, start : start + 21]
        np.testing.assert_allclose(cut, kernel, atol=1e-12)


def test_scale_one_changes_nothing():
    kernel = KERNELS["disc"]
    np.testing.assert_allclose(upsample(kernel, 1, "fourier"), kernel, atol=1e-15)
    np.testing.assert_allclose(upsample(kernel, 1)[2:-2, 2:-2], kernel, atol=1e-15)
    np.testing.assert_array_equal(dilate(kernel, 1), kernel)


def test_dilation_inserts_zeros():
    kernel = np.arange(9.0).reshape(3, 3)
    spread = dilate(kernel, 3)
    assert spread.shape == (7, 7)
    np.testing.assert_array_equal(spread[::3, ::3], kernel)
    assert spread.sum() == kernel.sum()


def test_mirrored_edges_are_restored_like_the_rest(sharp):
    kernel = upsample(KERNELS["gaussian"], 3)
    restored = apply_kernel(apply_kernel(sharp, kernel), wiener_inverse(kernel, 1e-3))
    error = (restored - sharp) ** 2
    assert error[:8].mean() < 4 * error.mean()


def test_convolution_is_what_it_says():
    image = np.random.default_rng(0).uniform(size=(9, 8, 3))
    kernel = np.zeros((3, 3))
    kernel[1, 2] = 1
    np.testing.assert_allclose(apply_kernel(image, kernel)[:, 1:], image[:, :-1], atol=1e-12)
    even = np.zeros((4, 4))
    even[2, 2] = 1
    np.testing.assert_allclose(apply_kernel(image, even), image, atol=1e-12)


def test_the_accuracy_leaves_small_targets_out():
    target = np.array([1.0, 0.01, -1.0, 0.5])
    score = accuracy(np.array([1.1, 99.0, -1.0, 0.5]), target)
    assert score.value == pytest.approx(1 - 0.1 / 3)
    assert score.left_out == 0.25


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wiener_inverse(np.ones((3, 3))),
        lambda: wiener_inverse(np.ones((4, 4)) / 16),
        lambda: wiener_inverse(np.full((3, 3), np.nan)),
        lambda: wiener_inverse(np.zeros((0, 0))),
        lambda: wiener_inverse(KERNELS["disc"], 0.0),
        lambda: wiener_inverse(KERNELS["disc"], float("nan")),
        lambda: wiener_inverse(KERNELS["disc"], 1e-12),
        lambda: upsample(KERNELS["disc"], 0.5),
        lambda: upsample(KERNELS["disc"], 2, "cubic"),
        lambda: upsample(KERNELS["disc"], 1.3, "fourier"),
        lambda: dilate(KERNELS["disc"], 1.5),
        lambda: dilate(KERNELS["disc"], 0),
        lambda: apply_kernel(np.zeros((0, 4)), KERNELS["disc"]),
        lambda: apply_kernel(np.zeros(4), KERNELS["disc"]),
        lambda: apply_kernel(np.full((4, 4), np.inf), KERNELS["disc"]),
        lambda: blend([np.zeros(3)], (1, 2)),
        lambda: blend([], ()),
        lambda: blend([np.zeros(3), np.zeros(4)], (1, 2)),
        lambda: fit_weights([np.zeros(3)], np.zeros(4)),
        lambda: accuracy(np.zeros(3), np.zeros(4)),
        lambda: accuracy(np.zeros(3), np.zeros(3)),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(KpacError):
        wrong()
