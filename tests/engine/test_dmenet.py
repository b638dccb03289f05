"""DMENet on images: in tiles as in one piece, at every size, and wherever an estimator is asked."""

import numpy as np
import pytest
import torch
from skimage import data

import napari_kpac as kpac
from napari_kpac import weights
from napari_kpac.core.errors import ConfigError, DeviceError, RecipeError, WeightsError
from napari_kpac.core.progress import finish
from napari_kpac.detection import detect
from napari_kpac.engine.dmenet import BYTES_PER_PIXEL, defocus_steps, halo_of, tile_side
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.network import DMENetConfig, build_dmenet
from tests import dmenet_reference as reference

PHOTO = data.astronaut()[60:130, 180:251]


@pytest.fixture
def installed(tmp_path):
    """An authors' file with random weights, installed as ``defocus``."""
    reference.write_named(tmp_path / "file.npz", reference.random_layers())
    return weights.install(tmp_path / "file.npz", "defocus")


def small_net(width=2):
    return build_dmenet(DMENetConfig(width, auxiliary=False), seed=3).requires_grad_(False).eval()


def test_tiles_make_the_map_of_the_whole_image(installed):
    net = weights.load_dmenet(installed.path)
    image = np.random.default_rng(0).uniform(0, 1, (70, 930, 3)).astype(np.float32)
    whole = finish(defocus_steps(image, net, "10 GB"))
    budget = BYTES_PER_PIXEL * 4 * 80 * 640
    assert tile_side((80, 944), net, budget) == 256
    steps = list(defocus_steps(image, net, budget))
    tiled = finish(defocus_steps(image, net, budget))
    assert steps[-1].done == steps[-1].total == 4 * net.STAGES
    assert whole.shape == tiled.shape == (70, 930)
    assert np.ptp(whole) > 0.1
    np.testing.assert_allclose(tiled, whole, atol=1e-4)


def test_a_budget_below_the_smallest_tile_is_refused():
    net = small_net()
    least = (16 + 2 * halo_of(net)) ** 2 * BYTES_PER_PIXEL * 2
    assert tile_side((4096, 4096), net, least) == 16
    with pytest.raises(DeviceError, match=r"smallest tile.*more memory"):
        tile_side((4096, 4096), net, least - 1)
    # An image that is smaller than such a tile needs less.
    assert tile_side((32, 32), net, least - 1) == 32


@pytest.mark.parametrize("shape", [(2, 2), (17, 33, 3), (16, 16), (31, 2, 3)])
def test_every_size_keeps_its_pixels(shape):
    image = np.random.default_rng(1).uniform(0, 1, shape).astype(np.float32)
    sigma = finish(defocus_steps(image, small_net()))
    assert sigma.shape == shape[:2]
    assert sigma.dtype == np.float32
    assert np.isfinite(sigma).all()
    assert sigma.min() >= 0


def test_the_map_is_that_of_the_description(installed):
    """The numbers of the independent forward pass, from a file to sigma in pixels."""
    image = (PHOTO[:64, :48] / 255).astype(np.float32)
    defocus = reference.forward(reference.random_layers(), image)
    expected = np.maximum(0, (15 * defocus - 1) / 2)
    found = finish(prepare_estimator("dmenet", "defocus").estimate(image))
    np.testing.assert_allclose(found, expected, atol=1e-3)
    detected = detect(PHOTO[:64, :48], "defocus", source="dmenet", range="dtype")
    np.testing.assert_allclose(detected.values, np.clip(expected / 5, 0, 1), atol=1e-3)
    assert detected.model_name == "defocus"
    assert detected.model_sha256 == installed.card.sha256


def test_deblurring_in_two_steps(installed):
    result = kpac.deblur(PHOTO, method="dmenet", model="defocus")
    assert result.image.shape == PHOTO.shape
    assert result.image.dtype == PHOTO.dtype
    assert result.sigma.shape == PHOTO.shape[:2]
    assert result.recipe.model_sha256 == installed.card.sha256
    # The only one that is installed needs no name.
    again = kpac.deblur(PHOTO, method="dmenet")
    np.testing.assert_array_equal(again.image, result.image)


def test_a_replay_with_other_weights_is_refused(installed, tmp_path):
    from napari_kpac.engine.recipe import check_model

    result = kpac.deblur(PHOTO, method="dmenet", model="defocus")
    check_model(result.recipe, "defocus")
    reference.write_named(tmp_path / "other.npz", reference.random_layers(seed=5))
    weights.install(tmp_path / "other.npz", "defocus", overwrite=True)
    with pytest.raises(RecipeError, match="other weights"):
        check_model(result.recipe, "defocus")


def test_each_kind_of_network_is_refused_where_the_other_is_needed(installed):
    del installed
    with pytest.raises(WeightsError, match="is a DMENet model"):
        kpac.deblur(PHOTO, "defocus")
    with pytest.raises(WeightsError, match="is a KPAC model"):
        detect(PHOTO, "kpac-3level", source="dmenet")
    net = weights.load_dmenet("defocus")
    with pytest.raises(ConfigError, match="KPAC model is needed"):
        kpac.deblur(PHOTO, net)
    with pytest.raises(ConfigError, match="needs a DMENet"):
        detect(PHOTO, kpac.build(kpac.KPACConfig(channels=4)), source="dmenet")
    assert detect(PHOTO, net, source="dmenet").values.shape == PHOTO.shape[:2]


def test_cancelling_leaves_nothing_behind():
    steps = defocus_steps(np.zeros((64, 64), np.float32), small_net())
    assert next(steps).done == 0
    assert next(steps).done == 1
    steps.close()
    assert not torch.is_inference_mode_enabled()
    with pytest.raises(StopIteration):
        next(steps)


def test_an_evaluation_compares_it_like_any_model(installed, tmp_path, capsys):
    """Its map deconvolves in a row of its own, beside the networks that deblur."""
    from napari_kpac.cli import main
    from napari_kpac.images import write_image

    del installed
    photo = data.astronaut()[:64, 160:240]
    for name, image in (("blurred", kpac.defocus(photo, 2.0).image), ("sharp", photo)):
        write_image(tmp_path / "pairs" / name / "1.png", image)
    assert main([
        "evaluate", "--dataset", "pairs", "--root", str(tmp_path / "pairs"), "--model", "defocus",
        "-o", str(tmp_path / "report"), "--no-lpips",
    ]) == 0  # fmt: skip
    assert "defocus" in capsys.readouterr().out
