"""Strength per label: a painted area at strength 0 is the input, bit by bit, on every road."""

import json

import numpy as np
import pytest

import napari_kpac as kpac
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)
SIZE = (52, 61)
LABELS = np.zeros(SIZE, np.uint8)
LABELS[7:31, 11:40] = 1
LABELS[33:50, 2:9] = 2
LOOK = kpac.Modulation(labels=LABELS, label_strength={1: 0.0, 2: 0.5}, strength=1.25)


def bits(array):
    return np.ascontiguousarray(array).view(np.uint8)


def random_image(dtype, *shape):
    rng = np.random.default_rng(4)
    if np.dtype(dtype).kind in "ui":
        info = np.iinfo(dtype)
        native = np.dtype(dtype).newbyteorder("=")
        values = rng.integers(info.min, info.max, shape, native, endpoint=True)
        return values.astype(dtype)
    values = rng.normal(0, 1, shape).astype(dtype)
    values[::7, ::5] = -0.0
    values[3, 4] = values[20, 20] = np.nan
    return values


@pytest.mark.parametrize("dtype", ["u1", "i2", "u2", "i4", "u8", "i8", "f2", "f4", "f8", ">u2"])
@pytest.mark.parametrize("colours", [(), (3,), (4,)])
def test_a_label_at_strength_0_is_the_input_bit_by_bit(dtype, colours):
    image = random_image(dtype, *SIZE, *colours)
    made = kpac.deblur(image, NET, "cpu", modulation=LOOK, tile=24).image
    assert made.dtype.itemsize == image.dtype.itemsize
    still = LABELS == 1
    found = made.astype(image.dtype, copy=False)
    assert np.array_equal(bits(found[still]), bits(image[still]))
    assert not np.array_equal(bits(found[~still]), bits(image[~still]))


def test_other_labels_have_their_own_strength():
    image = random_image("f8", *SIZE, 3)[10:, 5:]
    labels = LABELS[10:, 5:]
    image = np.nan_to_num(image)
    full = kpac.deblur(image, NET, "cpu", range=(-3, 3)).image - image
    made = kpac.deblur(
        image, NET, "cpu", range=(-3, 3),
        modulation=kpac.Modulation(labels=labels, label_strength={1: 0.0, 2: 0.5}, strength=1.25),
    )  # fmt: skip
    factor = np.select([labels == 1, labels == 2], [0, 0.5], 1.25)[..., None]
    assert np.abs(full).max() > 0.01
    np.testing.assert_allclose(made.image - image, factor * full, atol=1e-6)


@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("region", [None, (9, 45, 3, 37)])
def test_sessions_parts_and_drafts(draft, region):
    image = random_image("f4", *SIZE)
    session = kpac.Session(image, NET, "cpu")
    session.render(region=region)  # the residual is kept, and used again below
    made = session.render(LOOK, region, draft=draft).image
    top, bottom, left, right = region or (0, SIZE[0], 0, SIZE[1])
    part = np.s_[top:bottom, left:right]
    still = LABELS[part] == 1
    assert np.array_equal(bits(made[still]), bits(image[part][still]))
    changed = made[~still] != image[part][~still]
    assert changed.mean() > 0.9
    if not draft:
        whole = kpac.deblur(image, NET, "cpu", modulation=LOOK).image
        np.testing.assert_allclose(made, whole[part], atol=1e-5)


def test_the_classical_method_takes_it_too():
    image = np.random.default_rng(0).random(SIZE).astype(np.float32)
    made = kpac.deblur(image, method="ebdb", modulation=LOOK).image
    assert np.array_equal(made[LABELS == 1], image[LABELS == 1])
    assert not np.array_equal(made, image)
    with pytest.raises(kpac.KpacError, match="labels have shape"):
        kpac.deblur(image[:40], method="ebdb", modulation=LOOK)


def test_every_plane_of_a_stack_can_have_its_own_labels():
    stack = random_image("u2", 3, *SIZE)
    labels = np.stack([LABELS, np.zeros_like(LABELS), LABELS[::-1]])
    read = []

    class Lazy:
        shape, dtype = labels.shape, labels.dtype

        def __getitem__(self, index):
            read.append(index)
            return labels[index]

    look = kpac.Modulation(labels=Lazy(), label_strength={1: 0.0}, label_gains={2: [0, 1, 0]})
    assert read == []
    made = kpac.deblur(stack, NET, "cpu", modulation=look, range="dtype").image
    assert set(read) == {(0,), (1,), (2,)}
    for plane, own, pixels in zip(stack, labels, made, strict=True):
        one = kpac.Modulation(labels=own, label_strength={1: 0.0}, label_gains={2: [0, 1, 0]})
        alone = kpac.deblur(plane, NET, "cpu", modulation=one, range="dtype").image
        assert np.array_equal(pixels, alone)
        assert np.array_equal(pixels[own == 1], plane[own == 1])
    for wrong in (labels[:2], labels[..., :-1], labels[None]):
        with pytest.raises(kpac.KpacError, match="labels have shape"):
            kpac.deblur(stack, NET, "cpu", modulation=kpac.Modulation(labels=wrong))
    every = kpac.Modulation(labels=labels[:1], label_strength={1: 0.0})
    made = kpac.deblur(stack, NET, "cpu", modulation=every)
    assert np.array_equal(made.image[:, LABELS == 1], stack[:, LABELS == 1])


def test_recipes_keep_it_and_earlier_ones_are_read(tmp_path):
    image = random_image("u1", *SIZE, 3)
    first = kpac.deblur(image, NET, "cpu", modulation=LOOK)
    path = tmp_path / "look.json"
    first.recipe.save(path)
    recipe = kpac.load_recipe(path)
    assert recipe.modulation.label_strength == {1: 0.0, 2: 0.5}
    assert recipe.fingerprint == first.recipe.fingerprint
    assert np.array_equal(kpac.replay(image, recipe, NET).image, first.image)
    # Earlier releases know version 1 only, and would leave the strength of labels out.
    assert json.loads(path.read_text())["version"] == 2
    plain = kpac.deblur(image, NET, "cpu", modulation=kpac.Modulation(strength=0.5)).recipe
    assert plain.to_dict()["version"] == 1
    assert "label_strength" not in plain.to_dict()["modulation"]
    stack = kpac.Modulation(labels=LABELS[None], label_strength={1: 0.0})
    with pytest.raises(kpac.KpacError, match="a recipe keeps those of one"):
        kpac.deblur(image[None], NET, "cpu", modulation=stack).recipe.save(path)
    assert kpac.load_recipe(path).fingerprint == first.recipe.fingerprint


def test_labels_may_be_plain_lists():
    image = random_image("u1", *SIZE)
    lists = kpac.Modulation(labels=LABELS.tolist(), label_strength={1: 0.0})
    arrays = kpac.Modulation(labels=LABELS, label_strength={1: 0.0})
    made, wanted = (kpac.deblur(image, NET, "cpu", modulation=each) for each in (lists, arrays))
    assert np.array_equal(made.image, wanted.image)
    assert made.recipe.fingerprint == wanted.recipe.fingerprint


@pytest.mark.parametrize("wrong", [-1, 1e9, "full", None, float("nan")])
def test_wrong_strengths_are_named(wrong):
    with pytest.raises(kpac.KpacError, match=r"label_strength\[3\]"):
        kpac.Modulation(labels=LABELS, label_strength={3: wrong})
    with pytest.raises(kpac.KpacError, match="need a label image"):
        kpac.Modulation(label_strength={3: 0.5})
