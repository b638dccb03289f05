"""DPDD in its published folders: pairing, bits, portraits, views, and every fault by name."""

import numpy as np
import pytest
from skimage import data

from napari_kpac import KpacError
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, open_dpdd, read_radius, synthesise
from napari_kpac.images import read_image
from tests.datasets.making import cut_off, image, save

SIZES = [(24, 36), (36, 24), (24, 36)]


@pytest.fixture
def root(tmp_path):
    """Three scenes, the second a portrait; every shot has a number of its own."""
    folder = tmp_path / "dpdd"
    for split in ("train", "test"):
        for i, size in enumerate(SIZES):
            for j, view in enumerate("clr"):
                save(folder / f"{split}_{view}/source/1P0A{2 * i:04}.png", image(10 * i + j, *size))
                save(
                    folder / f"{split}_{view}/target/1P0A{2 * i + 1:04}.png",
                    image(10 * i + 5, *size),
                )
    (folder / "train_c/source/Thumbs.db").write_bytes(b"")
    (folder / "train_c/source/._1P0A0000.png").write_bytes(b"left by another system")
    return folder


def test_pairs_follow_the_order_and_keep_their_sizes(root):
    pairs = open_dpdd(root, "train", bits=16)
    assert len(pairs) == 3
    assert not pairs.dual
    assert pairs.skipped == {}
    assert [pairs.name(i) for i in range(3)] == ["1P0A0000", "1P0A0002", "1P0A0004"]
    for i, pair in enumerate(pairs):
        assert pair.name == pairs.name(i)
        assert pair.blurred.shape == pair.sharp.shape == (*SIZES[i], 3)
        assert pair.blurred.dtype == pair.sharp.dtype == np.float32
        assert pair.views is None
        assert pair.radius is None
        np.testing.assert_allclose(pair.blurred, image(10 * i, *SIZES[i]) / 65535, atol=1e-7)
        np.testing.assert_allclose(pair.sharp, image(10 * i + 5, *SIZES[i]) / 65535, atol=1e-7)


def test_eight_bits_are_the_default(root):
    pair = open_dpdd(root, "test")[0]
    stored = image(0)
    np.testing.assert_allclose(pair.blurred, np.rint(stored / 257) / 255, atol=1e-7)
    assert np.abs(pair.blurred - stored / 65535).max() > 1e-3
    with pytest.raises(KpacError, match="8 or 16 bits, not 12"):
        open_dpdd(root, "test", bits=12)


def test_views_come_when_asked_for(root):
    pairs = open_dpdd(root, "train", dual=True, bits=16)
    assert pairs.dual
    left, right = pairs[1].views
    np.testing.assert_allclose(left, image(11, *SIZES[1]) / 65535, atol=1e-7)
    np.testing.assert_allclose(right, image(12, *SIZES[1]) / 65535, atol=1e-7)


def test_what_synthesise_writes_is_read_with_its_radius(tmp_path):
    sharp = data.coffee()
    for i in range(3):
        save(tmp_path / f"photos/p{i}.png", sharp[i * 40 : i * 40 + 40, :56].copy())
    options = SynthesisOptions(dual=True, bits=16, val=0, test=0, max_radius=3)
    finish(synthesise([tmp_path / "photos"], tmp_path / "out", options))
    pairs = open_dpdd(tmp_path / "out", "train", dual=True, bits=16)
    assert [pairs.name(i) for i in range(3)] == ["p0", "p1", "p2"]
    for i, pair in enumerate(pairs):
        np.testing.assert_allclose(pair.sharp, sharp[i * 40 : i * 40 + 40, :56] / 255, atol=1e-6)
        stored = read_image(tmp_path / f"out/train_r/source/p{i}.png")
        np.testing.assert_allclose(pair.views[1], stored / 65535, atol=1e-7)
        np.testing.assert_array_equal(
            pair.radius, read_radius(tmp_path / f"out/train_c/radius/p{i}.tif")
        )

    # An interrupted run leaves files alone: the names tell which, so no pair is mixed up.
    (tmp_path / "out/train_c/target/p0.png").unlink()
    (tmp_path / "out/train_c/radius/p2.tif").write_bytes(b"")
    with pytest.raises(KpacError) as error:
        open_dpdd(tmp_path / "out", "train")
    assert "2 file(s)" in str(error.value)
    assert "source/p0.png: has no counterpart" in str(error.value)
    assert "radius/p2.tif" in str(error.value)
    left = open_dpdd(tmp_path / "out", "train", skip_bad=True)
    assert [left.name(i) for i in range(len(left))] == ["p1"]
    assert {path.rsplit("/", 1)[1] for path in left.skipped} == {"p0.png", "p2.tif"}


def test_all_bad_files_are_named_at_once(root):
    bad = root / "train_c/source/1P0A0000.png"
    bad.write_bytes(b"no image")
    short = root / "train_c/target/1P0A0003.png"
    cut_off(short)
    turned = save(root / "train_r/source/1P0A0004.png", image(0, 36, 24))
    with pytest.raises(KpacError) as error:
        open_dpdd(root, "train", dual=True)
    message = str(error.value)
    assert "3 file(s)" in message
    assert "skip_bad" in message
    for path in (bad, short, turned):
        assert str(path) in message
    assert "is 24x36 pixels" in message
    with pytest.raises(KpacError, match="nothing else is there"):
        open_dpdd(root, "train", dual=True, skip_bad=True)
    # Without the views, the third pair is sound.
    pairs = open_dpdd(root, "train", skip_bad=True)
    assert (len(pairs), pairs.name(0)) == (1, "1P0A0004")
    assert set(pairs.skipped) == {str(bad), str(short)}


def test_counts_that_differ_are_never_skipped(root):
    (root / "train_c/target/1P0A0003.png").unlink()
    for skip_bad in (False, True):
        with pytest.raises(KpacError, match=r"source holds 3 images and .*target 2"):
            open_dpdd(root, "train", skip_bad=skip_bad)
    (root / "test_l/source/1P0A0002.png").unlink()
    assert len(open_dpdd(root, "test")) == 3
    with pytest.raises(KpacError, match=r"1P0A0002\.png: has no counterpart"):
        open_dpdd(root, "test", dual=True)


def test_missing_folders_are_named(root, tmp_path):
    with pytest.raises(KpacError, match=r"no folder .*val_c; .* holds the splits train, test"):
        open_dpdd(root, "val")
    with pytest.raises(KpacError, match="no split of DPDD"):
        open_dpdd(tmp_path, "train")
    with pytest.raises(KpacError, match="no split is called 'all'"):
        open_dpdd(root, "all")
    for path in (root / "train_c/target").iterdir():
        path.unlink()
    with pytest.raises(KpacError, match=r"no images in .*target"):
        open_dpdd(root, "train")
    (root / "train_c/target").rmdir()
    with pytest.raises(KpacError, match=r"target: cannot be read as a folder"):
        open_dpdd(root, "train")


def test_a_file_that_breaks_after_opening_is_named(root):
    pairs = open_dpdd(root, "train")
    cut_off(root / "train_c/target/1P0A0001.png")
    with pytest.raises(KpacError, match=r"1P0A0001\.png"):
        pairs[0]
    save(root / "train_c/target/1P0A0003.png", image(0, 20, 20))
    with pytest.raises(KpacError, match=r"1P0A0002\.png: the sizes within the pair differ"):
        pairs[1]
