"""Dtypes, ranges and axes, end to end with a tiny network."""

import dask.array as da
import numpy as np
import pytest
import torch
import xarray as xr
import zarr

import napari_kpac as kpac
from tests.engine.conftest import tiny_net

NET = tiny_net(2, double=False)
INTEGERS = [np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64]
FLOATS = [np.float16, np.float32, np.float64]


def deblur(image, **kwargs):
    return kpac.deblur(image, kwargs.pop("net", NET), "cpu", **kwargs)


def ramp(dtype, shape=(21, 34)):
    values = np.linspace(0, 1, int(np.prod(shape))).reshape(shape) ** 2
    if np.dtype(dtype).kind == "f":
        return values.astype(dtype)
    info = np.iinfo(dtype)
    return (values * (min(info.max, 4000) - 5)).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS + [">u2", ">f4"])
@pytest.mark.parametrize("shape", [(21, 34), (21, 34, 3), (21, 34, 4), (2, 21, 34)])
def test_shape_and_dtype_are_kept(dtype, shape):
    image = ramp(dtype, shape)
    original = image.copy()
    result = deblur(image)
    assert result.image.shape == image.shape
    assert result.image.dtype == image.dtype
    assert np.isfinite(result.image.astype(float)).all()
    assert np.array_equal(image, original)
    if shape[-1] == 4:
        assert np.array_equal(result.image[..., 3], image[..., 3])
    assert not np.array_equal(result.image, image)


@pytest.mark.parametrize("rule", ["dtype", "unit", "percentile", (10.0, 300.0)])
def test_the_range_is_linear_recorded_and_reversed(rule, rng):
    image = rng.normal(100, 50, (24, 32))
    result = deblur(image, range=rule)
    used = result.recipe.environment["range"]
    low, high = used["low"], used["high"]
    net = NET
    x = torch.from_numpy(((image - low) / (high - low) * 2 - 1).astype(np.float32))
    y = net(x.expand(1, 3, -1, -1)).detach()[0].mean(dim=0).numpy()
    expected = (y + 1) / 2 * (high - low) + low
    np.testing.assert_allclose(result.image, expected, rtol=1e-4, atol=1e-3 * (high - low))


def test_twelve_bits_in_sixteen_do_not_look_black(rng):
    image = rng.integers(0, 4096, (32, 32)).astype(np.uint16)
    used = deblur(image).recipe.environment["range"]
    assert used["rule"] == "percentile"
    assert 3900 < used["high"] < 4096
    assert deblur(image, range="dtype").recipe.environment["range"]["high"] == 65535


def test_automatic_ranges(rng):
    unit = rng.random((16, 16))
    assert deblur(unit).recipe.environment["range"] == {"low": 0, "high": 1, "rule": "unit"}
    assert deblur(unit * 7).recipe.environment["range"]["rule"] == "percentile"
    grey = (unit * 255).astype(np.uint8)
    assert deblur(grey).recipe.environment["range"] == {"low": 0, "high": 255, "rule": "dtype"}


def test_percentiles_are_those_of_the_whole_stack(rng):
    stack = np.stack([rng.integers(0, 100, (40, 40)), rng.integers(900, 1000, (40, 40))])
    used = deblur(stack.astype(np.uint16)).recipe.environment["range"]
    np.testing.assert_allclose(
        (used["low"], used["high"]), np.percentile(stack, (0.1, 99.9)), atol=1e-9
    )


@pytest.mark.parametrize("value", [0, 7, 1e30, -1e-30])
def test_constant_images(value):
    image = np.full((9, 10), value, dtype=np.float64)
    assert np.isfinite(deblur(image).image).all()


def test_integers_saturate_instead_of_wrapping():
    image = np.zeros((16, 16), np.uint8)
    image[::2] = 255
    strong = kpac.Modulation(strength=50)
    values = deblur(image, modulation=strong).image
    plain = deblur(image.astype(np.float64), range=(0, 255), modulation=strong).image
    assert plain.min() < 0 or plain.max() > 255
    assert np.array_equal(values, np.clip(np.rint(plain), 0, 255).astype(np.uint8))
    huge = np.full((8, 8), np.iinfo(np.uint64).max, np.uint64)
    assert deblur(huge, modulation=kpac.Modulation(strength=0)).image.min() > 2**63


