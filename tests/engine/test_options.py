"""Options as one object and as keywords: both lead to the same, and keywords win."""

import numpy as np
import pytest

import napari_kpac as kpac
from tests.engine.conftest import tiny_net

NET = tiny_net(2, double=False)


@pytest.fixture
def image(rng):
    return rng.random((40, 56)) * 3


def test_deblur_takes_options_and_keywords_change_them(image):
    options = kpac.DeblurOptions(device="cpu", range=(0, 4), tile=16, memory="1 GB")
    result = kpac.deblur(image, NET, options=options)
    expected = kpac.deblur(image, NET, "cpu", range=(0, 4), tile=16)
    assert np.array_equal(result.image, expected.image)
    assert result.recipe.options.tile == 16
    assert result.recipe.options.memory == "1 GB"
    changed = kpac.deblur(image, NET, options=options, tile=None, memory=None, range="unit")
    assert changed.recipe.options.tile is None
    assert changed.recipe.options.memory is None
    assert changed.recipe.options.range == "unit"
    assert options.tile == 16


def test_without_keywords_all_is_as_the_options_say(image):
    result = kpac.deblur(image, options=kpac.DeblurOptions(model="kpac-2level", device="cpu"))
    assert result.recipe.options.model == "kpac-2level"
    assert result.recipe.options.device == "cpu"
    assert kpac.deblur(image).recipe.options == kpac.DeblurOptions()


def test_session_takes_options(image):
    options = kpac.DeblurOptions(device="cpu", range=(0, 4))
    expected = kpac.deblur(image, NET, options=options).image
    np.testing.assert_allclose(kpac.Session(image, NET, options=options).render().image, expected)
    other = kpac.Session(image, NET, options=options, range="unit").render()
    assert other.recipe.options.range == "unit"
    with pytest.raises(kpac.KpacError, match="ebdb"):
        kpac.Session(image, NET, options=kpac.DeblurOptions(method="ebdb"))


def test_blur_map_takes_options(image):
    options = kpac.BlurMapOptions(device="cpu", upsampling=1)
    plain = kpac.blur_map(image, NET, "cpu", upsampling=1)
    assert np.array_equal(kpac.blur_map(image, NET, options=options), plain)
    enlarged = kpac.blur_map(image, NET, options=options, upsampling=2)
    assert np.array_equal(enlarged, kpac.blur_map(image, NET, "cpu", upsampling=2))
    assert not np.array_equal(enlarged, plain)


def test_options_of_another_action_are_refused(image):
    with pytest.raises(kpac.KpacError, match="must be DeblurOptions, not BlurMapOptions"):
        kpac.deblur(image, NET, options=kpac.BlurMapOptions())
    with pytest.raises(kpac.KpacError, match="must be BlurMapOptions, not dict"):
        kpac.blur_map(image, NET, options={})
    with pytest.raises(TypeError, match="tiles"):
        kpac.deblur(image, NET, tiles=3)
