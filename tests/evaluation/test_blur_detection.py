"""Blur detection on folders of images and masks."""

import json

import numpy as np
import pytest
from skimage.io import imsave

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.detection import score
from napari_kpac.evaluation.tables import tables_of
from tests.detection.conftest import half_blurred_scene


@pytest.fixture
def cuhk(tmp_path):
    """Three images, blurred to the right, to the left, and everywhere; white is blurred."""
    root = tmp_path / "cuhk"
    image, blurred = half_blurred_scene()
    for name in ("image", "gt"):
        (root / name).mkdir(parents=True)
    scenes = {
        "right": (image, blurred),
        "left": (image[:, ::-1], blurred[:, ::-1]),
        "all": (image[:, 84:], np.ones_like(blurred[:, 84:])),
    }
    for name, (grey, mask) in scenes.items():
        colour = np.repeat(np.rint(grey * 255).astype(np.uint8)[..., None], 3, axis=2)
        imsave(root / "image" / f"{name}.png", colour, check_contrast=False)
        imsave(root / "gt" / f"{name}.png", (mask * 255).astype(np.uint8), check_contrast=False)
    return root


def test_rows_are_what_detection_and_scores_give(cuhk, tiny_model):
    options = kpac.EvaluateOptions(kind="cuhk", root=str(cuhk), model=("tiny",), blurred="white")
    found = finish(kpac.evaluate(options))
    enlarged = [f"tiny, alpha_1, enlarged {n}x" for n in (1, 2, 4)]
    assert [line.method for line in found.lines] == [*enlarged, "ebdb", "jnb", "local variance"]
    images = {found.study.data.name(i): found.study.data[i] for i in range(3)}
    for method, settings in (
        (enlarged[1], {"model": "tiny", "upsampling": 2}),
        ("local variance", {"source": "variance"}),
    ):
        for name, (_, image, mask) in images.items():
            values = kpac.detect(image, range="unit", **settings).values
            report = score(values, mask, "blurred")
            row = found.results.find((name, method, 0.0))
            for expected in report.rows:
                for measure in ("f0.3", "f1", "accuracy"):
                    value = row.scores[f"{measure} by {expected.rule}"]
                    assert value == pytest.approx(expected.to_dict()[measure], abs=1e-5)
            assert row.scores["average_precision"] == pytest.approx(
                report.average_precision, abs=1e-5
            )
            # Where everything is blurred, nothing can be told apart.
            assert ("roc_auc" in row.scores) == (name != "all")
    best = next(line for line in found.lines if line.method == "local variance")
    assert best.means["average_precision"] > 0.9
    assert best.counts["roc_auc"] == 2
    assert best.gains == {}


def test_from_the_terminal_into_a_page(cuhk, tiny_model, tmp_path, capsys):
    arguments = ["evaluate", "--dataset", "cuhk", "--root", str(cuhk), "--model", "tiny"]
    assert main(arguments) == 2
    assert "white or black" in capsys.readouterr().err
    output = tmp_path / "out"
    assert main([*arguments, "--blurred", "white", "--limit", "2", "-o", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "0.832" in printed
    assert "does not define its F-measure" in printed
    text = (output / "report.html").read_text()
    assert "Blur detection, f0.3, by rule for the threshold" in text
    lines = json.loads((output / "summary.json").read_text())["lines"]
    assert {line["images"] for line in lines} == {2}


def test_the_polarity_of_the_masks_counts(cuhk, tiny_model):
    scores = []
    for blurred in ("white", "black"):
        options = kpac.EvaluateOptions(
            kind="cuhk", root=str(cuhk), model=("tiny",), blurred=blurred, prefix="left"
        )
        found = finish(kpac.evaluate(options))
        assert len(tables_of(found)) == 5
        line = next(line for line in found.lines if line.method == "local variance")
        scores.append(line.means["roc_auc"])
    assert scores[0] == pytest.approx(1 - scores[1], abs=1e-9)
    assert scores[0] > 0.9
