"""Options and presets: every one is valid, and nonsense is refused before anything starts."""

import argparse
import json
import subprocess
import sys
from dataclasses import fields

import pytest

from napari_kpac.cli.common import add_options, given_options
from napari_kpac.core.errors import ConfigError, WeightsError
from napari_kpac.network import KPACConfig
from napari_kpac.training import PRESETS, TrainOptions, preset
from napari_kpac.training.options import PHASE_OPTIONS, NetworkOptions
from napari_kpac.training.run_folder import RunFolder

EARLIER = {
    "rate": ("learning_rate", 0.25),
    "final_rate": ("final_learning_rate", 0.25),
    "fine_rate": ("fine_learning_rate", 0.25),
    "attention_rate": ("attention_learning_rate", 0.25),
    "largest": ("max_radius", 7.5),
    "noisy": ("noise_probability", 0.25),
    "save": ("save_every", 7),
    "validate": ("validate_every", 7),
    "crops": ("validation_crops", 7),
    "crop": ("crop_size", 64),
    "batch": ("batch_size", 7),
    "clip": ("gradient_clip", 0.25),
    "ema": ("ema_decay", 0.25),
    "held_out": ("validation_share", 0.25),
    "pairs": ("pairs_root", ["real"]),
}
"""Names of before, those of today, and a value that is no default."""


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_valid_and_survive_json(name):
    options = preset(name, root="somewhere")
    assert TrainOptions.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_the_paper_preset_is_the_papers():
    options = preset("paper")
    assert (options.steps, options.learning_rate, options.final_learning_rate) == (2e5, 1e-4, 1.0)
    assert (options.fine_steps, options.fine_learning_rate) == (100_000, 5e-5)
    assert (options.batch_size, options.crop_size, options.betas) == (4, 512, (0.9, 0.99))
    assert (options.ema_decay, options.perceptual) == (0.0, 7e-4)
    assert (options.attention_learning_rate, options.attention_loss) == (1.0, 0.0)
    assert (options.steering, options.phases) == (0.0, ())


def test_a_preset_of_ones_own(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('learning_rate = 1e-3\nname = "mine"\n')
    assert preset(file, steps=5) == TrainOptions(learning_rate=1e-3, name="mine", steps=5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("learning_rate = ", "not valid TOML"),
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
        {"crop_size": 100},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"batch_size": 3, "devices": 2},
        {"steps": 0},
        {"betas": (0.9,)},
        {"betas": (0.9, 1.0)},
        {"sharp": "x"},
        {"kind": "pairs", "dual": True},
        {"bits": 12},
        {"precision": "int8"},
        {"ema_decay": 1.0},
        {"network": "unet"},
        {"network": "residual"},
        {"steering": 1.5},
        {"uniform": 0.9},
        {"radii": (0.0, 3.0)},
        {"paired": 1.0, "uniform": 0.0, "scenes": 0.0, "focused": 0.0},
        {"pairs_root": ("x",), "kind": "pairs"},
    ],
)
def test_nonsense_is_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes)).split("_")[0]):
        TrainOptions(**changes)


PHASED = {
    "steps": 100,
    "learning_rate": 1e-3,
    "phases": (
        {"label": "few", "part": 0.25, "radii": [1.5, 3.0], "uniform": 1.0, "scenes": 0.0,
         "focused": 0.0},
        {"part": 0.75, "learning_rate": 2e-4, "crop_size": 64},
    ),
}  # fmt: skip


def test_phases_have_options_of_their_own():
    first, second = TrainOptions(**PHASED).schedule()
    assert (first.label, first.begin, first.end) == ("few", 0, 25)
    assert (second.label, second.begin, second.end) == ("training", 25, 100)
    assert (first.options.radii, first.options.learning_rate) == ((1.5, 3.0), 1e-3)
    assert (second.options.radii, second.options.learning_rate) == ((), 2e-4)
    assert second.options.crop_size == 64
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
        (({"part": 1.0, "learning_rate": "fast"},), "phase 1: learning_rate='fast'"),
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
    assert scenes.options.final_learning_rate < 0.1
    assert scenes.end == preset("default").steps


