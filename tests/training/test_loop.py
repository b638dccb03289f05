"""Runs: they learn, stop at any yield, go on exactly after a kill, and leave whole files."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError, FileError, TrainingError, WeightsError
from napari_kpac.core.progress import finish
from napari_kpac.engine.precision import Trial, try_bfloat16
from napari_kpac.training import processes, resume, train
from napari_kpac.training.loop import train_steps
from napari_kpac.training.options import PRESETS
from tests.training.test_parts import random_vgg

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
WAIT = 120
"""Seconds after which something that should have happened has not."""


def wait_for(happened) -> None:
    end = time.monotonic() + WAIT
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def tensors(run: Path) -> dict[str, torch.Tensor]:
    return load_file(run / "state.safetensors")


def equal(one: Path, other: Path) -> bool:
    first, second = tensors(one), tensors(other)
    return first.keys() == second.keys() and all(torch.equal(first[k], second[k]) for k in first)


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def test_a_run_tells_of_itself(options, tmp_path):
    run = tmp_path / "run"
    steps, seen = train(options(), run), []
    while True:
        try:
            seen.append(next(steps))
        except StopIteration as stop:
            trained = stop.value
            break
    assert [event.done for event in seen] == list(range(1, 9))
    assert all(event.total == 8 and event.loss > 0 and event.rate > 0 for event in seen)
    assert all(event.throughput > 0 for event in seen)
    assert seen[-1].eta == 0
    assert all(len(event.alphas) == 2 and len(event.alphas[0]) == 5 for event in seen)
    assert [event.done for event in seen if event.scores is not None] == [4, 8]
    scores = seen[-1].scores
    assert scores.preview.shape == (64, 96, 3)
    assert {"all", "0-1 px"} <= set(scores.gains)
    assert trained.model == run / "best.safetensors"
    assert {path.name for path in run.iterdir()} >= {
        "options.json", "metrics.csv", "state.safetensors", "best.safetensors",
        "last.safetensors", "ema.safetensors", "previews",
    }  # fmt: skip
    assert [row["step"] for row in rows(run)] == ["4", "8"]
    assert sorted(path.name for path in (run / "previews").iterdir()) == [
        "0000004.png",
        "0000008.png",
    ]
    assert not list(run.glob(".*"))


def test_the_result_is_a_model_like_any_other(options, tmp_path):
    from napari_kpac.weights import install

    trained = finish(train(options(), tmp_path / "run"))
    install(trained.model)
    card = next(entry.card for entry in kpac.models() if entry.name == "tiny")
    assert " steps of 2 crops of 32x32, from scratch" in card.training
    assert card.figures["steps"] in (4, 8)
    net = kpac.load("tiny")
    assert net.config.channels == 4


def test_tensorboard_gets_its_events(options, tmp_path):
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="needs the extra train"
    )
    finish(train(options(), tmp_path / "run"))
    events = accumulator.EventAccumulator(str(tmp_path / "run" / "events"))
    events.Reload()
    assert [event.step for event in events.Scalars("mae")] == [4, 8]


@pytest.mark.parametrize("stopped", [1, 4, 5])
def test_stopping_at_a_yield_keeps_everything(options, tmp_path, stopped):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(train(options(), whole))
    steps = train(options(), parts)
    for _ in range(stopped):
        next(steps)
    steps.close()
    rest = resume(parts)
    assert next(rest).done == stopped + 1
    finish(rest)
    assert equal(whole, parts)
    assert [row["mae"] for row in rows(whole)] == [row["mae"] for row in rows(parts)]


@pytest.mark.parametrize("step", [4, 8])
def test_stopping_within_a_validation_keeps_everything(options, tmp_path, step):
    """The validation is made again when the run goes on, even where that was its last step."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    finish(train(options(), whole))
    steps = train_steps(options(), parts)
    for progress in steps:
        if progress.stage == "validating, 1 of 2 crops" and progress.done == step:
            break
    steps.close()
    assert str(step) not in {row["step"] for row in rows(parts)}
    trained = finish(resume(parts))
    assert trained.scores is not None
    assert equal(whole, parts)
    assert [row["mae"] for row in rows(whole)] == [row["mae"] for row in rows(parts)]
    best = [load_file(run / "best.safetensors") for run in (whole, parts)]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[0])


def test_a_killed_run_goes_on_to_the_same_weights(options, photos, tmp_path):
    """SIGKILL at a random moment, twice; in the end all is as if nothing had happened."""
    given = options(steps=40, save_every=2, validate_every=10)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(train(given, whole))
    chance = random.Random()
    call = command(given, killed)
    for _ in range(2):
        process = subprocess.Popen(call, stderr=subprocess.PIPE)
        before = _modified(killed)
        while _modified(killed) == before and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        call = [sys.executable, "-m", "napari_kpac", "train", "--resume", str(killed)]
    done = subprocess.run(call, check=True, capture_output=True, text=True)
    assert "40 steps; the best model is" in done.stdout
    assert equal(whole, killed)
    best = [load_file(run / "best.safetensors") for run in (whole, killed)]
    assert all(torch.equal(best[0][name], best[1][name]) for name in best[0])
    assert [row["step"] for row in rows(whole)] == [row["step"] for row in rows(killed)]
    assert [row["loss"] for row in rows(whole)] == [row["loss"] for row in rows(killed)]


