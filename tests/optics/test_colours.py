"""Channels that are blurred by radii of their own, as a lens with a chromatic aberration does."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac import KpacError
from napari_kpac.optics import Aperture, radius_map, random_lens
from napari_kpac.optics.synthesis import Noise, defocus_batch

FACTORS = (1.1, 1.0, 0.92)
SIZE = 64
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module")
def image():
    from skimage import data

    crop = data.coffee()[100 : 100 + SIZE, 200 : 200 + SIZE]
    return torch.from_numpy(crop.transpose(2, 0, 1).copy()).float()[None] / 255


def bands(*radii):
    """Return a map of vertical bands."""
    columns = np.array(radii, np.float32)[np.arange(SIZE) * len(radii) // SIZE]
    return np.tile(columns, (SIZE, 1))


@pytest.mark.parametrize("kind", ["plane", "smooth", "objects"])
@pytest.mark.parametrize("dual", [False, True])
def test_factors_of_1_change_nothing_at_all(image, kind, dual):
    given = {
        "radius": radius_map((SIZE, SIZE), 3, kind=kind)[None],
        "apertures": [Aperture("polygon", softness=0.2, cats_eye=0.4)],
        "layers": 8,
        "highlights": [1.5],
        "dual": dual,
    }
    plain = defocus_batch(image, **given)
    same = defocus_batch(image, **given, colours=[(1.0, 1.0, 1.0)])
    assert torch.equal(plain.image, same.image)
    assert torch.equal(plain.radius, same.radius)
    if dual:
        assert torch.equal(plain.left, same.left)
        assert torch.equal(plain.right, same.right)


@pytest.mark.parametrize(
    "radius",
    [
        bands(5.0),
        bands(-7.5),
        bands(2.0, 2.5, 3.0, 3.5, 4.0, 4.5),  # a slope: layers are summed
        bands(0.0, 6.0),  # a step: layers hide each other
        bands(-6.0, 3.0, -2.0, 8.0),
    ],
    ids=["far", "near", "slope", "behind what is in focus", "before and behind"],
)
@pytest.mark.parametrize("linear", [False, True])
def test_each_channel_is_blurred_by_its_own_radius(image, radius, linear):
    """As if every channel were an image of its own, with the map times its factor."""
    lens = Aperture("polygon", blades=7, rotation=11, softness=0.2)
    made = defocus_batch(image, radius[None], [lens], colours=[FACTORS], linear=linear).image
    for channel, factor in enumerate(FACTORS):
        alone = defocus_batch(
            image[:, channel : channel + 1], factor * radius[None], [lens], linear=linear
        ).image
        torch.testing.assert_close(made[:, channel], alone[:, 0], atol=2e-5, rtol=0)


def test_the_radius_that_is_given_back_is_without_factors(image):
    radius = bands(-3.0, 5.0)
    made = defocus_batch(image, radius[None], [Aperture()], colours=[FACTORS])
    np.testing.assert_array_equal(made.radius[0], radius)


def test_a_larger_factor_is_a_larger_disc():
    dot = torch.zeros(1, 3, SIZE, SIZE)
    dot[:, :, 32, 32] = 1
    made = defocus_batch(
        dot, np.full((1, SIZE, SIZE), 8.0), [Aperture()], colours=[FACTORS], linear=True
    ).image[0]
    areas = [1 / float(channel.max()) for channel in made]
    np.testing.assert_allclose(areas, [np.pi * (8 * factor) ** 2 for factor in FACTORS], rtol=0.01)


@given(seeds, st.booleans())
def test_a_flat_image_stays_flat_and_without_colour(seed, dual):
    rng = np.random.default_rng(seed)
    flat = torch.full((1, 3, 40, 48), 0.5)
    made = defocus_batch(
        flat,
        radius_map((40, 48), rng, largest=8)[None],
        [random_lens(rng)],
        layers=10,
        colours=[rng.uniform(0.9, 1.1, 3).tolist()],
        dual=dual,
    )
    for view in (made.image, made.left, made.right):
        if view is not None:
            torch.testing.assert_close(view, flat, atol=2e-4, rtol=0)


def test_images_of_a_batch_have_factors_of_their_own(image):
    crops = torch.cat([image, image.flip(3)])
    maps = np.stack([bands(-6.0, 3.0), radius_map((SIZE, SIZE), 1, kind="smooth")])
    lenses, colours = [Aperture(), Aperture("rimmed")], [FACTORS, (0.9, 1.0, 1.05)]
    noise = [Noise()] * 2
    both = defocus_batch(crops, maps, lenses, layers=8, noise=noise, colours=colours).image
    for i in range(2):
        alone = defocus_batch(
            crops[i : i + 1], maps[i : i + 1], lenses[i : i + 1], layers=8, colours=[colours[i]]
        ).image
        torch.testing.assert_close(both[i], alone[0], atol=2e-5, rtol=0)


@pytest.mark.parametrize(
    ("colours", "words"),
    [
        ([], "need as many"),
        ([FACTORS, FACTORS], "need as many"),
        ([(1.0, 1.0)], "3 channels need as many factors"),
        ([(1.0, 1.0, 1.0, 1.0)], "3 channels need as many factors"),
        ([(1.0, 0.0, 1.0)], "above 0"),
        ([(1.0, -1.0, 1.0)], "above 0"),
        ([(1.0, float("nan"), 1.0)], "above 0"),
        ([(1.0, float("inf"), 1.0)], "above 0"),
        ([(20.0, 1.0, 1.0)], "100 pixels is larger than the image"),
    ],
)
def test_factors_without_sense_are_refused(image, colours, words):
    with pytest.raises(KpacError, match=words):
        defocus_batch(image, bands(5.0)[None], [Aperture()], colours=colours)
