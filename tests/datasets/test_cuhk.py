"""Images with masks of their blur: polarity, values, names and faults."""

import numpy as np
import pytest
from PIL import Image

from napari_kpac import KpacError
from napari_kpac.datasets import open_cuhk
from tests.datasets.making import image, save

MASK = np.arange(24 * 36).reshape(24, 36) % 5 < 2


@pytest.fixture
def root(tmp_path):
    (tmp_path / "image").mkdir()
    for i, name in enumerate(("motion0001", "out_of_focus0001", "out_of_focus0002")):
        Image.fromarray(image(i, dtype=np.uint8)).save(tmp_path / f"image/{name}.jpg")
        save(tmp_path / f"gt/{name}.png", MASK.astype(np.uint8) * 255)
    return tmp_path


def test_the_polarity_is_said_and_never_guessed(root):
    with pytest.raises(TypeError, match="blurred"):
        open_cuhk(root)
    for wrong in (None, "sharp", ""):
        with pytest.raises(KpacError, match="white or black"):
            open_cuhk(root, blurred=wrong)
    for said, truth in (("white", MASK), ("black", ~MASK)):
        images = open_cuhk(root, blurred=said)
        assert len(images) == 3
        name, image, mask = images[1]
        assert name == images.name(1) == "out_of_focus0001"
        assert image.dtype == np.float32
        stored = np.asarray(Image.open(root / f"image/{name}.jpg"))
        np.testing.assert_allclose(image, stored / 255, atol=1e-7)
        assert mask.dtype == bool
        np.testing.assert_array_equal(mask, truth)


@pytest.mark.parametrize(
    "stored",
    [
        MASK.astype(np.uint8),
        MASK.astype(np.uint16) * 65535,
        np.where(MASK, 250, 3).astype(np.uint8),
        np.dstack([MASK.astype(np.uint8) * 255] * 3),
        np.dstack([MASK.astype(np.uint8) * 255, np.full(MASK.shape, 255, np.uint8)]),
    ],
)
def test_masks_of_any_common_type(root, stored):
    save(root / "gt/motion0001.png", stored)
    np.testing.assert_array_equal(open_cuhk(root, blurred="white")[0].mask, MASK)


def test_masks_of_one_bit(root):
    Image.fromarray(MASK).save(root / "gt/motion0001.png")
    np.testing.assert_array_equal(open_cuhk(root, blurred="white")[0].mask, MASK)


def test_a_prefix_chooses(root):
    images = open_cuhk(root, blurred="white", prefix="out_of_focus")
    assert len(images) == 2
    with pytest.raises(KpacError, match="begins with 'other'"):
        open_cuhk(root, blurred="white", prefix="other")


def test_other_folders(root, tmp_path):
    (root / "gt").rename(root / "masks")
    with pytest.raises(KpacError, match=r"gt: cannot be read as a folder"):
        open_cuhk(root, blurred="black")
    assert len(open_cuhk(root, blurred="black", masks=tmp_path / "masks")) == 3


def test_faults_are_named_and_skipped_when_asked(root):
    (root / "gt/motion0001.png").unlink()
    save(root / "gt/out_of_focus0001.png", np.zeros((36, 24), np.uint8))
    with pytest.raises(KpacError) as error:
        open_cuhk(root, blurred="white")
    assert "motion0001.jpg: has no counterpart" in str(error.value)
    assert "out_of_focus0001.png: is 24x36 pixels" in str(error.value)
    images = open_cuhk(root, blurred="white", skip_bad=True)
    assert (len(images), len(images.skipped)) == (1, 2)


def test_a_mask_in_colour_is_refused_by_name(root):
    save(root / "gt/motion0001.png", image(3))
    images = open_cuhk(root, blurred="white")
    with pytest.raises(KpacError, match=r"motion0001\.png.*black and white"):
        images[0]