def _modified(run: Path) -> int:
    state = run / "state.safetensors"
    return state.stat().st_mtime_ns if state.exists() else 0


def test_an_interrupt_ends_the_step_and_keeps_the_run(options, photos, tmp_path):
    run = tmp_path / "run"
    process = subprocess.Popen(
        [sys.executable, "-m", "napari_kpac", "train", "--preset", "smoke", "--root", str(photos),
         "-o", str(run), "--crop-size", "32", "--steps", "100000", "--save-every", "50000",
         "--channels", "4"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (run / "metrics.csv").exists() or len(rows(run)) < 2:
        time.sleep(0.02)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on" in said
    assert "Traceback" not in said
    steps = resume(run)
    assert next(steps).done > 20
    steps.close()


def test_smoke_learns_its_batch(photos, tmp_path):
    """Overfits a fixed batch until its error is below that of the blurred input."""
    done = subprocess.run(
        [sys.executable, "-m", "napari_kpac", "train", "--preset", "smoke", "--root", str(photos),
         "-o", str(tmp_path / "run"), "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert '"steps": 120' in done.stdout
    last = rows(tmp_path / "run")[-1]
    assert float(last["mae"]) < float(last["input mae"])


def test_two_processes_follow_one(options, tmp_path):
    """Two gloo processes with batch b learn as one with batch 2b: the first 20 losses agree."""
    losses = []
    for devices in (1, 2):
        run = tmp_path / f"run{devices}"
        given = options(steps=20, batch_size=4, validate_every=1, validation_crops=1,
                        devices=devices, device="cpu")  # fmt: skip
        subprocess.run(command(given, run), check=True, capture_output=True, env=ONE_THREAD)
        losses.append([float(row["loss"]) for row in rows(run)])
    assert len(losses[0]) == 20
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


@pytest.fixture
def two_processes(options, tmp_path):
    """A run of two processes that has saved its state, and the process that was started last."""
    run = tmp_path / "run"
    given = options(steps=100_000, batch_size=4, validate_every=50_000, validation_crops=1,
                    save_every=10, devices=2, device="cpu")  # fmt: skip
    process = subprocess.Popen(command(given, run), stderr=subprocess.PIPE, env=ONE_THREAD)
    wait_for(lambda: (run / "state.safetensors").exists() or process.poll() is not None)
    (other,) = psutil.Process(process.pid).children()
    yield run, process, other
    process.kill()
    process.wait()
    wait_for(lambda: has_ended(other))


def has_ended(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def kept_steps(run: Path) -> int:
    with safe_open(run / "state.safetensors", framework="pt") as file:
        return json.loads(file.metadata()["counters"])["step"]


def test_an_interrupt_ends_all_processes_and_keeps_everything(two_processes):
    run, process, other = two_processes
    # From a keyboard an interrupt reaches both.
    for each in (other, process):
        each.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=WAIT)
    assert process.returncode == 130, told
    assert b"--resume goes on from here" in told
    wait_for(lambda: has_ended(other))
    assert kept_steps(run) >= int(rows(run)[-1]["step"]) > 0


def test_a_process_that_is_killed_ends_the_run_with_a_word(two_processes):
    run, process, other = two_processes
    other.kill()
    _, told = process.communicate(timeout=WAIT)
    assert process.returncode == 1, told
    assert b"another process of this run has ended" in told
    assert b"Traceback" not in told
    assert kept_steps(run) >= 10


def test_no_process_outlives_the_first(two_processes):
    _, process, other = two_processes
    process.kill()
    process.wait()
    wait_for(lambda: has_ended(other))


def test_a_process_that_cannot_begin_is_heard(options, photos, tmp_path, monkeypatch):
    """What another process says is in the message: here, that its photographs are gone."""
    from napari_kpac.training.run_folder import RunFolder

    begin = RunFolder.begin

    def without_photos(self, given):
        begin(self, replace(given, root=(str(tmp_path / "gone"),)))

    monkeypatch.setattr(RunFolder, "begin", without_photos)
    with pytest.raises(TrainingError, match="gone"):
        next(train(options(devices=2, device="cpu"), tmp_path / "run"))
    assert RunFolder(tmp_path / "run").is_free


def test_fabric_learns_the_same(options, tmp_path):
    """What several accelerators would use, on one CPU."""
    pytest.importorskip("lightning_fabric", reason="needs the extra train")
    from napari_kpac.training.examples import open_data
    from napari_kpac.training.loop import run_with
    from napari_kpac.training.processes import FabricProcesses
    from napari_kpac.training.run_folder import RunFolder

    given = options(device="cpu", devices=1)
    finish(train(given, tmp_path / "one"))
    folder = RunFolder(tmp_path / "other")
    finish(run_with(given, folder, FabricProcesses(given), open_data(given), resumed=False))
    assert equal(tmp_path / "one", tmp_path / "other")


def test_bfloat16_learns_nearly_the_same(options, tmp_path, monkeypatch):
    if try_bfloat16("train").reason:
        pytest.skip("bfloat16 does not work on this processor")
    # It may be slow, but what it learns is what counts here.
    monkeypatch.setattr(processes, "try_bfloat16", lambda _: Trial(2.0, ""))
    losses = []
    for precision in ("float32", "bfloat16"):
        run = tmp_path / precision
        finish(train(options(precision=precision, validate_every=1, device="cpu"), run))
        losses.append([float(row["loss"]) for row in rows(run)])
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1] != losses[0]


def command(given, run):
    """Train as from a terminal, with options of these tests."""
    plain = run.parent / "plain.toml"
    plain.write_text("")
    flags = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in given.to_dict().items()
        if name in ("channels", "crop_size", "batch_size", "max_radius", "shrink", "steps",
                    "warmup", "name", "validate_every", "validation_crops", "save_every", "threads",
                    "devices", "device")
    ]  # fmt: skip
    roots = [f"--root={root}" for root in given.root]
    call = [sys.executable, "-m", "napari_kpac", "train", "--preset", str(plain)]
    return [*call, *flags, *roots, "-o", str(run)]


def test_the_second_phase_uses_the_perceptual_loss(options, tmp_path):
    file = tmp_path / "vgg.safetensors"
    save_file(random_vgg(), file)
    results = []
    for weight in (0.0, 1.0):
        given = options(steps=2, fine_steps=2, vgg=str(file), perceptual=weight, crop_size=32)
        stages = [event.stage for event in train(given, tmp_path / f"run{weight}")]
        assert stages == ["training", "training", "fine-tuning", "fine-tuning"]
        results.append(tensors(tmp_path / f"run{weight}"))
    assert any(not torch.equal(results[0][name], results[1][name]) for name in results[0])


@pytest.mark.parametrize("loss", ["frequency_loss", "psnr_loss"])
def test_a_loss_with_a_weight_is_learned_from(options, tmp_path, loss):
    results = []
    for weight in (0.0, 1.0):
        finish(train(options(steps=3, **{loss: weight}), tmp_path / f"run{weight}"))
        results.append(tensors(tmp_path / f"run{weight}"))
    assert any(not torch.equal(results[0][name], results[1][name]) for name in results[0])


def test_the_second_phase_without_weights_is_refused_before_the_start(
    options, tmp_path, monkeypatch
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(WeightsError, match="fine_steps=0"):
        next(train(options(fine_steps=1), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_does_not_overwrite_another(options, tmp_path):
    finish(train(options(steps=1), tmp_path / "run"))
    before = (tmp_path / "run" / "state.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="holds a run already"):
        next(train(options(steps=1), tmp_path / "run"))
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == before


def test_resuming_nothing_is_refused(tmp_path):
    with pytest.raises(FileError, match="holds no run"):
        resume(tmp_path)
    (tmp_path / "options.json").write_text("[]")
    with pytest.raises(FileError, match="no options"):
        resume(tmp_path)


def test_a_loss_that_is_no_number_stops_the_run(options, tmp_path, monkeypatch):
    from napari_kpac.training import objectives

    run = tmp_path / "run"
    steps = train(options(save_every=1), run)
    next(steps)
    before = tensors(run)
    monkeypatch.setattr(objectives, "mean_absolute_error", lambda *_: torch.tensor(float("nan")))
    with pytest.raises(TrainingError, match="lower learning rate"):
        next(steps)
    assert all(torch.equal(before[name], tensor) for name, tensor in tensors(run).items())


def test_the_baseline_trains_and_comes_back(options, tmp_path):
    from napari_kpac.training import read_trained

    run = tmp_path / "run"
    events = list(train(options(network="residual", levels=2), run))
    assert events[-1].scores.mae > 0
    assert not (run / "best.safetensors").exists()
    net, state = read_trained(run), tensors(run)
    assert all(torch.equal(value, state[f"ema.{name}"]) for name, value in net.state_dict().items())


def test_a_trained_network_comes_back(options, tmp_path):
    from napari_kpac.training import read_trained

    finish(train(options(), tmp_path / "run"))
    net, saved = read_trained(tmp_path / "run"), kpac.load(tmp_path / "run" / "ema.safetensors")
    assert all(torch.equal(v, saved.state_dict()[k]) for k, v in net.state_dict().items())


def test_the_terminal_refuses_nonsense(tmp_path):
    def call(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "napari_kpac", "train", *arguments],
            capture_output=True, text=True, cwd=tmp_path,
        )  # fmt: skip

    assert call("--preset", "fast").returncode == 2
    assert call("--resume", ".", "--steps", "3").returncode == 2
    missing = call("--root", "nowhere")
    assert (missing.returncode, "nowhere" in missing.stderr) == (1, True)
    shown = call("--help").stdout
    assert all(name in shown for name in PRESETS)
    assert not list(tmp_path.iterdir())
