"""Augmented pairs: what belongs together stays so, and the generator alone decides."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from napari_kpac import KpacError
from napari_kpac.datasets import Augmentation, Pair, augment

seeds = st.integers(0, 2**32 - 1)


def make_pair(height=40, width=52, dual=False):
    rng = np.random.default_rng(1)
    sharp = rng.uniform(size=(height, width, 3)).astype(np.float32)
    field = np.add.outer(np.arange(height), 100 * np.arange(width)).astype(np.float32)
    field = field[:, :, None] / 1e4
    views = (sharp + 2 * field, sharp + 3 * field) if dual else None
    return Pair("scene", sharp + field, sharp, views, field[:, :, 0])


def arrays(pair):
    return [pair.blurred, pair.sharp, *(pair.views or ()), pair.radius]


@given(
    seeds,
    st.sampled_from([8, 31, 40]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([(1, 1), (0.5, 1), (0.8, 1.7)]),
    st.booleans(),
)
def test_everything_in_a_pair_moves_together(seed, crop, flips, rotations, scale, dual):
    pair = make_pair(dual=dual)
    options = Augmentation(crop_size=crop, flips=flips, rotations=rotations, scale=scale, noise=0)
    made = augment(pair, options, np.random.default_rng(seed))
    assert made.name == "scene"
    assert made.blurred.shape == made.sharp.shape == (crop, crop, 3)
    assert made.radius.shape == (crop, crop)
    assert all(a.dtype == np.float32 and a.flags.c_contiguous for a in arrays(made))
    field = made.blurred - made.sharp
    if dual:
        offsets = sorted((view - made.sharp).mean() for view in made.views)
        np.testing.assert_allclose(offsets, [2 * field.mean(), 3 * field.mean()], rtol=1e-4)
        for view in made.views:
            factor = round(float((view - made.sharp).mean() / field.mean()))
            np.testing.assert_allclose(view - made.sharp, factor * field, atol=1e-5)
    if scale == (1, 1):
        np.testing.assert_allclose(made.radius, field[:, :, 0], atol=1e-6)
        assert set(np.unique(made.sharp)) <= set(np.unique(pair.sharp))


@given(seeds, st.booleans())
def test_the_same_generator_gives_the_same_piece(seed, dual):
    pair = make_pair(dual=dual)
    before = [values.copy() for values in arrays(pair)]
    options = Augmentation(crop_size=24, scale=(0.7, 1.2))
    first, second = (augment(pair, options, np.random.default_rng(seed)) for _ in range(2))
    for one, other in zip(arrays(first), arrays(second), strict=True):
        np.testing.assert_array_equal(one, other)
        assert not any(np.shares_memory(one, given) for given in arrays(pair))
    for values, kept in zip(arrays(pair), before, strict=True):
        np.testing.assert_array_equal(values, kept)


def cells(pair):
    """Return the row and the column of the whole image that each pixel came from."""
    places = np.rint((pair.blurred - pair.sharp)[:, :, 0] * 1e4).astype(int)
    return places % 100, places // 100


@given(seeds)
def test_views_swap_exactly_when_the_scene_is_mirrored(seed):
    pair = make_pair(dual=True)
    made = augment(pair, Augmentation(crop_size=40, noise=0), np.random.default_rng(seed))
    rows, columns = cells(made)
    # Rows stay rows: views are never turned by 90 degrees or transposed.
    assert (rows == rows[:, :1]).all()
    assert (columns == columns[:1]).all()
    mirrored = columns[0, 0] > columns[0, 1]
    field = (made.blurred - made.sharp).mean()
    expected = (3, 2) if mirrored else (2, 3)
    for view, factor in zip(made.views, expected, strict=True):
        np.testing.assert_allclose((view - made.sharp).mean(), factor * field, rtol=1e-4)


def test_all_that_was_asked_for_happens_and_nothing_else():
    def seen(dual=False, **changes):
        options = Augmentation(crop_size=40, noise=0, **changes)
        rng = np.random.default_rng(0)
        pair = make_pair(height=40, width=40, dual=dual)
        made = [augment(pair, options, rng) for _ in range(100)]
        places = [np.stack(cells(pair)) for pair in made]
        return {tuple(place[:, 0, 0]) + tuple(place[:, 0, 1]) for place in places}

    assert len(seen()) == 8
    assert len(seen(flips=False)) == 4
    assert len(seen(rotations=False)) == 4
    assert len(seen(dual=True)) == 4
    assert len(seen(dual=True, flips=False)) == 2
    assert len(seen(flips=False, rotations=False)) == 1


def test_crops_reach_every_place():
    rng = np.random.default_rng(0)
    options = Augmentation(crop_size=38, flips=False, rotations=False, noise=0)
    places = {
        (rows[0, 0], columns[0, 0])
        for rows, columns in (cells(augment(make_pair(40, 41), options, rng)) for _ in range(300))
    }
    assert places == {(row, column) for row in range(3) for column in range(4)}


def test_scaling_multiplies_the_radius():
    """A smooth ramp that is made half as large is twice as steep and half as blurred."""
    ramp = np.tile(np.linspace(0, 1, 64, dtype=np.float32), (64, 1))
    image = np.repeat(ramp[:, :, None], 3, axis=2)
    pair = Pair("ramp", image, image, None, np.full((64, 64), -6, np.float32))
    rng = np.random.default_rng(0)
    options = Augmentation(crop_size=32, flips=False, rotations=False, scale=(0.5, 0.5), noise=0)
    made = augment(pair, options, rng)
    np.testing.assert_allclose(made.radius, -3)
    slope = np.diff(made.sharp[:, 8:-8, 0], axis=1)
    np.testing.assert_allclose(slope, 2 / 63, rtol=1e-3)
    larger = augment(pair, Augmentation(crop_size=32, scale=(2, 2), noise=0), rng)
    np.testing.assert_allclose(larger.radius, -12)
    # Where the pair has too few pixels to be made so small, it is made as small as it can be.
    small = augment(pair, Augmentation(crop_size=48, scale=(0.25, 0.25), noise=0), rng)
    np.testing.assert_allclose(small.radius, -6 * 48 / 64)


def test_a_radius_map_keeps_its_edges():
    halves = np.where(np.arange(60) < 30, -4, 4).astype(np.float32)
    radius = np.tile(halves, (60, 1))
    flat = np.zeros((60, 60, 3), np.float32)
    options = Augmentation(crop_size=40, scale=(0.7, 0.7))
    made = augment(Pair("x", flat, flat, None, radius), options, np.random.default_rng(3))
    assert set(np.unique(np.abs(made.radius))) == {np.float32(4) * np.float32(40 / 57)}


def test_noise_is_on_the_blurred_image_alone_and_not_clipped():
    white = np.ones((64, 64, 3), np.float32)
    pair = Pair("white", white, white, None, None)
    rng = np.random.default_rng(0)
    options = Augmentation(crop_size=64)
    made = [augment(pair, options, rng) for _ in range(200)]
    assert all((one.sharp == 1).all() for one in made)
    sigmas = np.array([one.blurred.std() for one in made])
    assert sigmas.max() <= 0.0305
    # Uniform from nothing to 3 %.
    counts = np.histogram(sigmas, bins=3, range=(0, 0.03))[0]
    assert counts.min() > 40
    assert max(one.blurred.max() for one in made) > 1.05
    means = np.array([one.blurred.mean() for one in made])
    np.testing.assert_allclose(means, 1, atol=2e-3)
    noise = (made[0].blurred - 1)[:, :, 0]
    smooth = gaussian_filter(noise, 2)
    assert smooth.std() < 0.3 * noise.std()


def test_noise_of_the_centre_is_that_of_its_views():
    pair = make_pair(dual=True)
    pair = Pair("mean", (pair.views[0] + pair.views[1]) / 2, pair.sharp, pair.views)
    made = augment(pair, Augmentation(crop_size=32), np.random.default_rng(0))
    np.testing.assert_allclose(made.blurred, (made.views[0] + made.views[1]) / 2, atol=1e-6)
    clean = augment(pair, Augmentation(crop_size=32, noise=0), np.random.default_rng(0))
    first, second = (a - b for a, b in zip(made.views, clean.views, strict=True))
    assert first.std() > 1e-3
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 0.1


def test_a_pair_that_is_too_small_is_named():
    with pytest.raises(KpacError, match=r"pair scene has 52x40 pixels.*crops of 41"):
        augment(make_pair(), Augmentation(crop_size=41), np.random.default_rng(0))


@pytest.mark.parametrize(
    "changes",
    [
        {"crop_size": 0},
        {"noise": -0.1},
        {"noise": float("nan")},
        {"scale": (1.2, 0.8)},
        {"scale": (0, 1)},
        {"scale": (1.0,)},
    ],
)
def test_options_without_sense_are_refused(changes):
    with pytest.raises(KpacError):
        Augmentation(**changes)


def test_scale_is_read_from_text():
    scale = next(item for item in fields(Augmentation) if item.name == "scale")
    assert Augmentation(scale=scale.metadata["parse"]("0.5,1")).scale == (0.5, 1)