def test_nan_and_infinity_stay_where_they_are(rng):
    image = rng.random((40, 40, 3))
    clean = deblur(image, range="unit").image
    broken = image.copy()
    broken[5, 6] = np.nan
    broken[20, 3, 1] = np.inf
    result = deblur(broken, range="unit").image
    bad = ~np.isfinite(broken)
    assert np.isnan(result[5, 6]).all()
    assert np.isinf(result[20, 3, 1])
    assert np.isfinite(result[~bad]).all()
    far = np.ones((40, 40), bool)
    far[:36, :24] = False
    assert np.abs(result - clean)[far].max() < 0.1


@pytest.mark.parametrize("options", [{}, {"range": "unit"}, {"range": (0, 1)}, {"method": "ebdb"}])
def test_an_image_of_nothing_but_nan_is_refused(options):
    for value in (np.nan, np.inf):
        with pytest.raises(kpac.KpacError, match="no finite value: every pixel is NaN"):
            kpac.deblur(np.full((9, 9), value), NET, "cpu", **options)
    with pytest.raises(kpac.KpacError, match="no finite value"):
        kpac.Session(np.full((9, 9, 3), np.nan), NET, "cpu")
    for source in ("alpha1", "variance"):
        with pytest.raises(kpac.KpacError, match="no finite value"):
            kpac.detect(np.full((9, 9), np.nan), source=source)


def test_an_empty_slice_does_not_stop_a_stack(rng):
    stack = rng.random((3, 40, 24))
    stack[0] = np.nan
    result = deblur(stack).image
    assert np.isnan(result[0]).all()
    assert np.isfinite(result[1:]).all()


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3), (3, 1), (7, 13), (8, 8), (9, 17)])
def test_any_size(size, rng):
    image = rng.random(size)
    result = deblur(image, net=tiny_net(3), range="unit")
    assert result.image.shape == size
    assert np.isfinite(result.image).all()
    assert result.alpha_at_image().shape == (2, 3, *size)


def test_padding_reflects(rng):
    net = tiny_net(2)
    image = rng.random((9, 14))
    padded = np.pad(image, ((0, 3), (0, 2)), mode="reflect")
    whole = deblur(padded, net=net, range="unit").image
    np.testing.assert_allclose(
        deblur(image, net=net, range="unit").image, whole[:9, :14], atol=1e-12
    )


def test_stacks_are_processed_slice_by_slice(rng):
    stack = rng.random((2, 3, 12, 16))
    result = deblur(stack, range="unit")
    for index in np.ndindex(2, 3):
        alone = deblur(stack[index], range="unit")
        assert np.array_equal(result.image[index], alone.image)
        assert np.array_equal(result.alpha[index], alone.alpha)
    assert result.alpha_at_image().shape == (2, 3, 2, 3, 12, 16)


def test_rgb_can_be_told_from_three_wide_grey(rng):
    image = rng.random((20, 24, 3))
    colour = deblur(image, range="unit").image
    grey = deblur(image, range="unit", rgb=False).image
    assert colour.shape == grey.shape == image.shape
    assert not np.allclose(colour, grey)
    with pytest.raises(kpac.KpacError, match="rgb=True"):
        deblur(image[..., :2], rgb=True)
    assert deblur(image[:, :, 0][:, :3]).image.shape == (20, 3)


def test_chosen_channels_as_rgb(rng):
    image = rng.random((2, 4, 12, 16))
    result = deblur(image, range="unit", channel_axis=1, rgb_channels=(2, 0, 3)).image
    for time in range(2):
        together = deblur(np.moveaxis(image[time, [2, 0, 3]], 0, -1), range="unit").image
        assert np.array_equal(np.moveaxis(result[time, [2, 0, 3]], 0, -1), together)
        assert np.array_equal(result[time, 1], deblur(image[time, 1], range="unit").image)
    for bad in ({"channel_axis": 1}, {"channel_axis": 1, "rgb_channels": (0, 0, 1)},
                {"channel_axis": 3, "rgb_channels": (0, 1, 2)},
                {"channel_axis": 1, "rgb_channels": (0, 1, 9)}):  # fmt: skip
        with pytest.raises(kpac.KpacError):
            deblur(image, **bad)


