"""tools/bundle.py: the card of a bundled model says what was measured and trained with."""

import json

import pytest
from skimage.io import imread

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.weights import describe
from tests import tools


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tools.FOLDER))
    tool = tools.load_tool("bundle")
    (tmp_path / "bundled").mkdir()
    monkeypatch.setattr(tool, "FOLDER", tmp_path / "bundled")
    monkeypatch.setattr(tool, "MIN_PSNR_DB", 20.0)  # the tiny network has large weights
    return tool


@pytest.fixture
def corpora(tmp_path):
    rows = {
        "photos": ["a,train,CC0", "b,train,MIT", "c,val,none"],
        "more": ["d,train,CC0"],
        "pairs": ["1A,train,CC-BY-4.0", "1B,train,CC-BY-4.0", "2A,val,none"],
    }
    for name, lines in rows.items():
        (tmp_path / name).mkdir()
        text = "\n".join(["file,split,licence", *lines, ""])
        (tmp_path / name / "MANIFEST.csv").write_text(text)
    return {name: str(tmp_path / name) for name in rows}


@pytest.fixture
def measured(dpdd, folders, tiny_model, tmp_path):
    """Evaluations in the folders in which the cards' figures are looked for."""
    given = {"model": (tiny_model,), "lpips": False}
    known = {"kind": "dpdd", "root": str(dpdd), **given}
    options = {
        "scenes": kpac.EvaluateOptions(noise=(0, 1, 3), sliders=True, **known),
        "uniform": kpac.EvaluateOptions(noise=(0.3,), **known),
        "microscopy": kpac.EvaluateOptions(**known),
        "real": kpac.EvaluateOptions(kind="pairs", root=str(folders), fit_exposure=True, **given),
    }
    for name, each in options.items():
        finish(kpac.evaluate(each, tmp_path / "measured" / name))
    return tmp_path / "measured"


def lines_of(measured, name):
    lines = json.loads((measured / name / "summary.json").read_text())["lines"]
    return {line["noise"]: line for line in lines if line["method"] == "tiny"}


def test_the_card_has_all_figures_and_licences(bundle, corpora, measured, own_models, tmp_path):
    model = str(own_models / "tiny.safetensors")
    call = [model, "--name", "new", "--version", "2", "--training", "long"]
    call += ["--photos", corpora["photos"], corpora["more"], "--pairs", corpora["pairs"]]
    bundle.main([*call, "--measured", str(measured)])
    card = describe(tmp_path / "bundled" / "new.safetensors").card
    assert card.training_data == (
        "synthetic defocus on 3 sharp photographs, and 2 real pairs. Licences of the photographs:"
        " 2 CC0; 1 MIT. Licences of the pairs: 2 CC-BY-4.0"
    )
    assert "0 to 20 px and on real pairs" in card.limits
    assert "sliders" in card.limits
    lines, real = lines_of(measured, "scenes"), lines_of(measured, "real")[0]
    clean = lines[0]
    expected = {
        "sharp kept (dB)": clean["means"]["sharp kept"],
        "alpha1 ROC AUC": clean["separation"]["alpha1"],
        "mean gain on real pairs (dB)": real["gains"]["psnr"],
        "worst gain on real pairs (dB)": real["worst_gain"],
    }
    by_tail = {
        "": clean,
        ", noise 1 %": lines[1],
        ", noise 3 %": lines[3],
        ", one radius, noise 0.3 %": lines_of(measured, "uniform")[0.3],
        ", microscopy images": lines_of(measured, "microscopy")[0],
    }
    for tail, line in by_tail.items():
        for name, gain in line["gains"].items():
            if name != "psnr":
                expected[f"benchmark gain {name[5:]}{tail} (dB)"] = gain
        if line["mean_gain"] is not None:
            expected[f"benchmark gain 1-8 px{tail} (dB)"] = line["mean_gain"]
    for name, share in clean["share_through_alpha"].items():
        expected[f"share of the gain through alpha, {name}"] = share
    for name, cost in clean["means"].items():
        if name.startswith(("cost of muting everything at", "cost of muting 4 and 5")):
            expected[f"{name} (dB)"] = cost
    expected["cost of muting everything (dB)"] = clean["means"]["cost of muting everything"]
    assert {"benchmark gain 0-1 px, noise 3 % (dB)", "cost of muting everything at 0-1 px (dB)"} < {
        *expected
    }
    assert dict(card.figures) == {
        name: pytest.approx(value, abs=6e-4) for name, value in expected.items()
    }
    assert {"won with sliders at 0.5", "input kept with sliders at 0"} < {*card.sliders}
    assert {"change by muting dilation 5 at 0-1 px", "overshoot with sliders at 1.5"} < {
        *card.sliders
    }
    assert dict(card.sliders) == {
        name: pytest.approx(clean["means"][name], abs=6e-4) for name in card.sliders
    }


def test_one_folder_and_the_benchmark_are_enough(bundle, corpora, measured, own_models, tmp_path):
    for name in ("uniform", "microscopy", "real"):
        (measured / name / "summary.json").unlink()
    call = [str(own_models / "tiny.safetensors"), "--name", "new", "--photos", corpora["photos"]]
    bundle.main([*call, "--measured", str(measured)])
    card = describe(tmp_path / "bundled" / "new.safetensors").card
    assert card.training_data == (
        "synthetic defocus on 2 sharp photographs. Licences: 1 CC0; 1 MIT"
    )
    assert "real pairs" not in card.limits
    assert not any("real" in name or "one radius" in name for name in card.figures)


def test_figures_of_other_weights_or_without_a_fit_are_refused(
    bundle, corpora, measured, own_models, tmp_path
):
    call = [str(own_models / "tiny.safetensors"), "--name", "new", "--photos", corpora["photos"]]
    call += ["--measured", str(measured)]
    scenes, real = (measured / name / "summary.json" for name in ("scenes", "real"))
    kept = real.read_text()
    real.write_text(scenes.read_text())
    with pytest.raises(SystemExit, match="without --fit-exposure"):
        bundle.main(call)
    real.write_text(kept)
    other = json.loads(scenes.read_text())
    other["settings"]["methods"]["tiny"]["sha256"] = "0" * 64
    scenes.write_text(json.dumps(other))
    with pytest.raises(SystemExit, match="no line about this model"):
        bundle.main(call)
    assert not list((tmp_path / "bundled").iterdir())


def test_microscopy_images_come_with_scikit_image(bundle, tmp_path):
    from measure_model import write_microscopy

    images = sorted(write_microscopy(tmp_path).iterdir())
    assert len(images) == 8
    one, turned = imread(images[0]), imread(images[3])
    assert one.shape[2] == 3
    assert min(one.shape[:2]) >= 384
    assert one.shape[:2] == turned.shape[1::-1]
