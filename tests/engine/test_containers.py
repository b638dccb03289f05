"""Tensors, xarrays and quantities come back as what they were."""

import dask.array as da
import numpy as np
import pint
import pytest
import torch
import xarray as xr

import napari_kpac as kpac
from tests.engine.conftest import tiny_net

NET = tiny_net(2, double=False)
UNITS = pint.UnitRegistry()


@pytest.fixture
def pixels(rng):
    return rng.integers(0, 4000, (2, 24, 36)).astype(np.uint16)


def labelled(pixels, dims=("t", "y", "x")):
    return xr.DataArray(
        pixels,
        dims=dims,
        coords={
            "t": ("t", [0.5, 1.5], {"units": "s"}),
            "x": ("x", np.arange(36) * 0.1, {"units": "micrometer"}),
            "well": "B3",
        },
        name="cells",
        attrs={"units": "photons", "objective": "20x"},
    )


def test_an_xarray_keeps_all_that_it_says(pixels):
    image = labelled(pixels)
    result = kpac.deblur(image, NET, "cpu").image
    wanted = kpac.deblur(pixels, NET, "cpu").image
    xr.testing.assert_identical(result, image.copy(data=wanted))
    assert np.array_equal(image.data, pixels)


def test_an_xarray_of_dask_and_one_with_units(pixels):
    wanted = kpac.deblur(pixels, NET, "cpu").image
    lazy = labelled(da.from_array(pixels, chunks=(1, 24, 36)))
    xr.testing.assert_identical(kpac.deblur(lazy, NET, "cpu").image, labelled(wanted))
    measured = labelled(UNITS.Quantity(pixels, "count"))
    result = kpac.deblur(measured, NET, "cpu").image
    assert result.data.units == UNITS.count
    assert np.array_equal(result.data.magnitude, wanted)


def test_a_quantity_keeps_its_units(pixels):
    image = UNITS.Quantity(pixels, "count / second")
    result = kpac.deblur(image, NET, "cpu").image
    assert isinstance(result, UNITS.Quantity)
    assert result.units == image.units
    assert np.array_equal(result.magnitude, kpac.deblur(pixels, NET, "cpu").image)
    blur = kpac.blur_map(image, NET, "cpu")
    assert type(blur) is np.ndarray  # a share, not a number of counts


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.float16, torch.float64])
def test_a_tensor_comes_back_as_a_tensor(pixels, dtype):
    image = torch.from_numpy((pixels // 16).astype(np.uint8)).to(dtype)
    before = image.clone()
    result = kpac.deblur(image, NET, "cpu").image
    assert isinstance(result, torch.Tensor)
    assert result.dtype == dtype
    assert result.device == image.device
    assert np.array_equal(result.numpy(), kpac.deblur(image.numpy(), NET, "cpu").image)
    assert torch.equal(image, before)


def test_what_numpy_does_not_have(pixels):
    image = torch.from_numpy(pixels / 4000).to(torch.bfloat16).requires_grad_()
    result = kpac.deblur(image, NET, "cpu").image
    assert result.dtype == torch.bfloat16
    assert not result.requires_grad
    wanted = kpac.deblur(image.detach().float().numpy(), NET, "cpu").image
    assert torch.equal(result, torch.from_numpy(wanted).to(torch.bfloat16))


def test_colours_first_as_torch_has_them(rng):
    photo = rng.random((24, 36, 3), np.float32)
    image = torch.from_numpy(photo).permute(2, 0, 1)
    result = kpac.deblur(image, NET, "cpu", channel_axis=0, rgb_channels=(0, 1, 2)).image
    wanted = kpac.deblur(photo, NET, "cpu").image
    np.testing.assert_allclose(result.permute(1, 2, 0).numpy(), wanted, rtol=0, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.gpu
def test_a_tensor_stays_on_its_device(pixels):
    image = torch.from_numpy(pixels.astype(np.float32)).cuda()
    assert kpac.deblur(image, NET).image.device == image.device
    assert kpac.blur_map(image, NET).device == image.device


def test_a_pair_and_a_recipe(rng):
    net = tiny_net(2, double=False, views=2)
    left, right = (torch.from_numpy(rng.random((24, 36, 3), np.float32)) for _ in range(2))
    result = kpac.deblur(None, net, "cpu", views=(left, right))
    assert isinstance(result.image, torch.Tensor)
    again = kpac.replay(None, result.recipe, net, views=(left, right))
    assert torch.equal(again.image, result.image)


def test_out_is_used_as_it_is(pixels):
    out = np.empty_like(pixels)
    assert kpac.deblur(torch.from_numpy(pixels), NET, "cpu", out=out).image is out
    with pytest.raises(kpac.KpacError, match="out is a Tensor"):
        kpac.deblur(pixels, NET, "cpu", out=torch.empty(2, 24, 36))


def test_the_steps_return_numpy(pixels):
    from napari_kpac.core.progress import finish

    steps = kpac.deblur_steps(labelled(pixels), kpac.DeblurOptions(device="cpu"), model=NET)
    assert type(finish(steps).image) is np.ndarray


def test_a_blur_map_has_the_coordinates_and_says_nothing_of_photons(pixels):
    image = labelled(pixels)
    values = kpac.blur_map(image, NET, "cpu", upsampling=1)
    assert values.dims == image.dims
    assert values.name == "blur_map"
    assert values.attrs == {}
    xr.testing.assert_identical(values.x, image.x)
    assert np.array_equal(values.data, kpac.blur_map(pixels, NET, "cpu", upsampling=1))


def test_the_colour_axis_is_gone_from_a_map(rng):
    photo = xr.DataArray(
        rng.random((24, 36, 3), np.float32),
        dims=("y", "x", "band"),
        coords={"band": ["r", "g", "b"], "y": np.arange(24) * 2.0},
    )
    values = kpac.blur_map(photo, NET, "cpu", upsampling=1)
    assert values.dims == ("y", "x")
    assert set(values.coords) == {"y"}


@pytest.mark.parametrize("source", ["alpha1", "variance"])
def test_a_detection_is_in_the_same_container(pixels, source):
    image = labelled(pixels)
    found = kpac.detect(image, NET, "cpu", source=source, upsampling=1)
    plain = kpac.detect(pixels, NET, "cpu", source=source, upsampling=1)
    assert (found.values.name, found.mask.name) == ("blur_map", "blurred")
    assert np.array_equal(found.mask.data, plain.mask)
    moved = found.with_threshold("fixed", 0.5)
    assert moved.mask.dims == image.dims
    assert np.array_equal(moved.mask.data, plain.values >= 0.5)
    tensor = kpac.detect(torch.from_numpy(pixels), NET, "cpu", source=source, upsampling=1)
    assert tensor.mask.dtype == torch.bool
    assert np.array_equal(tensor.with_threshold("fixed", 0.5).mask.numpy(), moved.mask.data)
