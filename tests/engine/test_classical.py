"""The classical method on the engine's road."""

import numpy as np
import pytest
from skimage import data
from skimage.metrics import peak_signal_noise_ratio as psnr

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import read_image, write_image
from napari_kpac.optics import TWO_STEP_SETTINGS, Aperture, sparsity_map, two_step


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


def test_jnb_estimates_and_deconvolves(sharp, blurred):
    result = kpac.deblur(blurred, method="jnb")
    assert result.image.shape == blurred.shape
    assert result.sigma.shape == blurred.shape[:2]
    assert np.array_equal(
        result.image, kpac.deblur(blurred, method="map", sigma=result.sigma).image
    )
    assert result.recipe.to_dict()["options"]["method"] == "jnb"
    found = kpac.detect(blurred, source="jnb")
    np.testing.assert_allclose(found.values, np.clip(sparsity_map(blurred) / 5, 0, 1), atol=1e-6)


def test_a_map_of_ones_own_is_what_is_removed(sharp, blurred):
    # A radius of 3 px is a sigma of 1.5 px; the wrong sigma gains less.
    gains = {
        sigma: psnr(sharp, kpac.deblur(blurred, method="map", sigma=sigma).image)
        for sigma in (0.0, 0.7, 1.5)
    }
    assert gains[0.0] == psnr(sharp, blurred)
    assert gains[1.5] > gains[0.7] > gains[0.0]
    as_map = kpac.deblur(blurred, method="map", sigma=np.full(blurred.shape[:2], 1.5)).image
    assert np.array_equal(as_map, kpac.deblur(blurred, method="map", sigma=1.5).image)
    stack = np.stack([blurred[..., 1]] * 2)
    sigmas = np.zeros(stack.shape)
    sigmas[1] = 1.5
    result = kpac.deblur(stack, method="map", sigma=sigmas)
    assert np.array_equal(result.image[0], stack[0])
    assert not np.array_equal(result.image[1], stack[1])
    assert np.array_equal(result.sigma, sigmas)


@pytest.mark.parametrize(
    ("method", "sigma", "words"),
    [
        ("map", None, "needs a defocus map"),
        ("ebdb", 1.0, "goes with method 'map'"),
        ("kpac", 1.0, "goes with method 'map'"),
        ("map", -1.0, "below 0"),
        ("map", np.zeros((3, 3)), "shape"),
        ("map", np.nan, "NaN"),
        ("map", ["wide"], "real numbers"),
        ("map", "wide.tif", "no such file"),
        ("map", "wide.npy", "cannot be read"),
    ],
)
def test_bad_maps_are_refused(blurred, method, sigma, words):
    with pytest.raises(kpac.KpacError, match=words):
        kpac.deblur(blurred, method=method, sigma=sigma)


def test_a_map_from_a_file(blurred, tmp_path, capsys):
    write_image(tmp_path / "in.png", blurred)
    call = ["deblur", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.png"), "--method", "map"]
    assert main(call) == 2
    assert "a map of sigma goes with method map" in capsys.readouterr().err
    for factor, name in ((1.5, "sigma.tif"), (0.5, "sigma.npy")):
        sigma = np.full(blurred.shape[:2], factor, np.float32)
        if name.endswith("npy"):
            np.save(tmp_path / name, sigma)
        else:
            write_image(tmp_path / name, sigma)
        assert main([*call, "--sigma-map", str(tmp_path / name)]) == 0
        expected = kpac.deblur(blurred, method="map", sigma=factor).image
        assert np.array_equal(read_image(tmp_path / "out.png"), expected)


def test_a_map_from_a_file_in_python(blurred, tmp_path):
    sigma = np.full(blurred.shape[:2], 1.5, np.float32)
    expected = kpac.deblur(blurred, method="map", sigma=sigma).image
    np.save(tmp_path / "sigma.npy", sigma)
    write_image(tmp_path / "sigma.tif", sigma)
    for name in (str(tmp_path / "sigma.npy"), tmp_path / "sigma.tif"):
        assert np.array_equal(kpac.deblur(blurred, method="map", sigma=name).image, expected)


def test_the_settings_of_the_literature(blurred, tmp_path):
    unit = (blurred / 255).astype(np.float32)
    made = {}
    for name, settings in TWO_STEP_SETTINGS.items():
        made[name] = kpac.deblur(blurred, method="map", sigma=1.5, deconvolution=name)
        plain = two_step(unit, settings, sigma=1.5).image
        np.testing.assert_allclose(made[name].image, 255 * plain, atol=0.51)
    assert not np.array_equal(made["default"].image, made["paper"].image)
    assert made["paper"].recipe.to_dict()["options"]["deconvolution"] == "paper"
    with pytest.raises(kpac.KpacError, match="deconvolution='best': must be one of"):
        kpac.deblur(blurred, method="ebdb", deconvolution="best")
    write_image(tmp_path / "in.png", blurred)
    np.save(tmp_path / "sigma.npy", np.float32(1.5))
    call = ["deblur", str(tmp_path / "in.png"), "-o", str(tmp_path / "out.png"), "--method", "map"]
    call += ["--sigma-map", str(tmp_path / "sigma.npy")]
    assert main([*call, "--deconvolution", "paper"]) == 0
    assert np.array_equal(read_image(tmp_path / "out.png"), made["paper"].image)


def test_estimating_can_be_cancelled_and_tells_its_progress(blurred):
    for method in ("ebdb", "jnb"):
        steps = kpac.deblur_steps(blurred, kpac.DeblurOptions(method=method))
        seen = [next(steps) for _ in range(4)]
        assert [each.stage for each in seen] == ["estimating"] * 4
        assert seen[3].done > seen[0].done
        assert all(each.total == 100 for each in seen)
        steps.close()
