"""Options and presets: every one is valid, and nonsense is refused before anything starts."""

import json
import subprocess
import sys

import pytest

from napari_kpac.errors import ConfigError, WeightsError
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
    ],
)
def test_nonsense_is_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes)).split("_")[0]):
        TrainOptions(**changes)


def test_bad_names_are_refused():
    with pytest.raises(WeightsError, match="model name"):
        TrainOptions(name="../etc")


def test_options_load_no_torch():
    code = "import sys, napari_kpac.training as t; t.preset('smoke'); exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
