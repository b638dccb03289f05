"""Classical deblurring against truth: defocus maps, deconvolution, and the two together."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.metrics import peak_signal_noise_ratio

from napari_kpac import KpacError
from napari_kpac.optics import (
    TWO_STEP_SETTINGS,
    Aperture,
    TwoStepOptions,
    deconvolve,
    defocus,
    defocus_map,
    psf,
    radius_map,
    restore_steps,
    two_step,
)
from napari_kpac.optics.deconvolution import shrink
from napari_kpac.optics.edge_aware import smooth_along
from napari_kpac.optics.pixels import to_linear, to_srgb

EXPONENTS = (1 / 2, 2 / 3, 4 / 5, 1.0, 1.5)


def psnr(first, second, top=1.0):
    return peak_signal_noise_ratio(first, second, data_range=top)


def blurred_edge(sigma, angle, low=0.2, high=0.8, size=120):
    y, x = np.mgrid[:size, :size] - (size - 1) / 2
    turned = np.cos(np.deg2rad(angle)) * x + np.sin(np.deg2rad(angle)) * y
    light = np.where(turned > 0, to_linear(np.array(high)), to_linear(np.array(low)))
    return to_srgb(gaussian_filter(light, sigma, mode="nearest"))


@pytest.mark.parametrize("sigma", [1.0, 1.5, 2.0, 3.0, 4.0])
@pytest.mark.parametrize("angle", [0, 30, 90, 135])
def test_blur_at_step_edges_is_estimated_within_15_percent(sigma, angle):
    encoded = np.rint(blurred_edge(sigma, angle) * 255).astype(np.uint8)
    found = defocus_map(encoded)
    assert found.edges.sum() > 50
    errors = np.abs(found.at_edges[found.edges] / sigma - 1)
    assert np.median(errors) < 0.15
    assert np.median(found.sigma) == pytest.approx(sigma, rel=0.2)


def test_a_map_tells_blurred_from_sharp():
    photo = data.astronaut()[:256, :320]
    radius = np.zeros(photo.shape[:2])
    radius[:, 160:] = 6.0
    sigma = defocus_map(defocus(photo, radius, "gaussian").image).sigma
    assert sigma[:, 180:].mean() > sigma[:, :140].mean() + 1


def test_a_image_without_edges_has_no_blur_to_show():
    found = defocus_map(np.full((40, 50, 3), 0.5))
    assert not found.edges.any()
    assert (found.sigma == 0).all()


def test_smoothing_stops_at_edges_of_the_guide():
    values = np.zeros((20, 40, 1), dtype=np.float32)
    values[:, 20:] = 1
    guide = values[:, :, 0]
    kept = smooth_along(values, guide, space=10, range_=0.05)
    mixed = smooth_along(values, np.zeros_like(guide), space=10, range_=0.05)
    np.testing.assert_allclose(kept, values, atol=0.01)
    assert np.abs(mixed - values).max() > 0.3


@pytest.mark.parametrize("exponent", EXPONENTS)
@pytest.mark.parametrize("beta", [1.0, 8.0, 200.0])
def test_the_gradient_step_finds_the_minimum(exponent, beta):
    gradient = np.linspace(-1.5, 1.5, 61)
    found = shrink(gradient, beta, exponent)

    def cost(w, v):
        return np.abs(w) ** exponent + beta / 2 * (w - v) ** 2

    grid = np.linspace(-1.5, 1.5, 6001)
    best = cost(grid[:, None], gradient).min(axis=0)
    assert (cost(found, gradient) <= best + 1e-3).all()


@pytest.mark.parametrize("beta", [1.0, 8.0, 64.0])
def test_the_gradient_step_agrees_with_the_quartic_for_two_thirds(beta):
    values = np.linspace(0, 2, 41)
    for v, found in zip(values[1:], shrink(values, beta, 2 / 3)[1:], strict=True):
        roots = np.roots([1, -3 * v, 3 * v**2, -(v**3), 8 / (27 * beta**3)])
        real = roots[np.abs(roots.imag) < 1e-6].real
        usable = real[(real > v / 2) & (real < v)]
        assert found == pytest.approx(usable.max() if usable.size else 0, abs=1e-3)


@pytest.mark.parametrize("kind", ["disc", "gaussian"])
@pytest.mark.parametrize("name", ["camera", "astronaut"])
def test_deconvolution_with_the_true_kernel_gains_two_decibels(kind, name):
    sharp = getattr(data, name)()[40:240, 120:340]
    made = defocus(sharp, 4.0, kind)
    light = deconvolve(to_linear(made.image / 255), psf(Aperture(kind), 4.0))
    restored = to_srgb(np.clip(light, 0, 1))
    assert psnr(sharp / 255, restored) > psnr(sharp / 255, made.image / 255) + 2


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_every_exponent_deblurs(exponent):
    sharp = data.camera()[100:260, 150:330] / 255
    kernel = psf(Aperture(), 4.0)
    blurred = defocus(sharp, 4.0, linear=True).image
    restored = deconvolve(blurred, kernel, exponent=exponent)
    assert restored.shape == sharp.shape
    assert psnr(sharp, np.clip(restored, 0, 1)) > psnr(sharp, blurred) + 2


@pytest.fixture(scope="module", params=["tilted", "objects"])
def scene(request):
    sharp = data.astronaut()[:240, 100:360]
    radius = radius_map(sharp.shape[:2], 3, kind=request.param, largest=6)
    return sharp, defocus(sharp, radius, "gaussian")


def test_two_steps_with_the_true_map_gain_a_decibel(scene):
    sharp, made = scene
    result = two_step(made.image, sigma=np.abs(made.radius) / 2)
    assert result.image.dtype == np.uint8
    assert psnr(sharp, result.image, 255) > psnr(sharp, made.image, 255) + 1


def test_the_literature_has_as_many_levels_as_bins():
    settings = TWO_STEP_SETTINGS["paper"]
    assert (settings.exponent, settings.weight, settings.levels) == (1.5, 16.8, 32)
    image = data.camera()[:64, :64]
    sigma = np.linspace(0.5, 1.5, image.size).reshape(image.shape)
    # Thirty-two bins of a range of one pixel are closer than ours may be.
    assert len(list(restore_steps(image, settings, sigma=sigma))) == 32
    assert len(list(restore_steps(image, TWO_STEP_SETTINGS["default"], sigma=sigma))) == 8
    # Equal values are one level, whatever the quantiles say.
    assert len(list(restore_steps(image, settings, sigma=np.ones(image.shape)))) == 1


def test_values_can_be_deconvolved_as_they_are():
    image = data.camera()[:64, :64].astype(np.float32) / 255
    settings = TWO_STEP_SETTINGS["paper"]
    found = two_step(image, settings, sigma=1.0).image
    kernel = psf(Aperture("gaussian"), 2.0)
    expected = deconvolve(image, kernel, exponent=1.5, weight=16.8)
    np.testing.assert_allclose(found, np.clip(expected, 0, 1), atol=1e-6)


def test_two_steps_with_the_estimated_map_gain_something(scene):
    sharp, made = scene
    result = two_step(made.image, TwoStepOptions(levels=12))
    assert result.sigma.shape == sharp.shape[:2]
    assert result.sigma.dtype == np.float32
    assert psnr(sharp, result.image, 255) > psnr(sharp, made.image, 255)


@pytest.mark.parametrize("side", [2, 3, 9, 24])
def test_small_images_do_not_fail(side):
    photo = np.kron(np.random.default_rng(0).uniform(size=(side, 1)), np.ones((1, side)))
    assert two_step(gaussian_filter(photo, 3)).image.shape == (side, side)


def test_a_sharp_image_with_a_map_of_zeros_is_kept():
    sharp = data.coffee()[:60, :80]
    np.testing.assert_array_equal(two_step(sharp, sigma=0.0).image, sharp)


def test_grey_and_floats_keep_their_type_and_progress_is_told():
    grey = data.camera()[:64, :72] / 255
    assert two_step(grey, sigma=1.0).image.dtype == np.float64
    steps = restore_steps(grey, sigma=np.linspace(0, 3, grey.size).reshape(grey.shape))
    seen = list(steps)
    assert [step.done for step in seen] == list(range(1, len(seen) + 1))
    assert seen[-1].done == seen[-1].total
    assert len(seen) > 10


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: deconvolve(np.zeros((0, 0)), psf(radius=1)),
        lambda: deconvolve(np.zeros((1, 1)), psf(radius=1)),
        lambda: deconvolve(np.full((9, 9), np.nan), psf(radius=1)),
        lambda: deconvolve(np.zeros((9, 9)), np.ones((3, 3))),
        lambda: deconvolve(np.zeros((9, 9)), psf(radius=8)),
        lambda: deconvolve(np.zeros((9, 9)), psf(radius=1), exponent=2.0),
        lambda: deconvolve(np.zeros((9, 9)), psf(radius=1), weight=0.0),
        lambda: defocus_map(np.zeros((0, 0))),
        lambda: defocus_map(np.zeros((1, 1))),
        lambda: defocus_map(np.full((9, 9), np.nan)),
        lambda: two_step(np.zeros((9, 9)), sigma=np.zeros((9, 8))),
        lambda: two_step(np.zeros((9, 9)), sigma=-1.0),
        lambda: two_step(np.zeros((9, 9)), sigma=np.nan),
        lambda: two_step(np.zeros((9, 9)), sigma=9.0),
        lambda: TwoStepOptions(levels=0),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(KpacError):
        wrong()
