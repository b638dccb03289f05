"""Larger than memory: block by block, and equal to what memory would give."""

import numpy as np
import pytest
import tifffile
import zarr

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.engine.arrays import ChunkedPlane
from napari_kpac.images import read_image
from napari_kpac.images.arrays import MappedArray


@pytest.fixture
def large(rng):
    return rng.integers(0, 60000, (300, 420, 3)).astype(np.uint16)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def by_chunk(monkeypatch):
    """Take every image for a large one, and note the size of every read."""
    monkeypatch.setattr("napari_kpac.engine.job.CHUNKED_SHARE", 0.0)
    monkeypatch.setattr("napari_kpac.images.tiff.WHOLE_UP_TO_BYTES", 0)
    monkeypatch.setattr("napari_kpac.images.tiff.TILED_FROM_BYTES", 0)
    monkeypatch.setattr("napari_kpac.images.tiff.TILE_SIDE_PX", 64)
    reads, original = [], ChunkedPlane.__getitem__

    def noted(self, place):
        part = original(self, place)
        reads.append(part.shape[0] * part.shape[1] / (self.shape[0] * self.shape[1]))
        return part

    monkeypatch.setattr(ChunkedPlane, "__getitem__", noted)
    return reads


def write(kind, path, image):
    if kind == "tiled":
        tifffile.imwrite(path, image, photometric="rgb", tile=(64, 64), compression="zlib")
    elif kind == "contiguous":
        tifffile.imwrite(path, image, photometric="rgb")
    else:
        array = zarr.create_array(
            str(path), shape=image.shape, dtype=image.dtype,
            chunks=(64, 64) if image.ndim == 2 else (64, 64, image.shape[-1]),
        )  # fmt: skip
        array[:] = image


@pytest.mark.parametrize("kind", ["tiled", "contiguous", "zarr"])
@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_a_large_image(large, models, tmp_path, by_chunk, kind, dtype):
    image = large if dtype == np.uint16 else (large / 60000).astype(np.float32)
    suffix = ".zarr" if kind == "zarr" else ".tif"
    source, target = tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"
    write(kind, source, image)
    options = kpac.DeblurOptions(model=str(models[0]), tile=64)
    report = finish(kpac.deblur_files([source], target, options))
    assert not report.failed, report.failed[0].problem
    expected = kpac.deblur(image, models[0], tile=64).image
    assert np.array_equal(read_image(target), expected)
    assert by_chunk
    # A tile with its surroundings, or a band that is searched for gaps.
    assert max(by_chunk) < (0.2 if dtype == np.uint16 else 0.9)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_transparency_and_gaps(large, models, tmp_path, by_chunk):
    rgba = np.dstack([large, large[..., 0]]).astype(np.float32) / 60000
    rgba[40:50, 60:90, 1] = np.nan
    write("zarr", tmp_path / "a.zarr", rgba)
    options = kpac.DeblurOptions(model=str(models[0]), tile=128)
    finish(kpac.deblur_files([tmp_path / "a.zarr"], tmp_path / "b.zarr", options))
    expected = kpac.deblur(rgba, models[0], tile=128).image
    assert np.array_equal(read_image(tmp_path / "b.zarr"), expected, equal_nan=True)


def test_a_python_call_reads_by_chunk_too(large, models, tmp_path, by_chunk):
    write("zarr", tmp_path / "a.zarr", large)
    source = zarr.open(str(tmp_path / "a.zarr"), mode="r")
    result = kpac.deblur(source, models[0], tile=64)
    assert by_chunk
    assert np.array_equal(result.image, kpac.deblur(large, models[0], tile=64).image)


@pytest.mark.parametrize("suffix", [".tif", ".zarr"])
def test_a_long_stack_is_never_whole_in_memory(models, tmp_path, rng, monkeypatch, suffix):
    stack = rng.integers(0, 255, (9, 40, 56), dtype=np.uint8)
    source = tmp_path / f"a{suffix}"
    if suffix == ".tif":
        tifffile.imwrite(source, stack, photometric="minisblack", compression="zlib")
    else:
        zarr.create_array(str(source), shape=stack.shape, dtype=stack.dtype)[:] = stack
    monkeypatch.setattr("napari_kpac.images.tiff.WHOLE_UP_TO_BYTES", 0)
    monkeypatch.setattr("napari_kpac.batch.deblur.MAX_COLLECTED_BYTES", 0)
    largest, original = [], np.empty

    def noted(shape, *args, **kwargs):
        largest.append(shape)
        return original(shape, *args, **kwargs)

    monkeypatch.setattr("napari_kpac.images.formats.np.empty", noted)
    writes, original_write = [], MappedArray.__setitem__

    def noted_write(self, place, pixels):
        writes.append(pixels.shape)
        original_write(self, place, pixels)

    monkeypatch.setattr(MappedArray, "__setitem__", noted_write)
    options = kpac.DeblurOptions(model=str(models[0]))
    target = tmp_path / f"b{suffix}"
    report = finish(kpac.deblur_files([source], target, options))
    assert not report.failed, report.failed[0].problem
    assert stack.shape not in largest
    assert writes == ([(40, 56)] * 9 if suffix == ".tif" else [])
    assert np.array_equal(read_image(target), kpac.deblur(stack, models[0]).image)