def test_lazy_arrays(rng, tmp_path):
    stack = rng.random((3, 20, 24)).astype(np.float32)
    expected = deblur(stack, range="unit").image
    loaded = []

    def load(block, block_info=None):
        loaded.append(block_info[0]["array-location"][0][0] if block_info else None)
        return block

    lazy = da.from_array(stack, chunks=(1, -1, -1)).map_blocks(load, dtype=stack.dtype)
    assert np.array_equal(deblur(lazy, range="unit").image, expected)
    stored = zarr.create_array(tmp_path / "a.zarr", shape=stack.shape, dtype="f4", chunks=(1, 8, 8))
    stored[:] = stack
    assert np.array_equal(deblur(stored, range="unit").image, expected)
    named = xr.DataArray(stack, dims=("time", "y", "x"))
    assert np.array_equal(deblur(named, range="unit").image, expected)
    pyramid = [stack, stack[:, ::2, ::2], stack[:, ::4, ::4]]
    assert np.array_equal(deblur(pyramid, range="unit").image, expected)
    nested = stack[0].astype(float).tolist()
    assert deblur(nested, range="unit").image.shape == (20, 24)


def test_out_receives_the_result(rng, tmp_path):
    stack = rng.random((2, 20, 24)).astype(np.float32)
    expected = deblur(stack, range="unit").image
    target = zarr.create_array(tmp_path / "o.zarr", shape=stack.shape, dtype="f4", chunks=(1, 8, 8))
    assert deblur(stack, range="unit", out=target).image is target
    assert np.array_equal(target[:], expected)
    with pytest.raises(kpac.KpacError, match="share memory"):
        deblur(stack, range="unit", out=stack)
    with pytest.raises(kpac.KpacError, match="shape"):
        deblur(stack, range="unit", out=np.empty((3, 20, 24), np.float32))


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8), bool),
        np.zeros((8, 8), complex),
        np.array([[object()]]),
        np.array([["a"]]),
        np.zeros(8),
        np.zeros((0, 8)),
        np.float32(3),
        None,
        "image.png",
        [[1, 2], [3]],
    ],
    ids=str,
)
def test_what_is_no_image_is_refused(image):
    with pytest.raises(kpac.KpacError):
        deblur(image)


@pytest.mark.parametrize(
    "options",
    [
        {"range": "bright"},
        {"range": (3, 1)},
        {"range": (0, float("nan"))},
        {"tile": 0},
        {"tile": "large"},
        {"memory": "lots"},
        {"memory": -1},
        {"precision": "double"},
        {"modulation": kpac.Modulation(gains=[1, 2])},
        {"modulation": kpac.Modulation(override={(3, 1): 0.5})},
        {"modulation": kpac.Modulation(labels=np.zeros((3, 3), int), label_gains={1: [1, 1, 1]})},
        {"views": (np.zeros((8, 8)),) * 2},
    ],
    ids=lambda options: str(options)[:40],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(kpac.KpacError):
        deblur(np.zeros((16, 16)), **options)


@pytest.mark.parametrize("device", ["tpu", "cuda:99", ""])
def test_an_unknown_device_lists_the_known_ones(device):
    with pytest.raises(kpac.KpacError, match="cpu"):
        kpac.deblur(np.zeros((8, 8)), NET, device)


@pytest.mark.parametrize(
    "fields",
    [
        {"gains": "loud"},
        {"gains": [[1, 2], [3]]},
        {"gains": [float("nan")] * 5},
        {"strength": float("inf")},
        {"strength": "full"},
        {"label_gains": {1: [1] * 5}},
        {"labels": np.zeros((3, 3))},
        {"override": {(1, 1): np.zeros(3)}},
        {"override": {(1, 1): float("nan")}},
    ],
    ids=str,
)
def test_modulations_that_make_no_sense_are_refused(fields):
    with pytest.raises(kpac.KpacError):
        kpac.Modulation(**fields)


def test_dual_pixel_pairs(rng):
    net = tiny_net(2, views=2)
    left, right, centre = rng.random((3, 20, 24, 3))
    both = deblur(centre, net=net, views=(left, right), range="unit").image
    x = [torch.from_numpy(np.moveaxis(v, -1, 0)[None] * 2 - 1) for v in (centre, left, right)]
    expected = (np.moveaxis(net(x[0], x[1:]).detach()[0].numpy(), 0, -1) + 1) / 2
    np.testing.assert_allclose(both, expected, atol=1e-9)
    alone = deblur(None, net=net, views=(left, right), range="unit").image
    expected = (np.moveaxis(net(None, x[1:]).detach()[0].numpy(), 0, -1) + 1) / 2
    np.testing.assert_allclose(alone, expected, atol=1e-9)
    with pytest.raises(kpac.KpacError, match="dual-pixel"):
        deblur(centre, net=net)
    with pytest.raises(kpac.KpacError, match="same shape"):
        deblur(centre, net=net, views=(left[:-1], right[:-1]))
