"""Sizes from headers agree with what is read; files that are cut off are found."""

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_kpac.core.errors import FileError
from napari_kpac.images import image_size, list_images, read_image, write_image

NOISE = np.random.default_rng(0).integers(0, 255, (40, 64, 3), np.uint8)


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif"])
@pytest.mark.parametrize("grey", [False, True])
def test_the_header_tells_the_size(tmp_path, name, grey):
    path = write_image(tmp_path / name, NOISE[:, :, 0] if grey else NOISE)
    assert image_size(path) == read_image(path).shape[:2] == (40, 64)


@pytest.mark.parametrize("name", ["a.png", "a.jpg"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_photographs(tmp_path, name, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(NOISE).save(tmp_path / name, exif=exif)
    assert image_size(tmp_path / name) == read_image(tmp_path / name).shape[:2]


@pytest.mark.parametrize("name", ["a.png", "deep.png", "a.jpg", "a.tif"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.95])
def test_files_that_are_cut_off(tmp_path, name, share):
    path = tmp_path / name
    write_image(path, NOISE.astype(np.uint16) * 257 if name == "deep.png" else NOISE)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(FileError, match=name):
        image_size(path)


def test_bytes_behind_the_image_do_no_harm(tmp_path):
    path = write_image(tmp_path / "a.png", NOISE)
    path.write_bytes(path.read_bytes() + bytes(5000))
    assert image_size(path) == (40, 64)


def test_what_is_no_image_is_refused(tmp_path):
    tifffile.imwrite(tmp_path / "stack.tif", np.zeros((7, 40, 50), np.uint8))
    tifffile.imwrite(tmp_path / "long.tif", np.zeros((40, 50), np.int32))
    (tmp_path / "text.png").write_text("words")
    (tmp_path / "folder.png").mkdir()
    for name in ("stack.tif", "long.tif", "text.png", "folder.png", "missing.jpg", "missing.tif"):
        with pytest.raises(FileError, match=name):
            image_size(tmp_path / name)


def test_images_of_a_folder(tmp_path):
    for name in ("b.PNG", "a.jpg", "notes.txt", "._a.jpg"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in list_images(tmp_path)] == ["a.jpg", "b.PNG"]
    with pytest.raises(FileError, match=r"a\.jpg"):
        list_images(tmp_path / "a.jpg")
