"""The classical method on the engine's road."""

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import read_image, write_image
from napari_kpac.optics import Aperture


@pytest.fixture(scope="module")
def sharp():
    return data.astronaut()[100:228, 180:308]


@pytest.fixture(scope="module")
def blurred(sharp):
    return kpac.defocus(sharp, 3.0, Aperture("gaussian")).image


def test_it_needs_no_weights_and_gains(sharp, blurred, monkeypatch):
    def never(*args):
        raise AssertionError("no network is needed")

    monkeypatch.setattr("napari_kpac.engine.job.prepare_network", never)
    result = kpac.deblur(blurred, method="ebdb")
    assert result.image.dtype == np.uint8
    assert result.image.shape == blurred.shape
    assert result.sigma.shape == blurred.shape[:2]
    assert 0 <= result.sigma.min() <= result.sigma.max() <= 5
    assert psnr(sharp, result.image) > psnr(sharp, blurred) + 0.5
    assert result.recipe.to_dict()["options"]["method"] == "ebdb"


def test_stacks_alpha_nan_and_strength(blurred):
    grey = blurred[..., 1].astype(np.float64) * 10
    stack = np.stack([grey, grey[::-1]])
    result = kpac.deblur(stack, method="ebdb", range=(0, 2550))
    assert result.image.shape == stack.shape
    assert result.sigma.shape == stack.shape
    broken = grey.copy()
    broken[5, 5] = np.nan
    again = kpac.deblur(broken, method="ebdb", range=(0, 2550)).image
    assert np.isnan(again[5, 5])
    assert np.isfinite(np.delete(again.ravel(), 5 * 128 + 5)).all()
    still = kpac.deblur(grey, method="ebdb", modulation=kpac.Modulation(strength=0)).image
    assert np.array_equal(still, grey)
    transparent = np.dstack([blurred, np.full(blurred.shape[:2], 7, np.uint8)])
    assert (kpac.deblur(transparent, method="ebdb").image[..., 3] == 7).all()


def test_what_it_cannot_do_is_said(blurred):
    with pytest.raises(kpac.KpacError, match="attention"):
        kpac.deblur(blurred, method="ebdb", modulation=kpac.Modulation(gains=[0] * 5))
    with pytest.raises(kpac.KpacError, match="views"):
        kpac.deblur(blurred, method="ebdb", views=(blurred, blurred))
    with pytest.raises(kpac.KpacError, match="method"):
        kpac.deblur(blurred, method="magic")
    with pytest.raises(kpac.KpacError, match="Session"):
        kpac.Session(blurred, method="ebdb")


def test_out_is_checked_as_for_the_network(blurred):
    for out in (blurred, np.empty((3, 3), np.uint8)):
        with pytest.raises(kpac.KpacError, match="out"):
            kpac.deblur(blurred, method="ebdb", out=out)


def test_terminal_and_blur_map(blurred, tmp_path):
    write_image(tmp_path / "in.png", blurred)
    call = ["deblur", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.png")]
    maps = ["--defocus-map", str(tmp_path / "sigma.tif")]
    assert main([*call, "--method", "ebdb", *maps]) == 0
    expected = kpac.deblur(blurred, method="ebdb")
    assert np.array_equal(read_image(tmp_path / "out.png"), expected.image)
    np.testing.assert_allclose(read_image(tmp_path / "sigma.tif"), expected.sigma, atol=1e-6)
    assert main([*call, *maps]) == 2
    found = kpac.detect(blurred, source="ebdb")
    assert found.values.shape == blurred.shape[:2]
    assert 0 < found.values.mean() <= 1
