"""Recipes between terminal and Python, on any machine."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.engine.recipe import differences, recorded_plan
from napari_kpac.engine.tiling import make_plan
from napari_kpac.images import read_image
from napari_kpac.weights import ModelCard, load, save_network


@pytest.fixture
def source(tmp_path, photo):
    path = tmp_path / "a.png"
    Image.fromarray(photo).save(path)
    return path


def deblur(*arguments):
    return main(["deblur", *map(str, arguments)])


def rich(photo):
    labels = np.zeros(photo.shape[:2], np.uint8)
    labels[10:40, 20:50] = 2
    labels[:8] = 1
    return kpac.Modulation(
        gains=[1, 0.5, 0.25],
        labels=labels,
        label_gains={2: [0, 0, 2]},
        strength=1.25,
        label_strength={1: 0.0},
    )


def test_from_python_to_the_terminal_and_back(source, photo, models, tmp_path):
    made = kpac.deblur(photo, models[0], modulation=rich(photo), tile=32)
    made.recipe.save(tmp_path / "look.json")
    out, saved = tmp_path / "b.png", tmp_path / "again.json"
    model = ["--model", models[0]]
    flags = ["--recipe", tmp_path / "look.json", "--save-recipe", saved]
    assert deblur(source, "-o", out, *flags, *model) == 0
    assert np.array_equal(read_image(out), made.image)
    assert np.array_equal(read_image(out)[:8], photo[:8])
    recipe = kpac.load_recipe(saved)
    assert recipe.fingerprint == made.recipe.fingerprint
    assert recipe.environment["plan"] == made.recipe.environment["plan"]
    with pytest.raises(kpac.KpacError, match="not in the recipe's folder"):
        kpac.replay(photo, recipe)
    assert np.array_equal(kpac.replay(photo, recipe, models[0]).image, made.image)
    trusted = replace(recipe, folder=None)
    report = finish(kpac.deblur_files([source], tmp_path / "c.png", recipe=trusted))
    assert report.outcomes[0].state == "made"
    assert np.array_equal(read_image(tmp_path / "c.png"), made.image)


@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "zarr"])
def test_every_result_is_a_recipe(source, photo, models, tmp_path, suffix):
    first = tmp_path / f"b.{suffix}"
    flags = ["--model", models[0], "--gains", "1,0,0.5", "--strength", "0.75", "--tile", "32"]
    assert deblur(source, "-o", first, *flags) == 0
    recipe = kpac.load_recipe(first)
    assert recipe.modulation.strength == 0.75
    assert list(recipe.modulation.gains) == [1, 0, 0.5]
    result = kpac.replay(photo, recipe, models[0])
    assert result.recipe.to_dict() == recipe.to_dict()
    if suffix != "jpg":
        assert np.array_equal(result.image, read_image(first))
    assert deblur(source, "-o", tmp_path / "c.png", "--recipe", first) == 1
    again = ["--recipe", first, "--model", models[0]]
    assert deblur(source, "-o", tmp_path / "c.png", *again) == 0
    assert np.array_equal(read_image(tmp_path / "c.png"), result.image)


def test_no_result_is_no_recipe(source, tmp_path):
    with pytest.raises(kpac.KpacError, match=r"a\.png: this is not a napari-kpac recipe"):
        kpac.load_recipe(source)
    with pytest.raises(kpac.KpacError, match=r"none\.png"):
        kpac.load_recipe(tmp_path / "none.png")


def test_other_weights_stop_a_replay(source, photo, models, tmp_path, capsys):
    model = tmp_path / "mine.safetensors"
    save_network(load(models[0]), model, ModelCard(name="mine"))
    recipe = kpac.deblur(photo, model).recipe
    recipe.save(tmp_path / "look.json")
    net = load(models[0])
    with torch.no_grad():
        next(net.parameters()).mul_(1.5)
    save_network(net, model, ModelCard(name="mine"))
    with pytest.raises(kpac.KpacError, match="other weights"):
        kpac.replay(photo, recipe)
    replay = [source, "-o", tmp_path / "b.png", "--recipe", tmp_path / "look.json"]
    assert deblur(*replay) == 1
    assert recipe.model_sha256[:12] in capsys.readouterr().err
    assert not (tmp_path / "b.png").exists()
    # Told otherwise.
    expected = kpac.replay(photo, recipe, model=model).image
    assert deblur(*replay, "--model", models[0]) == 0
    assert np.array_equal(expected, kpac.deblur(photo, model).image)


def test_another_number_of_threads_is_told_and_makes_no_visible_difference(
    source, photo, models, tmp_path, capsys
):
    recipe = kpac.deblur(photo, models[0]).recipe
    recipe.save(tmp_path / "look.json")
    record = json.loads((tmp_path / "look.json").read_text())
    record["environment"]["threads"] = 64
    (tmp_path / "look.json").write_text(json.dumps(record))
    flags = ["--recipe", tmp_path / "look.json", "--tile", "16", "--model", models[0]]
    assert deblur(source, "-o", tmp_path / "b.png", *flags) == 0
    said = capsys.readouterr().err
    assert "instead of 64" in said
    assert "one grey level" in said
    first = kpac.deblur(photo, models[0]).image.astype(int)
    assert np.abs(read_image(tmp_path / "b.png").astype(int) - first).max() <= 1
    assert differences(recipe, "cpu") == []


def test_the_recorded_plan_is_used_where_it_fits(models):
    config = load(models[0]).config
    own = make_plan((640, 800), config, halo=24, tile="auto", budget=10**10)
    small = make_plan((640, 800), config, halo=24, tile=64, budget=10**8)
    assert recorded_plan({"plan": small.to_dict()}, own).to_dict() == small.to_dict()
    assert recorded_plan({"plan": own.to_dict()}, small) is small
    other = replace(small, height=320)
    for plan in (other.to_dict(), {}, None, {**small.to_dict(), "tile": 0}, {"tile": "x"},
                 {**small.to_dict(), "kept_skips": "x"}):  # fmt: skip
        assert recorded_plan({"plan": plan}, own) is own


def test_a_range_of_16_bits_is_refused_for_8(source, photo, models, tmp_path, capsys):
    deep = photo.astype(np.uint16) * 257
    recipe = kpac.deblur(deep, models[0], range=(0, 65535)).recipe
    recipe.save(tmp_path / "look.json")
    out = tmp_path / "b.png"
    flags = ["--recipe", tmp_path / "look.json", "--model", models[0]]
    assert deblur(source, "-o", out, *flags) == 1
    said = capsys.readouterr().err
    assert "takes 0 for black and 65535 for white" in said
    assert "0..255 (uint8)" in said
    assert not out.exists()
    assert deblur(source, "-o", out, *flags, "--range", "auto") == 0
    assert np.array_equal(read_image(out), kpac.deblur(photo, models[0]).image)
