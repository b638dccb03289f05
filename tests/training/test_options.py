"""Options and presets: every one is valid, and nonsense is refused before anything starts."""

import json
import subprocess
import sys

import pytest

from napari_kpac.core.errors import ConfigError, WeightsError
from napari_kpac.training import PRESETS, TrainOptions, preset


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name):
    options = preset(name, root="somewhere")
    assert TrainOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_the_paper_preset_is_the_papers():
    options = preset("paper")
    assert (options.steps, options.rate, options.final_rate) == (200_000, 1e-4, 1.0)
    assert (options.fine_steps, options.fine_rate, options.perceptual) == (100_000, 5e-5, 7e-4)
    assert (options.batch, options.crop, options.betas) == (4, 512, (0.9, 0.99))
    assert (options.ema, options.attention_rate, options.attention_loss) == (0.0, 1.0, 0.0)
    assert (options.steering, options.phases) == (0.0, ())


def test_a_preset_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('rate = 1e-3\nname = "mine"\n')
    assert preset(file, steps=5) == TrainOptions(rate=1e-3, name="mine", steps=5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate = ", "not valid TOML"),
        ("speed = 3", "no option speed"),
        ('steps = "many"', "steps='many'"),
        ("skip_bad = 1", "skip_bad=1"),
        ("steps = true", "steps=True"),
    ],
)
def test_bad_presets_say_why(tmp_path, text, words):
    file = tmp_path / "bad.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        preset(file)


def test_unknown_presets_name_the_known():
    with pytest.raises(ConfigError, match="default, paper, finetune, smoke"):
        preset("fast")
    with pytest.raises(ConfigError, match="cannot read the preset"):
        preset("nowhere.toml")


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "cuhk"},
        {"levels": 4},
        {"crop": 100},
        {"rate": 0.0},
        {"rate": float("nan")},
        {"batch": 3, "devices": 2},
        {"steps": 0},
        {"betas": (0.9,)},
        {"betas": (0.9, 1.0)},
        {"sharp": "x"},
        {"kind": "pairs", "dual": True},
        {"bits": 12},
        {"precision": "int8"},
        {"ema": 1.0},
        {"network": "unet"},
        {"network": "residual"},
        {"steering": 1.5},
        {"uniform": 0.9},
        {"radii": (0.0, 3.0)},
        {"paired": 1.0, "uniform": 0.0, "scenes": 0.0, "focused": 0.0},
        {"pairs": ("x",), "kind": "pairs"},
    ],
)
def test_nonsense_is_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes)).split("_")[0]):
        TrainOptions(**changes)


PHASED = {
    "steps": 100,
    "rate": 1e-3,
    "phases": (
        {"label": "few", "part": 0.25, "radii": [1.5, 3.0], "uniform": 1.0, "scenes": 0.0,
         "focused": 0.0},
        {"part": 0.75, "rate": 2e-4, "crop": 64},
    ),
}  # fmt: skip


def test_phases_have_options_of_their_own():
    first, second = TrainOptions(**PHASED).schedule()
    assert (first.label, first.begin, first.end) == ("few", 0, 25)
    assert (second.label, second.begin, second.end) == ("training", 25, 100)
    assert (first.options.radii, first.options.rate) == ((1.5, 3.0), 1e-3)
    assert (second.options.radii, second.options.rate, second.options.crop) == ((), 2e-4, 64)
    assert second.options.steps == 75
    assert TrainOptions(**PHASED).total == 100


def test_a_run_without_phases_is_one():
    (only,) = TrainOptions(steps=7, perceptual=3.0).schedule()
    assert (only.begin, only.end, only.options.steps) == (0, 7, 7)
    assert only.options.perceptual == 0


def test_few_steps_leave_out_phases_that_are_too_short():
    assert [phase.end for phase in preset("default", steps=4).schedule()] == [2, 4]
    assert preset("default", steps=1).schedule()[-1].end == 1


@pytest.mark.parametrize(
    ("phases", "words"),
    [
        (({"part": 0.5},), "sum to 0.5, not to 1"),
        (({"part": 0},), "phase 1: part=0"),
        (({},), "phase 1: part=None"),
        ((1, 2), "must be a table"),
        (({"part": 1.0, "levels": 2},), "phase 1 has no option levels"),
        (({"part": 1.0, "uniform": 0.9},), "phase 1: the shares of the crops"),
        (({"part": 1.0, "rate": "fast"},), "phase 1: rate='fast'"),
        (
            ({"part": 1.0, "paired": 1.0, "uniform": 0.0, "scenes": 0.0, "focused": 0.0},),
            "no folder of pairs is named",
        ),
    ],
)
def test_phases_that_make_no_sense_are_refused(phases, words):
    with pytest.raises(ConfigError, match=words):
        TrainOptions(phases=phases)


def test_the_default_preset_has_few_radii_then_all_then_scenes():
    few, all_radii, scenes = preset("default").schedule()
    assert few.options.radii
    assert few.options.scenes == 0
    assert not all_radii.options.radii
    assert scenes.options.scenes > all_radii.options.scenes
    assert scenes.options.paired > 0
    assert scenes.options.final_rate < 0.1
    assert scenes.end == preset("default").steps


def test_options_of_runs_from_before_are_read():
    values = TrainOptions(root="photos").to_dict() | {"root": "photos"}
    for name in ("phases", "pairs", "steering", "uniform", "radii"):
        del values[name]
    assert TrainOptions.from_dict(values).root == ("photos",)


def test_bad_names_are_refused():
    with pytest.raises(WeightsError, match="model name"):
        TrainOptions(name="../etc")


def test_options_load_no_torch():
    code = "import sys, napari_kpac.training as t; t.preset('smoke'); exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
