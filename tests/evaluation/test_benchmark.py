"""The fixed benchmark: the same cases every time, textured, with every bin filled."""

import numpy as np
import pytest
from skimage import data
from skimage.io import imsave
from skimage.transform import resize

from napari_kpac import EvaluateOptions, KpacError, defocus
from napari_kpac.datasets.matching import read_splits
from napari_kpac.evaluation.benchmark import CROP_SIDE_PX, SyntheticCases, textured
from napari_kpac.evaluation.metrics import BINS, inside

FIXED = ((0.9209, 0.2854), (1.4329, 0.3030), (4.5331, 0.4343), (2.9295, 0.4355))
"""Mean radius and mean value of each case; they change only with the benchmark itself."""


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Three photographs, of which the second is for training."""
    folder = tmp_path_factory.mktemp("photos")
    flat = np.zeros((400, 900, 3), np.uint8)
    flat[:, 500:] = data.coffee()[:, :400]
    imsave(folder / "a.png", flat, check_contrast=False)
    imsave(folder / "b.png", data.astronaut(), check_contrast=False)
    cat = resize(data.chelsea(), (450, 676), order=1)
    imsave(folder / "c.png", (cat * 255).astype(np.uint8), check_contrast=False)
    rows = ["file,split,source", "a.png,val,x", "b.png,train,x", "c.png,val,x"]
    (folder / "MANIFEST.csv").write_text("\n".join(rows) + "\n")
    return folder


def test_cases_are_the_same_every_time_and_in_any_order(photos):
    first, again = SyntheticCases(photos), SyntheticCases(photos)
    assert len(first) == 4
    assert [first.name(i) for i in range(4)] == ["a-1", "a-2", "c-1", "c-2"]
    forwards = [first[i] for i in range(4)]
    for i in (3, 0, 2, 1):
        case = again[i]
        assert case.name == first.name(i)
        for what in ("blurred", "sharp", "radius"):
            assert np.array_equal(getattr(case, what), getattr(forwards[i], what))
    other = SyntheticCases(photos, seed=1)[0]
    assert not np.array_equal(other.blurred, forwards[0].blurred)


def test_a_case_is_an_eight_bit_crop_with_texture_whose_bin_is_filled(photos):
    cases = SyntheticCases(photos)
    for i in range(len(cases)):
        case = cases[i]
        assert case.blurred.shape == case.sharp.shape == (CROP_SIDE_PX, CROP_SIDE_PX, 3)
        assert case.radius.shape == (CROP_SIDE_PX, CROP_SIDE_PX)
        assert np.abs(case.radius).max() <= 12
        np.testing.assert_allclose(case.blurred * 255, np.rint(case.blurred * 255), atol=1e-4)
        assert inside(case.radius, *BINS[i % len(BINS)]).mean() >= 0.25
        # Where nothing is blurred only noise and rounding are left.
        kept = np.abs(case.radius) == 0
        if kept.any():
            assert np.abs(case.blurred - case.sharp)[kept].mean() < 0.01
    assert textured(cases[0].sharp).mean() > 0.2


def test_the_surroundings_of_a_crop_bleed_into_it(photos):
    """A crop that was blurred alone would look otherwise at its border."""
    case = SyntheticCases(photos)[2]
    alone = defocus(case.sharp, case.radius).image
    border = np.abs(alone - case.blurred)[:, :4].mean()
    assert border > 1.3 * np.abs(alone - case.blurred)[:, 100:-100].mean()


def test_splits_and_limits(photos, tmp_path):
    assert read_splits(photos)["b.png"] == "train"
    assert len(SyntheticCases(photos, "train")) == 2
    assert len(SyntheticCases(photos, limit=1)) == 2
    with pytest.raises(KpacError, match=r"split 'test'.*train, val"):
        SyntheticCases(photos, "test")
    imsave(tmp_path / "p.png", data.astronaut(), check_contrast=False)
    assert read_splits(tmp_path) is None
    assert len(SyntheticCases(tmp_path, "test")) == 2
    (tmp_path / "MANIFEST.csv").write_text("name,use\np.png,val\n")
    with pytest.raises(KpacError, match="columns file and split"):
        SyntheticCases(tmp_path)


def test_a_photograph_that_is_too_small_is_named(tmp_path):
    imsave(tmp_path / "small.png", data.astronaut()[:200], check_contrast=False)
    with pytest.raises(KpacError, match=r"small\.png is smaller"):
        SyntheticCases(tmp_path)[0]


def test_the_benchmark_does_not_change(photos):
    """Figures of different days can be compared only while the cases stay what they were."""
    cases = SyntheticCases(photos)
    found = [
        (float(np.abs(cases[i].radius).mean()), float(cases[i].blurred.mean())) for i in range(4)
    ]
    np.testing.assert_allclose(found, FIXED, atol=2e-3)


def test_dual_pixel_views_share_the_scene(photos):
    single, dual = SyntheticCases(photos)[1], SyntheticCases(photos, dual=True)[1]
    assert single.views is None
    assert np.array_equal(single.radius, dual.radius)
    # Only on average: each has noise of its own, and the mean is one of light, not of sRGB.
    assert np.abs(np.mean(dual.views, axis=0) - dual.blurred).mean() < 0.01
    assert not np.array_equal(*dual.views)


def test_uniform_cases_have_one_radius_each_from_a_continuum(photos):
    cases = SyntheticCases(photos, blur="uniform")
    scenes = SyntheticCases(photos)
    radii = [np.unique(cases[i].radius) for i in range(len(cases))]
    assert all(each.size == 1 for each in radii)
    # Multiples of the golden ratio on a logarithmic scale from 1 to 12 px.
    expected = [12 ** (0.6180339887498949 * i % 1) for i in range(4)]
    np.testing.assert_allclose(np.concatenate(radii), expected, rtol=1e-6)
    for i in range(len(cases)):
        assert np.array_equal(cases[i].sharp, scenes[i].sharp)
    inner = (slice(40, -40),) * 2
    errors = [
        np.abs(defocus(cases[1].sharp, factor * float(radii[1][0])).image - cases[1].blurred)
        for factor in (0.8, 1, 1.2)
    ]
    means = [error[inner].mean() for error in errors]
    assert means[1] < 0.01  # noise
    assert np.argmin(means) == 1


def test_uniform_blur_is_for_synthetic_data():
    with pytest.raises(KpacError, match="goes with kind synthetic, not pairs"):
        EvaluateOptions(kind="pairs", root="x", blur="uniform")
