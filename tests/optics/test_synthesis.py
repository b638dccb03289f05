"""Synthetic defocus: energy, order of depth, determinism, views, and refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import napari_kpac as kpac
from napari_kpac import KpacError
from napari_kpac.optics import Aperture, apply_kernel, defocus, psf, radius_map
from napari_kpac.optics.pixels import to_linear, to_srgb
from napari_kpac.optics.scene import cut
from napari_kpac.optics.synthesis import Noise, defocus_batch

seeds = st.integers(0, 2**32 - 1)
sizes = st.tuples(st.integers(9, 40), st.integers(9, 40))
names = st.sampled_from(["disc", "polygon", "gaussian", "rimmed", "random"])


@pytest.fixture(scope="module")
def photo():
    from skimage import data

    return data.coffee()[100:228, 200:360]


def test_it_is_public(photo):
    result = kpac.defocus(photo, 2.0)
    assert result.image.shape == photo.shape
    assert result.image.dtype == photo.dtype
    assert result.left is None
    assert (result.radius == 2.0).all()


def test_srgb_and_back():
    values = np.linspace(0, 1, 1001)
    np.testing.assert_allclose(to_srgb(to_linear(values)), values, atol=1e-6)
    tensor = torch.from_numpy(values)
    np.testing.assert_allclose(to_linear(tensor).numpy(), to_linear(values), atol=1e-12)
    assert to_linear(np.array(0.5)) == pytest.approx(0.21404, abs=1e-4)


@given(sizes, seeds, names, st.booleans(), st.floats(0.05, 0.95))
def test_a_flat_image_stays_flat(size, seed, aperture, dual, value):
    radius = radius_map(size, seed, largest=6)
    result = defocus(np.full((*size, 3), value), radius, aperture, seed, dual=dual)
    for view in (result.image, result.left, result.right):
        if view is not None:
            np.testing.assert_allclose(view, value, atol=2e-4)


@given(sizes, seeds, names)
def test_results_stay_within_the_image_and_repeat(size, seed, aperture):
    rng = np.random.default_rng(seed)
    image = rng.uniform(0.2, 0.8, size).astype(np.float32)
    radius = radius_map(size, seed, largest=5)
    first, again = (defocus(image, radius, aperture, seed) for _ in range(2))
    np.testing.assert_array_equal(first.image, again.image)
    assert first.image.dtype == np.float32
    assert first.image.min() >= image.min() - 1e-3
    assert first.image.max() <= image.max() + 1e-3
    assert np.abs(first.radius).max() <= 5.5
    assert np.isin(first.radius, cut(radius).radii).all()


@given(st.floats(0, 7), names, seeds)
def test_one_radius_is_a_convolution_in_linear_light(radius, name, seed):
    image = np.random.default_rng(seed).uniform(size=(33, 41))
    result = defocus(image, radius, name, seed)
    if radius < 0.25:
        np.testing.assert_allclose(result.image, image, atol=1e-5)
        return
    expected = to_srgb(apply_kernel(to_linear(image), psf(result.aperture, radius)))
    np.testing.assert_allclose(result.image, expected, atol=1e-4)


def test_radius_zero_changes_nothing(photo):
    np.testing.assert_array_equal(defocus(photo, 0.0, highlights=3.0).image, photo)
    deep = photo.astype(np.uint16) * 257
    np.testing.assert_array_equal(defocus(deep, np.zeros(photo.shape[:2])).image, deep)


def test_types(photo):
    assert defocus(photo, 1.0, dtype=np.uint16).image.dtype == np.uint16
    assert defocus(photo / 255.0, 1.0).image.dtype == np.float64
    eight, sixteen = (defocus(photo, 2.5, dtype=d).image for d in (np.uint8, np.uint16))
    assert np.abs(sixteen / 257 - eight).max() <= 0.51


def test_linear_images_skip_srgb():
    image = np.random.default_rng(0).uniform(size=(32, 32))
    made = defocus(image, 3.0, linear=True).image
    np.testing.assert_allclose(made, apply_kernel(image, psf(radius=3.0)), atol=1e-5)


def edge(left, right, near_left, near_right):
    """Two halves with their own value and radius."""
    image = np.full((64, 96), right)
    radius = np.full((64, 96), float(near_right))
    image[:, :48], radius[:, :48] = left, near_left
    return to_srgb(image), radius


def test_a_sharp_object_keeps_its_outline_before_a_blurred_background():
    image, radius = edge(0.8, 0.1, 0.0, 8.0)
    made = to_linear(defocus(image, radius, layers=9).image)
    np.testing.assert_allclose(made[:, :48], 0.8, atol=2e-3)
    np.testing.assert_allclose(made[:, 48:], 0.1, atol=2e-3)


def test_a_near_object_blurs_over_a_sharp_background():
    image, radius = edge(0.8, 0.1, -8.0, 0.0)
    row = to_linear(defocus(image, radius).image)[32]
    assert row[20] == pytest.approx(0.8, abs=2e-3)
    assert row[70] == pytest.approx(0.1, abs=2e-3)
    # The outline becomes a ramp on both sides, without a step where it was.
    assert (np.diff(row) < 1e-3).all()
    assert np.abs(np.diff(row)).max() < 0.08
    assert row[51] > 0.2
    assert row[44] < 0.75


def test_the_same_map_with_the_other_sign_is_the_other_order():
    image, radius = edge(0.8, 0.1, -8.0, 0.0)
    near = defocus(image, radius).image
    far = defocus(image, -radius).image
    assert to_linear(far)[32, 52] == pytest.approx(0.1, abs=2e-3)
    assert to_linear(near)[32, 52] > 0.15


def test_smooth_maps_are_summed_and_agree_with_what_lies_around(photo):
    radius = radius_map(photo.shape[:2], 0, kind="tilted", largest=6)
    layers = cut(radius)
    assert not layers.occlude
    made = defocus(photo, radius).image.astype(float)
    # Where the map has a certain radius, the image looks as if all of it had that radius.
    for i in (1, len(layers.radii) // 2):
        uniform = defocus(photo, float(layers.radii[i])).image.astype(float)
        difference = np.abs(made - uniform)[layers.index == i]
        assert difference.mean() < 1.5


def test_few_values_are_kept_and_many_become_multiples_of_a_step():
    few = np.array([[0.0, 1.3], [2.71, -4.0]], dtype=np.float32)
    np.testing.assert_array_equal(cut(few, 4).radius, few)
    many = np.linspace(-3, 5, 999, dtype=np.float32).reshape(27, 37)
    layers = cut(many, 10)
    assert len(layers.radii) <= 11
    assert 0 in layers.radii
    assert np.abs(layers.radius - many).max() <= 8 / 9 / 2 + 1e-5


def test_highlights_bloom_but_a_bright_sky_does_not():
    dark = np.full((81, 81, 3), 0.1)
    dark[40, 40] = 1.0
    plain, bright = (defocus(dark, 6.0, highlights=stops).image for stops in (0, 4))
    assert bright[40, 44, 0] > 2 * plain[40, 44, 0]
    sky = np.full((81, 81, 3), 0.97)
    np.testing.assert_allclose(defocus(sky, 6.0, highlights=4).image, sky, atol=1e-4)


def test_noise_follows_the_seed_and_has_the_variance_asked_for():
    image = np.full((128, 128), 0.5)
    first, again, other = (
        defocus(image, 2.0, seed=s, shot=1e-3, read=1e-2, linear=True).image for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert first.var() == pytest.approx(0.5e-3 + 1e-4, rel=0.1)


def test_views_are_mirrored_by_the_sign_and_average_to_the_whole(photo):
    behind, before = (defocus(photo / 255.0, r, dual=True) for r in (5.0, -5.0))
    mean = (to_linear(behind.left) + to_linear(behind.right)) / 2
    np.testing.assert_allclose(mean, to_linear(behind.image), atol=1e-4)
    np.testing.assert_allclose(behind.left, before.right, atol=1e-5)
    np.testing.assert_allclose(behind.right, before.left, atol=1e-5)
    dot = np.zeros((41, 41))
    dot[20, 20] = 1
    columns = np.arange(41) - 20
    left = defocus(dot, 6.0, dual=True, linear=True).left
    assert columns @ left.sum(axis=0) < -1


def test_the_cats_eye_shows_in_the_corners_only():
    dots = np.zeros((121, 121))
    dots[60, 60] = dots[12, 12] = 1
    plain, clipped = (
        defocus(dots, 8.0, Aperture(cats_eye=c), linear=True).image for c in (0.0, 1.0)
    )
    np.testing.assert_allclose(clipped[60, 60], plain[60, 60], rtol=1e-3)
    np.testing.assert_allclose(clipped[50:71, 50:71], plain[50:71, 50:71], atol=1e-3)
    assert clipped[:30, :30].max() > 1.3 * plain[:30, :30].max()


def test_a_batch_is_what_its_images_are_alone(photo):
    crops = np.stack([photo[:64, :64], photo[60:124, 60:124], photo[30:94, 90:154]]) / 255.0
    maps = np.stack(
        [radius_map((64, 64), s, kind=k) for s, k in enumerate(["objects", "smooth", "plane"])]
    )
    apertures = [Aperture(), Aperture("polygon", 5), Aperture("gaussian")]
    batch = defocus_batch(
        torch.from_numpy(crops.astype(np.float32)).permute(0, 3, 1, 2),
        maps,
        apertures,
        layers=10,
        noise=[Noise()] * 3,
        highlights=[0.0, 1.0, 2.0],
        dual=True,
    )
    assert batch.image.shape == (3, 3, 64, 64)
    for i, stops in enumerate((0.0, 1.0, 2.0)):
        alone = defocus(crops[i], maps[i], apertures[i], layers=10, highlights=stops, dual=True)
        np.testing.assert_allclose(batch.image[i].permute(1, 2, 0), alone.image, atol=1e-4)
        np.testing.assert_allclose(batch.left[i].permute(1, 2, 0), alone.left, atol=1e-4)
        np.testing.assert_array_equal(batch.radius[i], alone.radius)


@pytest.mark.parametrize(
    ("image", "radius", "words"),
    [
        (np.zeros((0, 0)), 1.0, "too small"),
        (np.zeros((1, 1)), 1.0, "too small"),
        (np.zeros((8, 8, 5)), 1.0, "RGB"),
        (np.zeros(8), 1.0, "RGB"),
        (np.full((8, 8), np.nan), 1.0, "NaN"),
        (np.full((8, 8), 200.0), 1.0, "0..1"),
        (np.zeros((8, 8), np.int32), 1.0, "int32"),
        (np.zeros((8, 8)), np.inf, "infinite"),
        (np.zeros((8, 8)), np.full((8, 8), np.nan), "NaN"),
        (np.zeros((8, 8)), np.zeros((8, 9)), "shape"),
        (np.zeros((8, 8)), 9.0, "larger than the image"),
        (np.zeros((8, 8)), "far", "real numbers"),
    ],
)
def test_bad_input_is_refused_with_a_reason(image, radius, words):
    with pytest.raises(KpacError, match=words):
        defocus(image, radius)


@pytest.mark.parametrize(
    "options",
    [
        {"layers": 0},
        {"highlights": -1.0},
        {"shot": -1.0},
        {"read": 2.0},
        {"dtype": np.int32},
        {"aperture": "square"},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(KpacError):
        defocus(np.zeros((8, 8)), np.linspace(0, 3, 64).reshape(8, 8), **options)


def test_a_batch_that_does_not_fit_together_is_refused():
    images = torch.zeros(2, 3, 16, 16)
    with pytest.raises(KpacError, match="need as many"):
        defocus_batch(images, np.zeros((1, 16, 16)), [Aperture()] * 2)
    with pytest.raises(KpacError, match="need as many"):
        defocus_batch(images, np.zeros((2, 16, 16)), [Aperture()])
    with pytest.raises(KpacError, match="shape"):
        defocus_batch(images[0], np.zeros((1, 16, 16)), [Aperture()])
