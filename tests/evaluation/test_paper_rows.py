"""``reproduce comparison`` and ``detection``: every row of the paper, with ours beside it."""

import json
import re

import numpy as np
import pytest
from skimage import data
from skimage.io import imread, imsave

import napari_kpac as kpac
from napari_kpac import weights
from napari_kpac.cli import main
from napari_kpac.datasets import DataOptions, open_pairs
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.optics import TWO_STEP_SETTINGS, sparsity_map, two_step
from napari_kpac.optics.deconvolution import fitting_blur
from tests import dmenet_reference


@pytest.fixture
def defocus(tiny_model, tmp_path):
    """A DMENet with random weights, installed as ``defocus`` beside the model ``tiny``."""
    assert tiny_model == "tiny"
    dmenet_reference.write_named(tmp_path / "file.npz", dmenet_reference.random_layers())
    return weights.install(tmp_path / "file.npz", "defocus").name


def last_table(printed):
    """Return the rows of the last table by the label of the paper."""
    rows = printed.split("The paper's ")[-1].splitlines()[3:]
    return {re.split(r"  +", row)[0]: re.split(r"  +", row)[1:] for row in rows if "  " in row}


def test_the_comparison_has_every_row(dpdd, defocus, tmp_path, capsys):
    output = tmp_path / "out"
    call = ["reproduce", "comparison", "--root", str(dpdd), "--split", "val", "--limit", "1"]
    assert main([*call, "--model", "tiny", "--model", defocus, "-o", str(output)]) == 0
    rows = last_table(capsys.readouterr().out)
    assert {label: cells[3] for label, cells in rows.items()} == {
        "blurred input": "input", "JNB": "jnb", "EBDB": "ebdb", "DMENet": "defocus",
        "DPDNet (single)": "not measured", "DPDNet (dual)": "not measured",
        "KPAC (2-level)": "not measured", "KPAC (3-level)": "tiny",
        "KPAC (dual)": "not measured",
    }  # fmt: skip
    assert rows["JNB"][:3] == ["23.70", "0.799", "0.442"]
    # Rows in two steps are made with the literature's settings, whatever the estimator.
    settings = json.loads((output / "summary.json").read_text())["settings"]
    for name in ("jnb", "ebdb", defocus):
        used = settings["methods"][name]
        assert (used["exponent"], used["weight"], used["levels"]) == (1.5, 16.8, 32)
    pair = open_pairs(DataOptions(kind="dpdd", root=str(dpdd), split="val"))[0]
    sigma = fitting_blur(sparsity_map(pair.blurred))
    plain = two_step(pair.blurred, TWO_STEP_SETTINGS["paper"], sigma=sigma).image
    assert float(rows["JNB"][4]) == pytest.approx(psnr(plain, pair.sharp), abs=0.02)


def test_dual_views_have_their_row(dpdd, tmp_path, capsys, monkeypatch):
    seen = []

    def evaluate(options, output):
        seen.append(options)
        raise kpac.KpacError("enough")
        yield

    monkeypatch.setattr("napari_kpac.evaluation.evaluate", evaluate)
    call = ["reproduce", "comparison", "--root", str(dpdd), "-o", str(tmp_path)]
    for more, models, dual in (
        ([], ("kpac-2level", "kpac-3level"), False),
        (["--dual"], ("kpac-2level", "kpac-3level", "kpac-dual"), True),
    ):
        assert main([*call, *more]) == 1
        assert (seen[-1].model, seen[-1].dual, seen[-1].split) == (models, dual, "test")
        assert (seen[-1].ssim, seen[-1].deconvolution) == ("paper", "paper")


def test_evaluate_has_both_settings(dpdd, tiny_model, capsys):
    call = ["evaluate", "--dataset", "dpdd", "--root", str(dpdd), "--model", tiny_model, "--limit"]
    found = {}
    for name in TWO_STEP_SETTINGS:
        more = ["1", "--method", "ebdb", "--deconvolution", name, "--no-lpips", "--json"]
        assert main([*call, *more]) == 0
        lines = json.loads(capsys.readouterr().out)["lines"]
        found[name] = {line["method"]: line["means"]["psnr"] for line in lines}
    assert found["default"]["tiny"] == found["paper"]["tiny"]
    assert found["default"]["ebdb"] != found["paper"]["ebdb"]


def test_detection_on_masks_of_ones_own(defocus, tmp_path, capsys):
    photo = data.astronaut()[100:196, 180:308]
    radius = np.zeros(photo.shape[:2], np.float32)
    radius[:, 64:] = 4
    for name, pixels in (
        ("image", kpac.defocus(photo, radius).image),
        ("gt", (255 * (radius > 0)).astype(np.uint8)),
    ):
        (tmp_path / "cuhk" / name).mkdir(parents=True)
        imsave(tmp_path / "cuhk" / name / "a.png", pixels, check_contrast=False)
    call = ["reproduce", "detection", "--root", str(tmp_path / "cuhk"), "-o", str(tmp_path / "out")]
    call += ["--model", "tiny", "--model", defocus]
    assert main(call) == 2
    assert "white or black" in capsys.readouterr().err
    assert main([*call, "--split", "val"]) == 2
    assert "no splits" in capsys.readouterr().err
    assert main([*call, "--blurred", "white"]) == 0
    rows = last_table(capsys.readouterr().out)
    here = {label: (cells[0], cells[2]) for label, cells in rows.items()}
    assert here == {
        "alpha_1 of block 1, enlarged 4 times": ("0.832", "tiny, alpha_1, enlarged 4x"),
        "EBDB": ("0.839", "ebdb"), "JNB": ("-", "jnb"), "DMENet": ("-", "defocus"),
    }  # fmt: skip
    lines = json.loads((tmp_path / "out" / "summary.json").read_text())["lines"]
    means = {line["method"]: line["means"] for line in lines}
    assert rows["JNB"][3:] == [
        f"{means['jnb'][name]:.4f}"
        for name in ("f0.3 by midrange", "f1 by midrange", "f0.3 by best F0.3",
                     "accuracy by midrange")
    ]  # fmt: skip


def test_detection_on_photographs_makes_its_masks(tiny_model, tmp_path, capsys):
    photos, output = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    for number in range(2):
        part = data.astronaut()[:400, 50 + 20 * number : 450 + 20 * number]
        imsave(photos / f"{number}.png", part, check_contrast=False)
    call = ["reproduce", "detection", "--dataset", "synthetic", "--root", str(photos)]
    assert main([*call, "--model", tiny_model, "-o", str(output)]) == 0
    assert "not measured" in last_table(capsys.readouterr().out)["DMENet"]
    cases = SyntheticCases(photos)
    written = {path.stem: path for path in (output / "images" / "gt").iterdir()}
    assert written
    for index in range(len(cases)):
        blurred, name = np.abs(cases[index].radius) > 1, cases.name(index)
        if name in written:
            assert np.array_equal(imread(written[name]) > 127, blurred)
        else:
            assert blurred.mean() < 0.02 or blurred.mean() > 0.98


def test_estimators_measure_a_dmenet_too(defocus, tmp_path, capsys):
    imsave(tmp_path / "a.png", data.astronaut()[:400, 50:450], check_contrast=False)
    call = ["reproduce", "estimators", "--root", str(tmp_path), "--model", "tiny"]
    assert main([*call, "--estimator-model", f"dmenet={defocus}"]) == 0
    printed = capsys.readouterr().out
    assert [name for name in ("EBDB", "JNB", "DMENet", "alpha_1") if name not in printed] == []
