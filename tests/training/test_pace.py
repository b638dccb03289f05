"""The expected time of a run, and measurements that stop when they are told to."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

import napari_kpac
from napari_kpac.core.progress import Progress, finish, relay
from napari_kpac.training import TrainProgress, train
from napari_kpac.training.loop import train_steps
from napari_kpac.training.pace import MEASURED_STEPS, Pace, measure_pace
from napari_kpac.training.processes import fastest_count, speedup

PACKAGE = Path(napari_kpac.__file__).parent


def our_processes():
    found = psutil.Process().children(recursive=True)
    return [each for each in found if "napari_kpac.training" in each.cmdline()]


def test_the_duration_is_that_of_all_phases_and_validations(options):
    phases = [{"part": 0.25, "label": "a"}, {"part": 0.75, "label": "b"}]
    given = options(steps=100, validate_every=30, phases=phases)
    # 25 steps of 1 s, 75 of 2 s; validations after 30, 60, 90 and 100 steps.
    assert Pace((1.0, 2.0), 5.0).duration(given) == 25 + 150 + 4 * 5


def test_every_phase_is_measured(options):
    phases = [{"part": 0.5, "label": "a"}, {"part": 0.5, "label": "b", "crop_size": 64}]
    steps = measure_pace(options(steps=20, phases=phases, device="cpu"))
    said = []
    pace = finish(relay(steps, said.append))
    assert len(pace.steps) == 2
    assert min(*pace.steps, pace.validation) > 0
    timed = [each for each in said if "timing" in each.stage]
    assert len(timed) == 2 * (1 + MEASURED_STEPS) + 1
    assert any(each.stage.startswith("looking at ") for each in said)


def test_processes_that_are_faster_shorten_the_expected_time(options, monkeypatch):
    given = options(steps=20, batch_size=4, devices=2, device="cpu")

    def twice(*_):
        yield from ()
        return 2.0

    monkeypatch.setattr("napari_kpac.training.pace.speedup", twice)
    pace = finish(measure_pace(given))
    assert pace.validation > 0
    assert len(pace.steps) == 1


def test_a_measurement_that_is_closed_ends_its_processes(options, monkeypatch):
    remembered = {}
    monkeypatch.setattr("napari_kpac.training.processes._speedups", remembered)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical=True: 2)
    steps = fastest_count(options(steps=5000, threads=0, device="cpu"))
    assert next(steps) == Progress(0, 2, "measuring how fast 1 process would be")
    children = our_processes()
    assert children
    steps.close()
    assert not any(child.is_running() for child in children)
    assert not remembered


def test_both_ways_of_learning_are_measured(options, monkeypatch):
    monkeypatch.setattr("napari_kpac.training.processes._speedups", {})
    said = []
    found = finish(relay(speedup(options(threads=0, device="cpu"), 2), said.append))
    assert found > 0
    assert {each.stage for each in said} == {
        "measuring how fast 1 process would be", "measuring how fast 2 processes would be",
    }  # fmt: skip
    assert not our_processes()


def test_what_was_measured_is_not_measured_again(options, monkeypatch):
    given = options(batch_size=2)
    rates = iter((100.0, 150.0))

    def rate(*_):
        yield Progress(0, 1, "measuring")
        return next(rates)

    monkeypatch.setattr("napari_kpac.training.processes._measure_rate", rate)
    monkeypatch.setattr("napari_kpac.training.processes._speedups", {})
    assert finish(speedup(given, 2)) == 1.5
    assert finish(speedup(replace(given, name="another"), 2)) == 1.5
    with pytest.raises((StopIteration, RuntimeError)):
        finish(speedup(replace(given, crop_size=64), 2))


def test_what_comes_before_the_first_step_is_said_only_where_it_is_wanted(options, tmp_path):
    every = list(train_steps(options(steps=2), tmp_path / "all"))
    looking = [each for each in every if not isinstance(each, TrainProgress)]
    validating = [each for each in looking if each.stage.startswith("validating")]
    assert [each.done for each in validating] == [2, 2]
    looking = looking[: -len(validating)]
    assert all("looking at" in each.stage for each in looking)
    assert len(looking) >= 2
    assert [each.done for each in train(options(steps=2), tmp_path / "steps")] == [1, 2]


def test_a_run_that_is_closed_before_its_first_step_leaves_its_folder_free(options, tmp_path):
    steps = train_steps(options(steps=2, devices=2, batch_size=2, device="cpu"), tmp_path / "run")
    while next(steps).stage != "starting processes":
        pass
    children = our_processes()
    assert children
    steps.close()
    assert not any(child.is_running() for child in children)
    assert not (tmp_path / "run" / "options.json").exists()


@pytest.mark.parametrize("room", ["training", "datasets", "widgets", "evaluation"])
def test_no_message_that_a_window_shows_names_a_flag(room):
    """Texts of the code, without docstrings; flags are for the terminal's own messages."""
    for path in (PACKAGE / room).rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        told = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                flag = re.search(r"(?<![\w-])--[a-z]", node.value)
                assert flag is None or id(node) in told, f"{path}:{node.lineno}: {node.value}"
