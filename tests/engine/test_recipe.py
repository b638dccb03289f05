"""Recipes survive the disk, and nothing but a recipe is taken for one."""

import json

import numpy as np
import pytest

import napari_kpac as kpac
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)


@pytest.fixture
def rich(rng):
    labels = np.zeros((40, 56), np.int64)
    labels[10:20] = 3
    return kpac.Modulation(
        gains=[[1, 0.5, 0], [2, 1, 1]],
        override={(1, 2): 0.25, (2, 1): rng.integers(0, 65536, (40, 56)) / 65535},
        labels=labels,
        label_gains={3: [0, 0, 1]},
        strength=0.75,
    )


def test_a_recipe_makes_the_same_image_again(rich, rng, tmp_path):
    image = rng.random((40, 56))
    first = kpac.deblur(image, NET, "cpu", modulation=rich, range="unit")
    files = first.recipe.save(tmp_path / "look.json")
    assert {path.name for path in files} == {
        "look.json", "look.labels.png", "look.block2-alpha1.png",
    }  # fmt: skip
    recipe = kpac.load_recipe(tmp_path / "look.json")
    assert recipe.options == first.recipe.options
    assert recipe.model_sha256 == first.recipe.model_sha256
    again = kpac.deblur(image, NET, "cpu", modulation=recipe.modulation, range="unit")
    np.testing.assert_allclose(again.image, first.image, atol=1e-6)


def test_every_result_says_how_it_was_made(rng):
    result = kpac.deblur(rng.random((16, 16)), NET, "cpu", tile=8)
    record = json.loads(json.dumps(result.recipe.to_dict()))
    assert record["options"]["tile"] == 8
    assert record["environment"]["plan"]["tile"] == 8
    assert record["environment"]["threads"] >= 1
    assert len(record["model"]["sha256"]) == 64


BROKEN = {
    "empty": lambda text: "",
    "no json": lambda text: text[:-10],
    "a list": lambda text: "[]",
    "another format": lambda text: text.replace("napari-kpac-recipe", "soup"),
    "a later version": lambda text: text.replace('"version": 1', '"version": 2'),
    "unknown option": lambda text: text.replace('"tile"', '"tiles"'),
    "bad option": lambda text: text.replace('"tile": "auto"', '"tile": -4'),
    "bad gains": lambda text: text.replace("0.75", '"loud"'),
    "no modulation": lambda text: text.replace('"modulation"', '"other"'),
    "a path as block": lambda text: text.replace('"block": 2', '"block": "../../x"'),
    "deep": lambda text: "[" * 100_000,
    "huge": lambda text: " " * 2_000_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_recipes_are_refused(rich, rng, tmp_path, name):
    result = kpac.deblur(rng.random((40, 56)), NET, "cpu", modulation=rich)
    path = tmp_path / "look.json"
    result.recipe.save(path)
    path.write_text(BROKEN[name](path.read_text()))
    with pytest.raises(kpac.KpacError, match=r"look\.json"):
        kpac.load_recipe(path)


def test_a_missing_or_damaged_image_is_named(rich, rng, tmp_path):
    result = kpac.deblur(rng.random((40, 56)), NET, "cpu", modulation=rich)
    result.recipe.save(tmp_path / "look.json")
    (tmp_path / "look.labels.png").write_bytes(b"not an image")
    with pytest.raises(kpac.KpacError, match=r"look\.labels\.png"):
        kpac.load_recipe(tmp_path / "look.json")
    (tmp_path / "look.labels.png").unlink()
    with pytest.raises(kpac.KpacError, match=r"look\.labels\.png"):
        kpac.load_recipe(tmp_path / "look.json")
    with pytest.raises(kpac.KpacError, match="cannot be read"):
        kpac.load_recipe(tmp_path / "nowhere.json")
