"""Crops of photographs: what they show, how they are blurred, and what a camera makes of them."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest, spearmanr, uniform
from skimage import data

from napari_kpac.datasets.photographs import PLAIN, Blurring, Photographs
from napari_kpac.optics import Aperture, apply_kernel, defocus, psf
from napari_kpac.optics.pixels import ToneCurve, to_linear
from tests.datasets.making import save

BARE = replace(PLAIN, shot=0.0, read=0.0, highlights=0.0, shrink=1.0)
"""Blur alone."""
LEVEL = 1 / 255


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    images = (data.astronaut(), data.coffee(), data.chelsea())
    return Photographs(
        [save(folder / f"{i}.png", each[:240, 100:360]) for i, each in enumerate(images)]
    )


@pytest.fixture
def discs(monkeypatch):
    """Let every lens be a plain disc, so that the blur can be made again."""
    monkeypatch.setattr("napari_kpac.datasets.photographs.random_lens", lambda rng: Aperture())


def crops(photographs, how, content, count, size=32):
    for seed in range(count):
        yield photographs.crop(np.random.default_rng((9, seed)), size, how, content)


def share(found):
    return float(np.mean(list(found)))


def near_share(expected, count):
    """Four standard deviations of a share."""
    return pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / count))


def error(pair):
    return np.abs(pair.blurred - pair.sharp).max()


def single(folder, pixels):
    """Return photographs of which crops in focus are the middle of one image, turned."""
    return Photographs([save(folder / "one.png", pixels)])


# Contents


def test_uniform_crops_are_the_photograph_out_of_focus(photographs, discs):
    """The inner part of a crop is what defocus makes of its target."""
    how = replace(BARE, radii=(4.0,), spread=0.0)
    for pair in crops(photographs, how, "uniform", 8, size=64):
        assert pair.blurred.shape == pair.sharp.shape == (64, 64, 3)
        assert (np.abs(pair.radius) == 4).all()
        expected = defocus(pair.sharp, 4.0).image
        inner = slice(6, -6)
        difference = np.abs(pair.blurred - expected)[inner, inner]
        assert difference.max() <= 0.5 * LEVEL + 1e-4
        assert error(pair) > 10 * LEVEL


def test_crops_in_focus_are_the_target_in_8_bits(photographs):
    for pair in crops(photographs, BARE, "focused", 8):
        assert not pair.radius.any()
        assert error(pair) <= 0.5 * LEVEL + 1e-6
        levels = pair.blurred * 255
        np.testing.assert_allclose(levels, levels.round(), atol=1e-4)


def test_scenes_have_depth(photographs):
    how = replace(BARE, min_radius=6.0, max_radius=6.0)
    made = list(crops(photographs, how, "scenes", 40, size=48))
    # Twelve layers are at most 12 / 11 px apart, and radii are rounded to them.
    assert 5 < max(np.abs(pair.radius).max() for pair in made) <= 6 + 6 / 11
    # One kind of scene in four has a single radius.
    flat = share(np.ptp(pair.radius) == 0 for pair in made)
    assert 0.05 < flat < 0.5
    assert share((pair.radius < 0).any() for pair in made) > 0.3
    assert share((pair.radius > 0).any() for pair in made) > 0.3


def test_blur_comes_from_both_sides_of_the_plane_of_focus(photographs):
    signs = [np.sign(p.radius[0, 0]) for p in crops(photographs, BARE, "uniform", 60, size=16)]
    assert share(sign > 0 for sign in signs) == near_share(0.5, 60)


# Radii


def test_radii_that_are_given_are_used(photographs):
    how = replace(BARE, radii=(1.5, 3.0, 6.0, 12.0), spread=0.0)
    found = [abs(p.radius[0, 0]) for p in crops(photographs, how, "uniform", 80, size=16)]
    counts = {radius: found.count(radius) for radius in how.radii}
    assert sum(counts.values()) == 80
    assert min(counts.values()) >= 8


def test_given_radii_are_spread_by_a_factor(photographs):
    how = replace(BARE, radii=(3.0,), spread=0.36)
    found = [abs(p.radius[0, 0]) for p in crops(photographs, how, "uniform", 150, size=16)]
    logs = np.log(np.array(found) / 3)
    assert kstest(logs, uniform(-0.36, 0.72).cdf).pvalue > 0.01


def test_no_radius_is_above_the_largest(photographs):
    how = replace(BARE, radii=(6.0,), spread=0.36, max_radius=5.0)
    found = [abs(p.radius[0, 0]) for p in crops(photographs, how, "uniform", 30, size=16)]
    assert max(found) == 5
    assert min(found) < 5


def test_other_radii_are_log_uniform(photographs):
    found = [abs(p.radius[0, 0]) for p in crops(photographs, BARE, "uniform", 300, size=16)]
    assert kstest(np.log(found), uniform(np.log(0.4), np.log(50)).cdf).pvalue > 0.01
    # Half of them lie below the geometric mean of 0.4 and 20, a quarter above 7.5.
    assert share(radius < np.sqrt(8) for radius in found) == near_share(0.5, 300)
    assert share(radius > 0.4 * 50**0.75 for radius in found) == near_share(0.25, 300)


def test_the_largest_radius_of_scenes_is_log_uniform(photographs, monkeypatch):
    asked = []

    def noted(shape, rng, *, largest):
        asked.append(largest)
        return np.zeros(shape, np.float32)

    monkeypatch.setattr("napari_kpac.datasets.photographs.radius_map", noted)
    for _ in crops(photographs, BARE, "scenes", 300, size=16):
        pass
    assert kstest(np.log(asked), uniform(np.log(0.4), np.log(50)).cdf).pvalue > 0.01


def test_a_largest_radius_of_nothing_is_focus(photographs):
    how = replace(BARE, max_radius=0.0)
    for content in ("uniform", "scenes"):
        pair = next(crops(photographs, how, content, 1))
        assert not pair.radius.any()


# What a camera makes of it


def test_everything_is_drawn_from_the_generator(photographs):
    for content in ("uniform", "scenes", "focused"):
        first, again = (
            photographs.crop(np.random.default_rng(7), 32, Blurring(), content) for _ in range(2)
        )
        assert first.name == again.name
        for name in ("blurred", "sharp", "radius"):
            np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        other = photographs.crop(np.random.default_rng(8), 32, Blurring(), content)
        assert not np.array_equal(first.sharp, other.sharp)


def test_every_photograph_is_used(photographs):
    names = {pair.name for pair in crops(photographs, BARE, "focused", 30, size=16)}
    assert names == {"0.png", "1.png", "2.png"}


def test_the_share_of_grey_crops(photographs):
    how = replace(BARE, grey=0.125)
    made = list(crops(photographs, how, "focused", 400, size=16))
    grey = [pair for pair in made if np.ptp(pair.sharp, axis=2).max() < 1e-6]
    assert len(grey) / 400 == near_share(0.125, 400)
    assert all(np.ptp(pair.blurred, axis=2).max() == 0 for pair in grey)


def test_half_of_the_grey_crops_are_dark_with_bright_structures(photographs):
    """The others are the mean of the colours of the same crop."""
    coloured = crops(photographs, BARE, "focused", 160)
    grey = crops(photographs, replace(BARE, grey=1.0), "focused", 160)
    inverted = []
    for before, after in zip(coloured, grey, strict=True):
        luma, made = before.sharp.mean(axis=2).ravel(), after.sharp[:, :, 0].ravel()
        if np.abs(made - luma).max() < 1e-5:
            continue
        # Brighter stays brighter, or all of it is inverted.
        order = spearmanr(luma, made).statistic
        assert abs(order) > 0.99
        inverted.append(order < 0)
        shown = 1 - luma if order < 0 else luma
        white = np.quantile(made, 0.995)
        assert 0.3 < white <= 1
        # What is not bright becomes darker, but for a ground of 5 % of white at most.
        assert np.median(made) / white < np.median(shown) / np.quantile(shown, 0.995) + 0.05 / white
    assert len(inverted) / 160 == near_share(0.5, 160)
    assert share(inverted) == near_share(0.5, len(inverted))


def test_the_share_of_soft_crops(tmp_path):
    """Neighbours in noise have nothing in common, unless the photograph is enlarged."""
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    how = replace(BARE, soft=0.25)
    soft = []
    for pair in crops(single(tmp_path, noise), how, "focused", 200):
        luma = pair.sharp.mean(axis=2)
        alike = np.corrcoef(luma[:, 1:].ravel(), luma[:, :-1].ravel())[0, 1]
        assert alike > 0.2 or abs(alike) < 0.15
        soft.append(alike > 0.2)
        assert error(pair) <= 0.5 * LEVEL + 1e-6  # blurred and sharp are enlarged alike
    assert share(soft) == near_share(0.25, 200)


def test_the_share_of_jpeg(photographs):
    how = replace(BARE, jpeg=1 / 3)
    made = list(crops(photographs, how, "focused", 200))
    # Without losses nothing is off by more than half a level.
    lossy = [pair for pair in made if error(pair) > 0.6 * LEVEL]
    assert len(lossy) / 200 == near_share(1 / 3, 200)
    # Losses are those of JPEG: small on average, and not the same for every quality.
    mean = [np.abs(pair.blurred - pair.sharp).mean() for pair in lossy]
    assert max(mean) < 0.05
    assert max(mean) > 3 * min(mean)


def test_the_share_of_noise(photographs):
    how = replace(BARE, noise_probability=0.5, noise=0.2)
    made = crops(photographs, how, "focused", 200, size=24)
    # A strength below 0.05 (one in twenty of the noisy) makes less than half a level.
    noisy = share(error(pair) > 1.01 * LEVEL for pair in made)
    assert noisy == near_share(0.5 * 0.95, 200)


def test_half_of_the_noise_grows_with_the_signal(tmp_path):
    """The variance at a value v is 0.2 + 1.6 v times what it is on average."""
    halves = np.full((68, 68, 3), 51, np.uint8)
    halves[:, 34:] = 204
    photographs = single(tmp_path, halves)
    how = replace(BARE, noise_probability=1.0, noise=0.06)
    ratios = []
    for pair in crops(photographs, how, "focused", 150, size=64):
        noise, bright = pair.blurred - pair.sharp, pair.sharp > 0.5
        if noise.std() > 0.01:
            ratios.append(noise[bright].std() / noise[~bright].std())
    grows = np.sqrt((0.2 + 1.6 * 0.8) / (0.2 + 1.6 * 0.2))
    growing = [ratio for ratio in ratios if ratio > 1.3]
    alike = [ratio for ratio in ratios if ratio <= 1.3]
    np.testing.assert_allclose(growing, grows, rtol=0.08)
    np.testing.assert_allclose(alike, 1, rtol=0.08)
    assert len(growing) / len(ratios) == near_share(0.5, len(ratios))


def test_tone_curves_are_undone_before_the_blur_and_put_back(photographs, discs, monkeypatch):
    """Linear light is found here by looking the curve up backwards."""
    curve = ToneCurve(1.8, 0.5)
    monkeypatch.setattr(ToneCurve, "draw", lambda rng: curve)
    roots = np.linspace(0, 1, 20_001)
    values = roots + 0.5 * (3 * roots**2 - 2 * roots**3 - roots)
    how = replace(BARE, radii=(3.0,), spread=0.0, tones=1.0)
    plain = crops(photographs, replace(how, tones=0.0), "uniform", 6, size=48)
    for pair, before in zip(crops(photographs, how, "uniform", 6, size=48), plain, strict=True):
        # The target keeps its tones.
        np.testing.assert_array_equal(pair.sharp, before.sharp)
        light = np.interp(pair.sharp.astype(np.float64), values, roots) ** 1.8
        kernel = psf(Aperture(), 3.0)
        blurred = np.stack([apply_kernel(light[:, :, c], kernel) for c in range(3)], axis=2)
        expected = np.interp(np.clip(blurred, 0, 1) ** (1 / 1.8), roots, values)
        inner = slice(5, -5)
        difference = np.abs(pair.blurred - expected)[inner, inner]
        assert difference.max() <= 0.5 * LEVEL + 1e-3


def test_the_share_of_tone_curves(photographs, discs):
    how = replace(BARE, radii=(3.0,), spread=0.0)
    toned = crops(photographs, replace(how, tones=0.6), "uniform", 150)
    plain = crops(photographs, how, "uniform", 150)
    different = [
        not np.array_equal(a.blurred, b.blurred) for a, b in zip(toned, plain, strict=True)
    ]
    # A curve close to that of sRGB may make no difference in 8 bits on a calm crop.
    assert share(different) == pytest.approx(0.6, abs=0.16)


def test_the_share_of_crops_whose_colours_are_blurred_apart(photographs):
    """Where the target is grey, colour in the blurred image comes from the lens."""
    how = replace(BARE, radii=(6.0,), spread=0.0, grey=1.0, colours=0.15)
    made = crops(photographs, how, "uniform", 200)
    apart = share(np.ptp(pair.blurred, axis=2).max() > 0 for pair in made)
    assert apart == near_share(0.15, 200)


def test_colours_are_blurred_apart_in_scenes_too(photographs):
    how = replace(Blurring(), colours=1.0)
    for pair in crops(photographs, how, "scenes", 12):
        assert np.isfinite(pair.blurred).all()


def test_highlights_are_raised_before_the_blur(tmp_path, discs):
    night = np.full((120, 120, 3), 20, np.uint8)
    night[56:60, 56:60] = 255
    photographs = single(tmp_path, night)
    how = replace(BARE, radii=(5.0,), spread=0.0)
    largest = {}
    for stops in (0.0, 2.0):
        made = crops(photographs, replace(how, highlights=stops), "uniform", 8, size=100)
        largest[stops] = [pair.blurred.max() for pair in made]
    ratio = np.array(largest[2.0]) / largest[0.0]
    assert (ratio >= 1).all()
    assert ratio.max() > 1.2


def test_dual_pixel_views(photographs):
    how = replace(BARE, radii=(5.0,), spread=0.0, dual=True)
    for pair in crops(photographs, how, "uniform", 6, size=48):
        left, right = pair.views
        assert left.shape == right.shape == pair.sharp.shape
        assert np.abs(left - right).max() > 5 * LEVEL
        mean = (to_linear(left) + to_linear(right)) / 2
        # Three images are rounded to 8 bits; the curve of sRGB is at most 2.3 steep.
        np.testing.assert_allclose(mean, to_linear(pair.blurred), atol=2.3 * LEVEL)
    focused = photographs.crop(np.random.default_rng(0), 48, how, "focused")
    for view in focused.views:
        np.testing.assert_array_equal(view, focused.blurred)


def test_without_dual_there_are_no_views(photographs):
    assert photographs.crop(np.random.default_rng(0), 32, Blurring(), "scenes").views is None


def test_everything_together_stays_in_range(photographs):
    for pair in crops(photographs, Blurring(), "scenes", 20):
        for image in (pair.blurred, pair.sharp):
            assert image.dtype == np.float32
            assert image.min() >= 0
            assert image.max() <= 1