def test_options_of_runs_from_before_are_read():
    values = TrainOptions(root="photos").to_dict() | {"root": "photos"}
    for name in ("phases", "pairs_root", "steering", "uniform", "radii"):
        del values[name]
    assert TrainOptions.from_dict(values).root == ("photos",)


def test_bad_names_are_refused():
    with pytest.raises(WeightsError, match="model name"):
        TrainOptions(name="../etc")


def test_options_load_no_torch():
    code = "import sys, napari_kpac.training as t; t.preset('smoke'); exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_all_earlier_names_are_known():
    aliases = {old: f.name for f in fields(TrainOptions) for old in f.metadata.get("aliases", ())}
    assert aliases == {old: new for old, (new, _) in EARLIER.items()}


@pytest.mark.parametrize("old", EARLIER)
def test_presets_may_use_earlier_names(tmp_path, old):
    new, value = EARLIER[old]
    file = tmp_path / "old.toml"
    file.write_text(f"{old} = {json.dumps(value)}\n")
    wanted = TrainOptions(**{new: value})
    assert preset(file) == wanted != TrainOptions()
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert preset(empty, **{old: value}) == wanted
    file.write_text(f"{old} = {json.dumps(value)}\n{new} = {json.dumps(value)}\n")
    with pytest.raises(ConfigError, match=f"{new} is given twice"):
        preset(file)


@pytest.mark.parametrize("old", EARLIER)
def test_a_change_by_any_name_replaces_what_the_preset_says(tmp_path, old):
    new, value = EARLIER[old]
    file = tmp_path / "mine.toml"
    file.write_text(f"{new} = {json.dumps(getattr(TrainOptions(), new))}\n")
    assert preset(file, **{old: value}) == TrainOptions(**{new: value})


@pytest.mark.parametrize("old", EARLIER)
def test_run_folders_may_use_earlier_names(tmp_path, old):
    new, value = EARLIER[old]
    wanted = TrainOptions(**{new: value})
    before = {{new: old}.get(name, name): value for name, value in wanted.to_dict().items()}
    assert old in before
    (tmp_path / "options.json").write_text(json.dumps(before))
    assert RunFolder(tmp_path).options() == wanted


@pytest.mark.parametrize("old", EARLIER)
def test_the_command_line_takes_earlier_flags_without_showing_them(old):
    new, value = EARLIER[old]
    parser = argparse.ArgumentParser()
    add_options(parser, TrainOptions)
    text = value[0] if isinstance(value, list) else str(value)
    given = [
        given_options(parser.parse_args([f"--{name.replace('_', '-')}", text]), TrainOptions)
        for name in (old, new)
    ]
    assert TrainOptions(**given[0]) == TrainOptions(**given[1]) == TrainOptions(**{new: value})
    shown = parser.format_help()
    assert f"--{new.replace('_', '-')} " in shown
    assert f"--{old.replace('_', '-')} " not in shown


@pytest.mark.parametrize("old", [old for old, (new, _) in EARLIER.items() if new in PHASE_OPTIONS])
def test_phases_may_use_earlier_names(old):
    new, value = EARLIER[old]
    phases = ({"part": 1.0, old: value},)
    assert TrainOptions(phases=phases) == TrainOptions(phases=({"part": 1.0, new: value},))
    assert getattr(TrainOptions(phases=phases).schedule()[0].options, new) == value


def test_the_network_of_the_options_is_that_of_the_paper():
    """The options cannot ask KPACConfig for its defaults: that would load torch."""
    options, config = NetworkOptions(), KPACConfig()
    shared = {f.name for f in fields(NetworkOptions)} & {f.name for f in fields(KPACConfig)}
    assert len(shared) == 6
    assert all(getattr(options, name) == getattr(config, name) for name in shared)
