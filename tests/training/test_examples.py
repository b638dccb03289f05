"""Batches: a function of seed and number, shared by processes, from every kind of data."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.datasets.photographs import PLAIN, Photographs, sharpness
from napari_kpac.training.examples import _parted, open_data
from napari_kpac.training.options import TrainOptions


def test_the_same_numbers_make_the_same_crops(options):
    first, second = (open_data(options()).batch(options(), 3) for _ in range(2))
    assert torch.equal(first.blurred, second.blurred)
    assert torch.equal(first.radius, second.radius)
    assert not torch.equal(first.sharp, open_data(options()).batch(options(), 4).sharp)
    assert not torch.equal(first.sharp, open_data(options()).batch(options(seed=1), 3).sharp)


def test_two_processes_share_a_batch(options):
    data, given = open_data(options()), options(batch_size=4)
    whole = data.batch(given, 2)
    parts = [data.batch(given, 2, rank, 2) for rank in (0, 1)]
    assert torch.equal(torch.cat([part.sharp for part in parts]), whole.sharp)
    assert torch.equal(torch.cat([part.blurred for part in parts]), whole.blurred)


def test_a_fixed_batch_stays(options):
    data, given = open_data(options()), options(fixed_batch=True)
    assert torch.equal(data.batch(given, 0).sharp, data.batch(given, 9).sharp)
    assert torch.equal(data.held_out(given, 1).sharp, data.batch(given, 0).sharp[1:])


def test_values_and_shapes(options):
    examples = open_data(options(dual=True)).batch(options(dual=True), 0)
    assert examples.sharp.shape == (2, 3, 32, 32)
    assert -1 <= float(examples.sharp.min()) < float(examples.sharp.max()) <= 1
    assert examples.radius.shape == (2, 32, 32)
    assert 0 <= float(examples.radius.min()) <= float(examples.radius.max()) <= 2
    left, right = examples.views
    assert left.shape == right.shape == (2, 3, 32, 32)


def test_scenes_in_focus_stay_as_they_are(photos):
    how = replace(PLAIN, shot=0, read=0, highlights=0)
    source = Photographs(sorted(photos.iterdir()))
    pair = source.crop(np.random.default_rng(0), 64, how, "focused")
    assert np.abs(pair.blurred - pair.sharp).max() <= 0.5 / 255 + 1e-6
    assert not pair.radius.any()


def test_noise_is_added_as_asked(photos):
    how = replace(PLAIN, shot=0, read=0, highlights=0, noise_probability=1, noise=0.03)
    source = Photographs(sorted(photos.iterdir()))
    crops = [source.crop(np.random.default_rng(i), 64, how, "focused") for i in range(60)]
    sigmas = [(pair.blurred - pair.sharp).std() for pair in crops]
    # The square of a uniform number has the mean 1/3; where it grows with the signal, a little
    # more or less; what is darker than black or brighter than white is cut off.
    assert max(sigmas) < 0.03 * np.sqrt(1.8)
    assert 0.006 < np.mean(sigmas) < 0.013


def test_sharpness_tells_blurred_patches(photos):
    from skimage import data
    from skimage.filters import gaussian

    sharp = data.astronaut()[:256, :256]
    levels = [sharpness(sharp)] + [
        sharpness((255 * gaussian(sharp, sigma, channel_axis=2)).astype(np.uint8))
        for sigma in (1, 2, 4)
    ]
    assert levels == sorted(levels, reverse=True)
    assert levels[0] > 0.3 > levels[2]
    assert sharpness(np.full((64, 64, 3), 90, np.uint8)) == 0


def test_blurred_patches_are_passed_over(tmp_path):
    from skimage import data, io
    from skimage.filters import gaussian

    image = data.astronaut()[:300, :300].copy()
    image[:, :200] = (255 * gaussian(image, 4, channel_axis=2)).astype(np.uint8)[:, :200]
    io.imsave(tmp_path / "half.png", image)

    def mean_sharpness(threshold: float) -> float:
        how = replace(PLAIN, shrink=1, sharpness=threshold)
        source = Photographs([tmp_path / "half.png"])
        crops = (source.crop(np.random.default_rng(i), 80, how, "focused").sharp for i in range(12))
        return float(np.mean([sharpness((255 * crop).astype(np.uint8)) for crop in crops]))

    assert mean_sharpness(0.3) > mean_sharpness(0.0) + 0.05


def test_pairs_and_dpdd(photos, tmp_path):
    made = tmp_path / "dpdd"
    options = SynthesisOptions(per_photo=2, val=0.34, test=0.0, max_radius=2, dual=True)
    finish(synthesise([photos], made, options))
    given = TrainOptions(kind="dpdd", root=str(made), crop_size=64, dual=True)
    data = open_data(given)
    assert data.batch(given, 0).views is not None
    assert data.batch(given, 0).radius is not None
    assert data.held_out(given, 0).sharp.shape == (1, 3, 64, 64)
    root = made / "train_c"
    given = TrainOptions(kind="pairs", root=str(root), crop_size=64)
    assert open_data(given).batch(given, 0).views is None


def test_photographs_that_cannot_be_used_are_named(photos, tmp_path):
    import shutil

    for photo in photos.iterdir():
        shutil.copy(photo, tmp_path)
    (tmp_path / "broken.png").write_bytes(b"no image")
    given = TrainOptions(root=str(tmp_path), crop_size=64)
    with pytest.raises(FileError, match=r"broken\.png"):
        open_data(given)
    skipping = TrainOptions(root=str(tmp_path), crop_size=64, skip_bad=True)
    assert list(open_data(skipping).skipped) == [str(tmp_path / "broken.png")]
    with pytest.raises(FileError, match="at least 300x300 are needed"):
        open_data(TrainOptions(root=str(photos), crop_size=256))


def test_missing_data_is_said(tmp_path):
    with pytest.raises(ConfigError, match="name its folder"):
        open_data(TrainOptions())
    with pytest.raises(FileError, match="nowhere"):
        open_data(TrainOptions(root=str(tmp_path / "nowhere")))
    with pytest.raises(ConfigError, match="no photographs"):
        open_data(TrainOptions(root=str(tmp_path)))


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_parts_are_whole(count):
    train, held = _parted(range(count), 0.1)
    assert train
    assert held
    if count > 1:
        assert sorted(train + held) == list(range(count))
        assert len(held) == max(1, round(0.1 * count))
