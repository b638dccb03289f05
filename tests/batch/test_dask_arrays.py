"""dask arrays in, dask arrays out."""

import dask.array as da
import numpy as np
import pytest

import napari_kpac as kpac


@pytest.fixture
def stack():
    rng = np.random.default_rng(1)
    return rng.integers(100, 4000, (3, 2, 40, 56)).astype(np.uint16)


def lazily(array, **chunks):
    return da.from_array(array, chunks=(2, 1, 17, 56) if array.ndim == 4 else "auto", **chunks)


def test_equal_to_the_direct_result(stack, models):
    options = kpac.DeblurOptions(model=str(models[0]))
    lazy = kpac.deblur_dask(lazily(stack), options)
    assert isinstance(lazy, da.Array)
    assert (lazy.shape, lazy.dtype) == (stack.shape, stack.dtype)
    assert lazy.chunksize == (1, 1, 40, 56)
    expected = kpac.deblur(stack, models[0]).image
    for scheduler in ("synchronous", "threads"):
        assert np.array_equal(lazy.compute(scheduler=scheduler), expected)


def test_only_what_is_looked_at_is_computed(stack, models):
    seen = []

    def note(block, block_info=None):
        seen.append(tuple(start for start, _ in block_info[0]["array-location"][:2]))
        return block

    source = da.from_array(stack, chunks=(1, 1, 40, 56)).map_blocks(note, dtype=stack.dtype)
    options = kpac.DeblurOptions(model=str(models[0]), range=(100, 4000))
    lazy = kpac.deblur_dask(source, options)
    assert seen == []
    from napari.components import ViewerModel

    viewer = ViewerModel()
    layer = viewer.add_image(lazy, contrast_limits=(0, 4000))
    viewer.dims.current_step = (2, 1, 0, 0)
    shown = np.asarray(layer._slice.image.raw)
    index = viewer.dims.current_step[:2]
    assert index in seen
    assert len(set(seen)) < 6
    expected = kpac.deblur(stack[index], models[0], range=(100, 4000)).image
    assert np.array_equal(shown, expected)


def test_colours_channels_views_and_steering(stack, models):
    single, dual = (kpac.DeblurOptions(model=str(path)) for path in models)
    rgb = np.moveaxis(np.stack([stack[:, 0]] * 3), 0, -1).astype(np.float32) / 4000
    gains = kpac.Modulation(gains=[1, 0, 0.5], strength=0.7)
    lazy = kpac.deblur_dask(da.from_array(rgb, chunks=(1, 20, 20, 3)), single, gains)
    assert np.array_equal(lazy.compute(), kpac.deblur(rgb, models[0], modulation=gains).image)
    axes = kpac.DeblurOptions(model=str(models[0]), channel_axis=0, rgb_channels=(2, 0, 1))
    lazy = kpac.deblur_dask(da.from_array(stack[:, 0], chunks=1), axes)
    expected = kpac.deblur(stack[:, 0], models[0], channel_axis=0, rgb_channels=(2, 0, 1)).image
    assert np.array_equal(lazy.compute(), expected)
    pair = (stack[:, 0], stack[:, 1])
    lazy = kpac.deblur_dask(None, dual, views=tuple(map(da.from_array, pair)))
    assert np.array_equal(lazy.compute(), kpac.deblur(None, models[1], views=pair).image)


def test_mistakes(stack, models):
    options = kpac.DeblurOptions(model=str(models[0]))
    with pytest.raises(kpac.KpacError, match="dask arrays"):
        kpac.deblur_dask(stack, options)
    pair = (da.zeros((40, 56)), da.zeros((40, 57)))
    with pytest.raises(kpac.KpacError, match="same shape"):
        kpac.deblur_dask(None, options, views=pair)


def test_an_empty_plane_does_not_stop_the_others(stack, models):
    values = stack[:, 0].astype(np.float32) / 4000
    values[1] = np.nan
    lazy = kpac.deblur_dask(da.from_array(values), kpac.DeblurOptions(model=str(models[0])))
    np.testing.assert_array_equal(lazy.compute(), kpac.deblur(values, models[0]).image)
