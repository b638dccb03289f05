"""Recipes survive the disk, and nothing but a recipe is taken for one."""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import write_image
from napari_kpac.weights import save_network
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
    "a later version": lambda text: text.replace('"version": 1', '"version": 3'),
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


def test_what_was_automatic_stays_automatic(rng):
    recipe = kpac.deblur(rng.integers(0, 4000, (40, 56)).astype(np.uint16), NET, "cpu").recipe
    assert recipe.to_dict()["options"]["range"] == "auto"
    assert recipe.to_dict()["options"]["rgb"] is None
    assert recipe.environment["range"]["high"] > 3000
    colours = rng.integers(0, 256, (40, 56, 3)).astype(np.uint8)
    expected = kpac.deblur(colours, NET, "cpu").image
    assert np.array_equal(kpac.replay(colours, recipe, NET).image, expected)


def images(rng):
    return {
        "uint8": rng.integers(0, 256, (40, 56)).astype(np.uint8),
        "uint16": rng.integers(200, 3000, (40, 56)).astype(np.uint16),
        "float32": rng.random((40, 56)).astype(np.float32),
    }


@pytest.mark.parametrize(
    ("limits", "image", "own"),
    [
        ((0, 65535), "uint8", r"0\.\.255 \(uint8\)"),
        ((0, 4095), "uint8", r"0\.\.255 \(uint8\)"),
        ((0, 255), "uint16", r"2\d\d\.?\d*\.\.29\d\d\.?\d* \(uint16\)"),
        ((0, 255), "float32", r"0\.\.1 \(float32\)"),
        ((0, 65535), "float32", r"0\.\.1 \(float32\)"),
        ((5, 6), "float32", r"0\.\.1 \(float32\)"),
    ],
)
@pytest.mark.parametrize("method", ["kpac", "ebdb"])
def test_a_range_that_does_not_fit_is_refused(rng, limits, image, own, method):
    options = kpac.DeblurOptions(range=limits, rgb=None, method=method)
    made = kpac.Recipe(
        options, kpac.Modulation(), "", "", {"range": {"low": limits[0], "high": limits[1]}}
    )
    pixels = images(rng)[image]
    with pytest.raises(
        kpac.KpacError, match=f"takes {limits[0]} for black and {limits[1]} .*{own}"
    ):
        kpac.replay(pixels, made, NET)
    # A range of the caller's own is the caller's decision.
    assert kpac.deblur(pixels, NET, "cpu", range=limits).image.shape == pixels.shape


@pytest.mark.parametrize(
    ("image", "limits"),
    [
        ("uint8", (20, 180)),
        ("uint8", (100, 150)),
        ("uint16", (0, 65535)),
        ("uint16", (0, 4095)),
        ("uint16", (300, 800)),
        ("float32", (0, 1)),
        ("float32", (0.4, 0.6)),
    ],
)
def test_a_range_that_was_chosen_is_replayed(rng, image, limits):
    pixels = images(rng)[image]
    first = kpac.deblur(pixels, NET, "cpu", range=limits)
    assert np.array_equal(kpac.replay(pixels, first.recipe, NET).image, first.image)


def test_recipes_of_grey_images_do_not_take_colours_for_pixels(rng, tmp_path):
    """As the window wrote them before: with what it had found out of range and colour."""
    grey = rng.integers(0, 256, (40, 56)).astype(np.uint8)
    earlier = kpac.deblur(grey, NET, "cpu", range=(0, 255), rgb=False).recipe
    earlier.save(tmp_path / "look.json")
    recipe = kpac.load_recipe(tmp_path / "look.json")
    assert recipe.options.rgb is False
    assert kpac.replay(grey, recipe, NET).image.shape == grey.shape
    with pytest.raises(kpac.KpacError, match=r"made of grey images .*\(40, 56, 3\)"):
        kpac.replay(np.stack([grey] * 3, axis=-1), recipe, NET)
    narrow = rng.random((2, 40, 3))
    own = kpac.deblur(narrow, NET, "cpu", rgb=False)
    assert np.array_equal(kpac.replay(narrow, own.recipe, NET).image, own.image)


@pytest.fixture
def early(rng, tmp_path):
    """An image, a recipe that an earlier version of a bundled model made, and that model's file."""
    net = kpac.load("kpac-2level")
    with torch.no_grad():
        net.decoder.gather.weight.mul_(0.9)
    path = tmp_path / "earlier.safetensors"
    save_network(net, path, replace(net.card, version="0.9"))
    image = rng.random((24, 32))
    made = kpac.deblur(image, path, "cpu", range="unit")
    named = replace(made.recipe.options, model="kpac-2level")
    recipe = replace(made.recipe, options=named)
    recipe.save(tmp_path / "look.json")
    return image, tmp_path / "look.json", path, made


def test_a_recipe_says_which_version_of_the_model_it_was_made_with(early):
    _, look, _, _ = early
    record = json.loads(look.read_text())
    assert record["model"]["version"] == "0.9"
    assert kpac.load_recipe(look).model_version == "0.9"
    assert kpac.deblur(np.zeros((8, 8)), "kpac-2level", "cpu").recipe.model_version == (
        kpac.load("kpac-2level").card.version
    )


def test_a_bundled_model_that_changed_gives_a_warning(early):
    image, look, _, made = early
    now = kpac.load("kpac-2level").card.version
    with pytest.warns(UserWarning, match=rf"version 0\.9 of the model.*version {now} of") as found:
        again = kpac.replay(image, kpac.load_recipe(look))
    assert [Path(each.filename).name for each in found] == ["test_recipe.py"]
    assert not np.array_equal(again.image, made.image)
    assert again.recipe.model_version == now
    wanted = kpac.deblur(image, "kpac-2level", "cpu", range="unit").image
    np.testing.assert_allclose(again.image, wanted, atol=1e-6)


def test_the_file_of_the_earlier_version_makes_the_same_again(early):
    image, look, path, made = early
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = kpac.replay(image, kpac.load_recipe(look), path)
        # An unchanged model is nothing to speak of.
        same = kpac.deblur(image, "kpac-2level", "cpu").recipe
        kpac.replay(image, same)
    np.testing.assert_allclose(again.image, made.image, atol=1e-6)


def test_a_recipe_of_an_early_release_has_no_version(early):
    image, look, _, _ = early
    record = json.loads(look.read_text())
    del record["model"]["version"]
    look.write_text(json.dumps(record))
    recipe = kpac.load_recipe(look)
    assert recipe.model_version == ""
    with pytest.warns(UserWarning, match="an early version of the model"):
        kpac.replay(image, recipe)
    record["model"]["version"] = 2
    look.write_text(json.dumps(record))
    with pytest.raises(kpac.KpacError, match="names no model"):
        kpac.load_recipe(look)


def test_the_terminal_says_that_a_bundled_model_changed(early, tmp_path, capsys):
    image, look, path, _ = early
    source = tmp_path / "in.tif"
    write_image(source, image.astype(np.float32))
    call = ["deblur", str(source), "--recipe", str(look), "-o"]
    assert main([*call, str(tmp_path / "a.tif")]) == 0
    assert "version 0.9 of the model 'kpac-2level'" in capsys.readouterr().err
    assert kpac.load_recipe(tmp_path / "a.tif").model_version != "0.9"
    assert main([*call, str(tmp_path / "b.tif"), "--model", str(path)]) == 0
    assert "version 0.9" not in capsys.readouterr().err
    assert kpac.load_recipe(tmp_path / "b.tif").model_version == "0.9"
