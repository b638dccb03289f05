"""Plain folders of pairs: how they are found and matched, and what is refused."""

import numpy as np
import pytest
import tifffile

from napari_kpac import KpacError
from napari_kpac.datasets import open_folders
from tests.datasets.making import image, save


def fill(folder, names, seed, **shape):
    for i, name in enumerate(names):
        save(folder / name, image(seed + i, dtype=np.uint8, **shape))


@pytest.mark.parametrize(
    ("blurred", "sharp"),
    [("source", "target"), ("blurred", "sharp"), ("blur", "sharp"), ("input", "target")],
)
def test_both_folders_are_found_below_one(tmp_path, blurred, sharp):
    fill(tmp_path / blurred, ["a.png", "b.png"], 0)
    fill(tmp_path / sharp, ["a.png", "b.png"], 5)
    pairs = open_folders(tmp_path)
    assert len(pairs) == 2
    assert not pairs.dual
    np.testing.assert_allclose(pairs[1].blurred, image(1, dtype=np.uint8) / 255, atol=1e-7)
    np.testing.assert_allclose(pairs[1].sharp, image(6, dtype=np.uint8) / 255, atol=1e-7)


def test_equal_stems_belong_together_whatever_the_order_and_ending(tmp_path):
    fill(tmp_path / "b", ["x1.png", "x2.png", "x10.png"], 0)
    for i, name in enumerate(["x1", "x2", "x10"]):
        (tmp_path / "s").mkdir(exist_ok=True)
        tifffile.imwrite(tmp_path / "s" / f"{name}.tif", image(5 + i), photometric="rgb")
    pairs = open_folders(tmp_path / "b", tmp_path / "s", bits=16)
    for i, name in ((0, "x1"), (1, "x10"), (2, "x2")):
        assert pairs[i].name == name
        seed = {"x1": 5, "x2": 6, "x10": 7}[name]
        np.testing.assert_allclose(pairs[i].sharp, image(seed) / 65535, atol=1e-7)


def test_other_names_are_paired_by_order(tmp_path):
    fill(tmp_path / "b", ["blur_7.png", "blur_8.png"], 0)
    fill(tmp_path / "s", ["ref_1.png", "ref_2.png"], 5)
    pairs = open_folders(tmp_path / "b", tmp_path / "s")
    np.testing.assert_allclose(pairs[1].sharp, image(6, dtype=np.uint8) / 255, atol=1e-7)
    fill(tmp_path / "s", ["ref_3.png"], 8)
    with pytest.raises(KpacError, match=r"2 images and .* 3, and their names do not tell"):
        open_folders(tmp_path / "b", tmp_path / "s")


def test_a_missing_counterpart_is_named(tmp_path):
    fill(tmp_path / "blur", ["a.png", "b.png", "c.png"], 0)
    fill(tmp_path / "sharp", ["a.png", "b.png", "d.png"], 5)
    with pytest.raises(KpacError) as error:
        open_folders(tmp_path)
    assert "blur/c.png: has no counterpart" in str(error.value)
    assert "sharp/d.png: belongs to no image" in str(error.value)
    pairs = open_folders(tmp_path, skip_bad=True)
    assert [pairs.name(i) for i in range(len(pairs))] == ["a", "b"]
    assert len(pairs.skipped) == 2


def test_grey_and_transparent_images_become_rgb(tmp_path):
    save(tmp_path / "blur/a.png", image(0, channels=0))
    save(tmp_path / "sharp/a.png", image(1, channels=4, dtype=np.uint8))
    save(tmp_path / "blur/b.png", image(2, channels=2))
    save(tmp_path / "sharp/b.png", image(3, channels=0, dtype=np.uint8))
    pairs = open_folders(tmp_path, bits=16)
    assert pairs[0].blurred.shape == pairs[0].sharp.shape == (24, 36, 3)
    grey = image(0, channels=0)[:, :, None] / 65535
    np.testing.assert_allclose(pairs[0].blurred, np.repeat(grey, 3, axis=2), atol=1e-7)
    rgb = image(1, channels=4, dtype=np.uint8)[:, :, :3] / 255
    np.testing.assert_allclose(pairs[0].sharp, rgb, atol=1e-7)
    grey = image(2, channels=2)[:, :, 0] / 65535
    np.testing.assert_allclose(pairs[1].blurred[:, :, 2], grey, atol=1e-7)


def test_ten_bad_files_are_named_and_the_others_counted(tmp_path):
    names = [f"{i:02}.png" for i in range(15)]
    fill(tmp_path / "blur", names, 0)
    fill(tmp_path / "sharp", names, 50)
    for name in names[:13]:
        (tmp_path / "sharp" / name).write_bytes(b"")
    with pytest.raises(KpacError) as error:
        open_folders(tmp_path)
    assert str(error.value).count(".png: ") == 10
    assert str(error.value).endswith("and 3 more")
    assert len(open_folders(tmp_path, skip_bad=True)) == 2


def test_images_too_small_to_use_are_named(tmp_path):
    for folder in ("blur", "sharp"):
        fill(tmp_path / folder, ["a.png"], 0, height=1)
    with pytest.raises(KpacError, match=r"a\.png: is 36x1 pixels; at least 2x2 are needed"):
        open_folders(tmp_path)


def test_floats_out_of_range_are_refused_by_name(tmp_path):
    fill(tmp_path / "blur", ["a.png"], 0)
    (tmp_path / "sharp").mkdir()
    tifffile.imwrite(tmp_path / "sharp/a.tif", np.full((24, 36), 7.0, np.float32))
    pairs = open_folders(tmp_path)
    with pytest.raises(KpacError, match=r"a\.tif: cannot be used .*must lie in 0\.\.1"):
        pairs[0]


def test_folders_that_say_too_little_or_too_much_are_refused(tmp_path):
    with pytest.raises(KpacError, match="needs folders called source and target"):
        open_folders(tmp_path)
    for name in ("source", "input", "target"):
        fill(tmp_path / name, ["a.png"], 0)
    with pytest.raises(KpacError, match="more than one pair of folders"):
        open_folders(tmp_path)
    save(tmp_path / "source/a.tif.png", image(0))
    (tmp_path / "source/a.JPG").write_bytes(b"")
    with pytest.raises(KpacError, match=r"differ only in their endings"):
        open_folders(tmp_path / "source", tmp_path / "target")
