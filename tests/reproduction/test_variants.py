"""The paper's variants, trained for a few steps: the same for all, stopped and resumed."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from skimage.io import imread

from napari_kpac import KpacError
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.reproduction import variants as module
from napari_kpac.reproduction.report import table, write_variants
from napari_kpac.reproduction.variants import (
    EXPERIMENTS,
    find_experiment,
    train_options,
    variant_steps,
)
from napari_kpac.training import read_trained


def test_variants_differ_in_what_the_paper_varies_and_nothing_else(variant_options):
    for experiment in EXPERIMENTS.values():
        made = [train_options(v, variant_options, 7).to_dict() for v in experiment.variants]
        for variant, chosen in zip(experiment.variants, made, strict=True):
            differing = {key for key in chosen if any(chosen[key] != other[key] for other in made)}
            assert differing <= {*variant.changes, *_all_changes(experiment), "name"}
            assert chosen["steps"] == 7
            assert chosen["seed"] == 0
            assert chosen["attention_loss"] == 0
    # What two experiments share is trained once: the options must agree.
    shared = {}
    for experiment in EXPERIMENTS.values():
        for variant in experiment.variants:
            chosen = train_options(variant, variant_options, 7)
            assert shared.setdefault(variant.slug, chosen) == chosen


def _all_changes(experiment):
    return {key for variant in experiment.variants for key in variant.changes}


def test_the_paper_has_a_row_for_every_variant():
    for experiment in EXPERIMENTS.values():
        for variant in experiment.variants:
            assert all(row.psnr for row in variant.printed.values())
    with pytest.raises(KpacError, match="no experiment"):
        find_experiment("magic")


def test_stopped_and_resumed_it_ends_with_the_same_weights(variant_options, tmp_path):
    experiments = [find_experiment("weight-sharing")]
    whole = finish(variant_steps(experiments, variant_options, tmp_path / "whole"))
    steps = variant_steps(experiments, variant_options, tmp_path / "broken")
    for _ in range(2):
        progress = next(steps)
    assert (progress.done, progress.total) == (2, 8)
    steps.close()
    broken = finish(variant_steps(experiments, variant_options, tmp_path / "broken"))
    for slug in ("unshared", "full"):
        first, second = (
            read_trained(tmp_path / name / "runs" / slug).state_dict()
            for name in ("whole", "broken")
        )
        assert all((first[name] == second[name]).all() for name in first)
    assert broken.outcomes == whole.outcomes


def test_scores_are_those_of_the_networks(variant_options, tmp_path, variant_photos):
    experiments = [find_experiment("noise")]
    compared = finish(variant_steps(experiments, variant_options, tmp_path))
    cases = SyntheticCases(variant_photos, "val", limit=1)
    network = compared.trained("full")
    expected = np.mean([psnr(network.restore(cases[i]), cases[i].sharp) for i in range(2)])
    assert compared.outcomes["full"].scores["0"]["psnr"] == pytest.approx(expected, abs=1e-4)
    blurred = np.mean([psnr(cases[i].blurred, cases[i].sharp) for i in range(2)])
    assert compared.input_scores["0"]["psnr"] == pytest.approx(blurred, abs=1e-9)
    assert compared.input_scores["5"]["psnr"] < compared.input_scores["1"]["psnr"]
    rows = table(experiments[0], compared).rows
    assert [row[1] for row in rows] == [n for n in ("0", "1", "3", "5") for _ in range(3)]
    assert tuple(rows[8][:3]) == ("with noise augmentation", "3", "25.01")
    assert rows[1][2] == "-"  # the paper has no row without noise


def test_a_second_experiment_in_the_folder_shares_what_it_can(
    variant_options, tmp_path, monkeypatch
):
    finish(variant_steps([find_experiment("weight-sharing")], variant_options, tmp_path))
    trained = []
    real = module.train
    monkeypatch.setattr(
        module, "train", lambda *given: trained.append(given[1].name) or real(*given)
    )
    experiments = [find_experiment("levels")]
    compared = finish(variant_steps(experiments, variant_options, tmp_path))
    assert trained == ["3-level"]
    write_variants(experiments, compared)
    assert imread(tmp_path / "levels.png").shape[2] == 3
    text = (tmp_path / "report.html").read_text()
    assert "synthetic data, 4 steps each" in text
    assert "the paper&#39;s, on DPDD" in text.replace("The paper&#39;s figures are ", "")
    other = replace(variant_options, steps=5)
    with pytest.raises(KpacError, match="other options"):
        finish(variant_steps(experiments, other, tmp_path))


def test_a_run_that_was_killed_before_it_kept_anything_begins_anew(variant_options, tmp_path):
    from napari_kpac.training.run_folder import RunFolder

    experiment = find_experiment("weight-sharing")
    chosen = train_options(experiment.variants[0], variant_options, 4)
    RunFolder(tmp_path / "runs" / "unshared").begin(chosen)
    compared = finish(variant_steps([experiment], variant_options, tmp_path))
    assert set(compared.outcomes) == {"unshared", "full"}


def test_the_budget_decides_how_many_steps(variant_options, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_seconds_a_step", lambda variants, options: 2.0)
    timed = replace(variant_options, steps=None, budget=20.0)
    compared = finish(variant_steps([find_experiment("weight-sharing")], timed, tmp_path / "a"))
    assert compared.steps == int(0.9 * 20 / (2 * 2.0)) == 4
    poor = replace(variant_options, steps=None, budget=2.0)
    with pytest.raises(KpacError, match="too small"):
        finish(variant_steps([find_experiment("weight-sharing")], poor, tmp_path / "b"))


def test_the_slowest_is_timed(variant_options, variant_photos):
    experiment = find_experiment("num-blocks")
    work = [module._work(variant, variant_options) for variant in experiment.variants]
    assert work == sorted(work)
    assert module._seconds_a_step(experiment.variants[:1], variant_options) > 0


def test_dual_pixel_variants_from_the_terminal(variant_options, tmp_path, capsys):
    arguments = [
        "reproduce",
        "dual",
        "--root",
        variant_options.root,
        "--steps",
        "2",
        "--photos",
        "1",
    ]
    arguments += ["--preset", variant_options.preset, "-o", str(tmp_path / "out")]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert re.search(r"KPAC \(dual\) +0 +25\.86 +2\.06", printed)
    assert "synthetic data, 2 steps each" in printed
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["variants"]) == {"3-level", "dual"}
    assert found["label"] == "synthetic data, 2 steps each"


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("60m", 3600), ("1.5h", 5400)])
def test_times_are_read(text, seconds):
    from napari_kpac.cli.reproduce import _seconds

    assert _seconds(text) == seconds


@pytest.mark.parametrize("text", ["soon", "-3m", "0", "5d"])
def test_a_bad_time_is_a_mistake_in_the_call(text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["reproduce", "ablation", "--root", "x", "-o", "y", f"--budget={text}"])
    assert stop.value.code == 2


@pytest.mark.long
def test_everything_goes_into_one_report(variant_options, tmp_path, monkeypatch):
    from napari_kpac.reproduction import cost as costing
    from napari_kpac.reproduction.report import everything_steps

    monkeypatch.setattr(costing, "NETWORKS", costing.NETWORKS[:2])
    tables = finish(everything_steps(variant_options, tmp_path, size=(32, 64)))
    titles = [each.title for each in tables]
    assert titles[0] == "Cost, measured here at 64x32"
    assert titles[-6:] == [experiment.title for experiment in EXPERIMENTS.values()]
    text = (tmp_path / "report.html").read_text()
    assert text.count("data:image/png") == 5 + 3 + 6
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {
        variant.slug for experiment in EXPERIMENTS.values() for variant in experiment.variants
    }
