"""Pairs whose images do not agree: what is named, with size and direction, and what passes."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from skimage import data

from napari_kpac.core.errors import FileError
from napari_kpac.core.progress import finish
from napari_kpac.datasets import open_folders
from napari_kpac.datasets.pairs import CHECKED_PAIRS, Pair, check_aligned, misalignment
from napari_kpac.optics import Aperture, defocus, radius_map

SHARED = Path(os.environ.get("NAPARI_KPAC_SHARED", Path(__file__).parents[3] / "shared"))
REAL = SHARED / "data" / "real"
SIZE, ROOM = 256, 40

IMAGES = {
    "astronaut": data.astronaut()[20:, 60:],
    "coffee": data.coffee(),
    "cat": data.chelsea(),
    "coins": np.repeat(data.coins()[:, :, None], 3, axis=2),
    "gravel": np.repeat(data.gravel()[:, :, None], 3, axis=2),
}
SHIFTS = [(8, 0), (-8, 0), (0, 8), (0, -8), (5, -7)]


def cut(name, x=0, y=0):
    """Return an image whose content lies x pixels further right and y pixels further down."""
    top, left = 20 - y, ROOM - x
    image = IMAGES[name][top : top + SIZE, left : left + SIZE]
    assert image.shape == (SIZE, SIZE, 3)
    return image.astype(np.float32) / 255


def blurred(image, radius):
    return defocus(image, radius).image if np.any(radius) else image


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("radius", [0, 1.5, 5, 12])
def test_aligned_pairs_pass(name, radius):
    sharp = cut(name)
    assert misalignment(Pair("x", blurred(sharp, radius), sharp)) == ""


@pytest.mark.parametrize("name", IMAGES)
def test_scenes_with_depth_pass(name):
    sharp = cut(name)
    for seed, kind in enumerate(("smooth", "objects")):
        radius = radius_map((SIZE, SIZE), seed, kind=kind, largest=12)
        made = defocus(sharp, radius, Aperture("polygon", cats_eye=0.6)).image
        assert misalignment(Pair("x", made, sharp)) == ""


@pytest.mark.parametrize("radius", [0, 5, 12])
def test_exposure_does_not_matter(radius):
    sharp = cut("coffee")
    made = blurred(sharp, radius)
    for other in (0.5 * made, 0.7 * made + 0.25, np.sqrt(made), made * np.float32([1, 0.8, 0.6])):
        assert misalignment(Pair("x", other.astype(np.float32), sharp)) == ""


def test_texture_that_repeats_itself_passes_with_strong_blur():
    """Lines of text agree best a little beside their place once they are blurred away."""
    text = np.repeat(data.text()[:, :, None] / np.float32(255), 3, axis=2)
    assert misalignment(Pair("x", defocus(text, 20.0).image, text)) == ""


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize(("x", "y"), SHIFTS)
def test_a_shift_is_named_with_size_and_direction(name, x, y):
    """To a pixel: the fading at the border draws the place towards 0 in smooth images."""
    for radius in (0, 5):
        found = misalignment(Pair("x", blurred(cut(name), radius), cut(name, x, y)))
        named = re.fullmatch(
            r"the sharp image is shifted by about (-?\d+), (-?\d+) px \(x, y\)", found
        )
        assert named, found
        np.testing.assert_allclose([int(word) for word in named.groups()], (x, y), atol=1)
        assert "-0" not in found


def test_a_shift_of_fine_texture_is_named_exactly():
    for x, y in SHIFTS:
        found = misalignment(Pair("x", cut("gravel"), cut("gravel", x, y)))
        assert found == f"the sharp image is shifted by about {x}, {y} px (x, y)"


def test_a_pixel_or_two_pass():
    """Real pairs are taken one after the other, and blur is not always symmetric."""
    for x, y in ((1, 0), (0, -2), (2, 2)):
        assert misalignment(Pair("x", cut("coffee"), cut("coffee", x, y))) == ""


@pytest.mark.parametrize(
    ("one", "other"), [("astronaut", "coffee"), ("cat", "gravel"), ("coins", "gravel")]
)
def test_different_scenes_are_named(one, other):
    found = misalignment(Pair("x", cut(one), cut(other)))
    assert found.startswith("the images show different scenes (correlation 0.")


def test_a_image_of_its_negative_is_no_pair():
    found = misalignment(Pair("x", 1 - cut("gravel"), cut("gravel")))
    assert "different scenes" in found


def test_constant_images_pass():
    flat = np.full((64, 64, 3), 0.4, np.float32)
    assert misalignment(Pair("x", flat, flat)) == ""
    assert misalignment(Pair("x", flat, 0.5 * flat)) == ""
    rng = np.random.default_rng(0)
    noisy = flat + rng.normal(0, 0.01, flat.shape).astype(np.float32)
    assert misalignment(Pair("x", noisy, flat)) == ""


def test_small_and_oblong_images():
    """The middle is compared; of a small image, all of it."""
    sharp = cut("gravel")
    assert misalignment(Pair("x", blurred(sharp, 2)[:40, :60], sharp[:40, :60])) == ""
    shifted = cut("gravel", x=8)
    assert "shifted by about 8, 0 px" in misalignment(Pair("x", sharp[:90], shifted[:90]))
    tiny = sharp[:2, :3]
    assert misalignment(Pair("x", tiny, tiny)) == ""


class Listed:
    """Pairs in memory, which note what was read."""

    dual = False

    def __init__(self, pairs):
        self.pairs, self.read = pairs, []

    def __len__(self):
        return len(self.pairs)

    def name(self, index):
        return self.pairs[index].name

    def __getitem__(self, index):
        self.read.append(index)
        return self.pairs[index]


def test_all_bad_pairs_are_named_together():
    good = Pair("good", blurred(cut("coffee"), 3), cut("coffee"))
    pairs = Listed(
        [
            good,
            Pair("moved", cut("gravel"), cut("gravel", 8, 0)),
            good,
            Pair("swapped", cut("cat"), cut("gravel")),
        ]
    )
    with pytest.raises(FileError) as raised:
        finish(check_aligned(pairs, range(4)))
    text = str(raised.value)
    assert text.startswith("2 of 4 pairs that were looked at do not agree pixel by pixel; align")
    assert "\n  moved: the sharp image is shifted by about 8, 0 px (x, y)" in text
    assert "\n  swapped: the images show different scenes" in text
    assert "good" not in text


def test_only_the_pairs_that_are_meant_are_looked_at():
    bad = Pair("moved", cut("gravel"), cut("gravel", 8, 0))
    good = Pair("good", cut("coffee"), cut("coffee"))
    pairs = Listed([bad, good, good, bad])
    finish(check_aligned(pairs, [1, 2]))
    assert pairs.read == [1, 2]
    finish(check_aligned(pairs, [2]))
    with pytest.raises(FileError, match="1 of 1 pairs"):
        finish(check_aligned(pairs, [3]))


def test_of_many_pairs_some_are_looked_at_from_first_to_last():
    flat = np.zeros((16, 16, 3), np.float32)
    pairs = Listed([Pair("flat", flat, flat)] * 500)
    finish(check_aligned(pairs, range(500)))
    assert len(pairs.read) == CHECKED_PAIRS
    assert (pairs.read[0], pairs.read[-1]) == (0, 499)
    assert np.diff(pairs.read).max() <= 17


@pytest.mark.skipif(not REAL.is_dir(), reason="the real pairs are not at hand")
def test_no_real_pair_is_refused():
    pairs = open_folders(REAL)
    found = {pairs.name(i): misalignment(pairs[i]) for i in range(len(pairs))}
    assert not {name: problem for name, problem in found.items() if problem}
    finish(check_aligned(pairs, range(len(pairs))))


@pytest.mark.skipif(not REAL.is_dir(), reason="the real pairs are not at hand")
def test_real_pairs_that_are_mixed_up_are_refused():
    pairs = open_folders(REAL)
    mixed = Listed(
        [
            Pair(f"{i}", pairs[i].blurred, pairs[(i + 40) % len(pairs)].sharp)
            for i in range(0, 80, 8)
        ]
    )
    with pytest.raises(FileError, match="of 10 pairs that were looked at"):
        finish(check_aligned(mixed, range(10)))
