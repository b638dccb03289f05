"""Pairs that are too small for what is wanted of them are refused when a dataset is opened."""

import numpy as np
import pytest

from napari_kpac import KpacError
from napari_kpac.datasets import DataOptions, open_dpdd, open_folders, open_pairs
from napari_kpac.datasets.pairs import write_radius
from napari_kpac.training import TrainOptions, train
from napari_kpac.training.examples import open_data
from tests.datasets.making import image, save


def fill(root, sizes, folders=("blurred", "sharp")):
    for i, (height, width) in enumerate(sizes):
        pixels = image(i, height, width, dtype=np.uint8)
        for folder in folders:
            save(root / folder / f"{i}.png", pixels)
    return root


def test_folders_name_all_that_is_too_small_with_its_size(tmp_path):
    root = fill(tmp_path, [(64, 80), (63, 80), (80, 40)])
    with pytest.raises(KpacError) as error:
        open_folders(root, smallest=64)
    text = str(error.value)
    assert text.startswith("4 file(s) cannot be used")
    for folder in ("blurred", "sharp"):
        assert f"{root / folder / '1.png'}: is 80x63 pixels; at least 64x64 are needed" in text
        assert f"{root / folder / '2.png'}: is 40x80 pixels; at least 64x64 are needed" in text
    assert "0.png" not in text


def test_a_side_that_just_suffices_is_enough(tmp_path):
    root = fill(tmp_path, [(64, 64)])
    assert len(open_folders(root, smallest=64)) == 1
    assert len(open_folders(root)) == 1


def test_small_pairs_can_be_skipped(tmp_path):
    root = fill(tmp_path, [(64, 80), (63, 80)])
    pairs = open_folders(root, smallest=64, skip_bad=True)
    assert [pairs.name(i) for i in range(len(pairs))] == ["0"]
    assert len(pairs.skipped) == 2
    with pytest.raises(KpacError, match="nothing else is there"):
        open_folders(root, smallest=100, skip_bad=True)


def test_pairs_of_different_size_are_named(tmp_path):
    save(tmp_path / "blurred/a.png", image(0, 64, 80))
    save(tmp_path / "sharp/a.png", image(0, 64, 72))
    with pytest.raises(KpacError, match=r"a\.png: is 72x64 pixels, but .*a\.png is 80x64"):
        open_folders(tmp_path, smallest=32)


def test_dpdd(tmp_path):
    fill(tmp_path, [(40, 50), (30, 50)], ("train_c/source", "train_c/target"))
    for i, shape in enumerate([(40, 50), (30, 50)]):
        write_radius(tmp_path / f"train_c/radius/{i}.tif", np.zeros(shape, np.float32))
    assert len(open_dpdd(tmp_path, "train", smallest=30)) == 2
    with pytest.raises(KpacError, match=r"1\.png: is 50x30 pixels; at least 40x40 are needed"):
        open_dpdd(tmp_path, "train", smallest=40)


@pytest.mark.parametrize("kind", ["pairs", "dpdd"])
def test_options_hand_it_on(tmp_path, kind):
    fill(tmp_path, [(40, 50)])
    fill(tmp_path, [(40, 50)], ("train_c/source", "train_c/target"))
    assert len(open_pairs(DataOptions(kind=kind, root=tmp_path, smallest=40))) == 1
    with pytest.raises(KpacError, match="at least 41x41 are needed"):
        open_pairs(DataOptions(kind=kind, root=tmp_path, smallest=41))


def test_training_refuses_them_before_its_first_step(tmp_path):
    """The largest crop of all phases counts."""
    root = fill(tmp_path / "data", [(64, 64), (64, 64), (56, 64)])
    fits = TrainOptions(kind="pairs", root=str(root), crop_size=56)
    assert open_data(fits).batch(fits, 0).sharp.shape == (2, 3, 56, 56)
    later = ({"part": 0.5}, {"part": 0.5, "crop_size": 64})
    options = TrainOptions(kind="pairs", root=str(root), crop_size=32, phases=later)
    with pytest.raises(KpacError, match=r"2\.png: is 64x56 pixels; at least 64x64 are needed"):
        next(train(options, tmp_path / "run"))
    assert not (tmp_path / "run" / "options.json").exists()


def test_pairs_that_are_mixed_into_photographs_are_checked_too(tmp_path):
    from skimage import data

    save(tmp_path / "photos/a.png", data.coffee()[:200, :200])
    pairs = fill(tmp_path / "pairs", [(64, 64), (20, 64)])
    options = TrainOptions(root=str(tmp_path / "photos"), pairs_root=str(pairs), crop_size=64)
    with pytest.raises(KpacError, match=r"1\.png: is 64x20 pixels; at least 64x64 are needed"):
        open_data(options)
