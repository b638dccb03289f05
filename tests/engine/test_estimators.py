"""Every estimator of defocus under the same rules: awkward images, progress, cancelling."""

import numpy as np
import pytest
from skimage import data

import napari_kpac as kpac
from napari_kpac import weights
from napari_kpac.core.errors import ImageError
from napari_kpac.core.estimators import ESTIMATOR_NAMES, ESTIMATORS
from napari_kpac.core.progress import finish
from napari_kpac.engine.estimators import prepare_estimator
from tests import dmenet_reference

PHOTO = data.astronaut()[60:100, 180:228]


@pytest.fixture(params=ESTIMATOR_NAMES)
def name(request, tmp_path):
    """An estimator by its name; a DMENet with random weights is the only one installed."""
    if request.param == "dmenet":
        dmenet_reference.write_named(tmp_path / "file.npz", dmenet_reference.random_layers())
        weights.install(tmp_path / "file.npz", "defocus")
    return request.param


def test_all_have_a_name_a_label_and_a_use():
    assert ESTIMATOR_NAMES == ("ebdb", "jnb", "dmenet")
    assert all(each.label and each.good_for for each in ESTIMATORS)


@pytest.mark.parametrize("shape", [(2, 2), (5, 6, 3), (7, 40), (8, 8, 3)])
def test_images_smaller_than_a_patch(name, shape):
    image = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    result = kpac.deblur(image, method=name)
    assert (result.image.shape, result.image.dtype) == (shape, np.uint8)
    assert result.sigma.shape == shape[:2]
    assert np.isfinite(result.sigma).all()
    assert kpac.detect(image, source=name).values.shape == shape[:2]


def test_an_image_of_a_single_row_is_refused(name):
    # It has no gradients across, and no kernel of a blur fits into it.
    for image in (np.zeros((1, 1), np.uint8), np.zeros((1, 20), np.uint8)):
        for refused in (
            lambda image=image: kpac.deblur(image, method=name),
            lambda image=image: kpac.detect(image, source=name),
        ):
            with pytest.raises(ImageError, match="too small; 2x2 is the least"):
                refused()


def test_a_constant_image_stays_as_it_is(name):
    image = np.full((40, 48, 3), 90, np.uint8)
    result = kpac.deblur(image, method=name)
    assert np.abs(result.image.astype(int) - 90).max() <= 1
    values = kpac.detect(image, source=name).values
    assert np.isfinite(values).all()


def test_nan_stays_where_it_is_and_spoils_nothing_else(name):
    image = PHOTO[..., 1] / np.float32(255)
    whole = kpac.deblur(image, method=name)
    broken = image.copy()
    broken[20, 30] = np.nan
    result = kpac.deblur(broken, method=name)
    assert np.isnan(result.image[20, 30])
    assert np.count_nonzero(~np.isfinite(result.image)) == 1
    assert np.isfinite(result.sigma).all()
    assert np.abs(result.sigma - whole.sigma)[:, :8].max() < 1.0
    assert np.isfinite(kpac.detect(broken, source=name).values).all()
    nothing = np.full(image.shape, np.nan, np.float32)
    for refused in (
        lambda: kpac.deblur(nothing, method=name),
        lambda: kpac.detect(nothing, source=name),
    ):
        with pytest.raises(ImageError, match="no finite value"):
            refused()


def test_16_bits_say_what_8_bits_say(name):
    deep = PHOTO.astype(np.uint16) * 257
    result = kpac.deblur(deep, method=name, range="dtype")
    plain = kpac.deblur(PHOTO, method=name, range="dtype")
    assert result.image.dtype == np.uint16
    np.testing.assert_allclose(result.sigma, plain.sigma, atol=1e-3)
    np.testing.assert_allclose(result.image / 257, plain.image, atol=1.5)
    found, same = (kpac.detect(each, source=name, range="dtype") for each in (deep, PHOTO))
    np.testing.assert_allclose(found.values, same.values, atol=1e-3)


def test_transparency_is_kept_and_plays_no_part(name):
    alpha = np.linspace(0, 255, PHOTO[..., 0].size).reshape(PHOTO.shape[:2]).astype(np.uint8)
    result = kpac.deblur(np.dstack([PHOTO, alpha]), method=name)
    assert np.array_equal(result.image[..., 3], alpha)
    assert np.array_equal(result.image[..., :3], kpac.deblur(PHOTO, method=name).image)
    found = kpac.detect(np.dstack([PHOTO, alpha]), source=name)
    assert np.array_equal(found.values, kpac.detect(PHOTO, source=name).values)


def test_progress_grows_to_its_end_and_cancelling_ends_it(name):
    estimate = prepare_estimator(name).estimate
    unit = np.tile(PHOTO, (2, 2, 1)).astype(np.float32) / 255
    seen = list(estimate(unit))
    assert len(seen) >= 3
    assert [step.done for step in seen] == sorted(step.done for step in seen)
    assert all(step.stage == "estimating" and step.done <= step.total for step in seen)
    for number in range(len(seen)):
        steps = estimate(unit)
        for _ in range(number + 1):
            next(steps)
        steps.close()
        with pytest.raises(StopIteration):
            next(steps)
    # What was cancelled leaves nothing behind that changes the next map.
    assert np.array_equal(finish(estimate(unit)), finish(estimate(unit)))
