"""blur-map on real files: formats, masks, regions, scores."""

import csv
import json

import numpy as np
import pytest
import tifffile
from PIL import Image

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import read_image
from tests.detection.conftest import half_blurred_scene

VARIANCE = ["--source", "variance"]


@pytest.fixture
def scene(tmp_path):
    """A folder with a photograph and a mask of what is blurred in it."""
    image, blurred = half_blurred_scene()
    Image.fromarray((image * 255).astype(np.uint8)).save(tmp_path / "scene.png")
    Image.fromarray(blurred).save(tmp_path / "truth.png")
    return tmp_path


def run(scene, *flags, name="scene.png", out="map.png"):
    try:
        return main(["blur-map", str(scene / name), "-o", str(scene / out), *map(str, flags)])
    except SystemExit as stop:
        return stop.code


def expected(scene, **options):
    return kpac.detect(read_image(scene / "scene.png"), **options)


def test_the_plain_call_writes_the_papers_map(scene, capsys):
    assert run(scene, "--upsampling", 1) == 0
    assert capsys.readouterr().out.split() == [str(scene / "map.png")]
    values = kpac.blur_map(read_image(scene / "scene.png"), upsampling=1)
    assert np.abs(read_image(scene / "map.png") / 255 - values).max() < 0.502 / 255
    note = json.loads(Image.open(scene / "map.png").text["Description"])
    assert note["model"]["name"] == "kpac-3level"
    assert note["blur map"]["source"] == "alpha1"
    assert note["upsampling"] == 1


def test_sources_of_the_network(scene):
    flags = ("--source", "mixture", "--weights", "1,0,0,0,3", "--upsampling", 1, "--smoothing", 2)
    assert run(scene, *flags, out="map.npy") == 0
    found = expected(scene, source="mixture", weights=(1, 0, 0, 0, 3), upsampling=1, smoothing=2)
    assert np.array_equal(np.load(scene / "map.npy"), found.values)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("png8", "m.png"), ("png16", "m.png"), ("tiff", "m.tif"), ("npy", "m.npy")],
)
def test_formats(scene, kind, name):
    assert run(scene, *VARIANCE, "--format", kind, out=name) == 0
    values = expected(scene, source="variance").values
    path = scene / name
    stored = np.load(path) if kind == "npy" else read_image(path)
    white = {"png8": 255, "png16": 65535}.get(kind, 1)
    np.testing.assert_allclose(stored / white, values, atol=0.502 / white if white > 1 else 0)


def test_scale_and_overlay(scene):
    size = ("--scale", "0.5,0.25", "--units", "um")
    assert run(scene, *VARIANCE, *size, "--regions", scene / "r.csv", out="m.tif") == 0
    with tifffile.TiffFile(scene / "m.tif") as file:
        assert file.imagej_metadata["unit"] == "um"
        assert json.loads(file.imagej_metadata["Info"])["blur map"]["source"] == "variance"
    rows = list(csv.DictReader((scene / "r.csv").open()))
    assert rows
    for row in rows:
        assert float(row["area"]) == pytest.approx(int(row["area_px"]) / 8)
        assert row["area_unit"] == "um^2"
    assert run(scene, *VARIANCE, "--format", "overlay", out="folder") == 0
    assert read_image(scene / "folder" / "scene-blur-variance.png").shape == (96, 160, 3)


def test_masks_and_scores(scene, capsys):
    flags = [*VARIANCE, "--threshold", 0.6, "--mask", scene / "mask.png"]
    truth = ["--truth", scene / "truth.png", "--polarity", "blurred"]
    assert run(scene, *flags, *truth, "--json") == 0
    (record,) = json.loads(capsys.readouterr().out)
    found = expected(scene, source="variance", threshold_rule="fixed", threshold=0.6)
    assert np.array_equal(read_image(scene / "mask.png") > 0, found.mask)
    assert record["output"] == [str(scene / "map.png"), str(scene / "mask.png")]
    assert record["blurred"] == pytest.approx(found.mask.mean())
    assert record["scores"]["roc_auc"] > 0.95
    rules = [row["rule"] for row in record["scores"]["thresholds"]]
    assert rules == ["midrange", "mean", "otsu", "fixed", "best F0.3", "best F1"]
    assert run(scene, *flags, *truth[:-1], "sharp") == 0
    printed = capsys.readouterr().out
    assert "ROC AUC: 0.0" in printed
    assert "marks what is sharp" in printed


def test_stacks(scene):
    image, blurred = half_blurred_scene()
    tifffile.imwrite(scene / "stack.tif", np.stack([image, image[:, ::-1]]))
    tifffile.imwrite(scene / "truth.tif", np.stack([blurred, blurred[:, ::-1]]).astype(np.uint8))
    truth = ("--truth", scene / "truth.tif", "--polarity", "blurred")
    flags = (*VARIANCE, "--mask", scene / "masks.png")
    assert run(scene, *flags, *truth, name="stack.tif", out="maps.tif") == 0
    assert tifffile.imread(scene / "maps.tif").shape == (2, 96, 160)
    first, second = (read_image(scene / f"masks-{n}.png") for n in (0, 1))
    assert np.array_equal(first, second[:, ::-1])
    assert run(scene, *flags, name="stack.tif", out="maps.png") == 0
    assert (scene / "maps-1.png").is_file()
    one = (*VARIANCE, "--slice", 1, "--format", "overlay")
    assert run(scene, *one, name="stack.tif", out="one.png") == 0
    assert read_image(scene / "one.png").shape == (96, 160, 3)
    for missing in ("2", "0,1"):
        assert run(scene, *VARIANCE, "--slice", missing, name="stack.tif", out="none.png") == 1
    assert run(scene, *VARIANCE, "--slice", "-1", name="stack.tif", out="none.png") == 2


@pytest.mark.parametrize(
    "flags",
    [
        ["--source", "beta"],
        ["--threshold-rule", "best"],
        ["--threshold-rule", "fixed"],
        ["--threshold-rule", "otsu", "--threshold", "0.4"],
        ["--weights", "1,2"],
        ["--truth", "truth.png"],
        ["--format", "jpeg"],
        ["--format", "tiff"],
        [*VARIANCE, "--scale", "0,1"],
    ],
)
def test_mistakes_write_nothing(scene, flags):
    before = sorted(scene.iterdir())
    assert run(scene, *flags) == 2
    assert sorted(scene.iterdir()) == before


def test_work_that_fails_says_why(scene, capsys):
    colour = scene / "colour.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 160, 3), np.uint8)).save(colour)
    for flags, word in (
        (["--truth", colour, "--polarity", "sharp"], "black and white"),
        (["--truth", scene / "none.png", "--polarity", "sharp"], "no such file"),
        (["--truth", scene / "scene.png", "--polarity", "sharp"], "one other value"),
    ):
        assert run(scene, *VARIANCE, *flags) == 1
        assert word in capsys.readouterr().err
    assert run(scene, *VARIANCE, out="scene.png") == 2
    assert "over the input" in capsys.readouterr().err
    assert run(scene, *VARIANCE, out="map.jpg") == 2
    assert not (scene / "map.png").exists()
    assert run(scene, *VARIANCE, "--mask", scene / "map.png") == 2
