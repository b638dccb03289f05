"""bfloat16 on a CPU: offered where a child process shows that it works and is faster."""

import sys

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import finish
from napari_kpac.engine import precision
from napari_kpac.engine.backend import Backend
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import join

CPU = torch.device("cpu")


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Put a script in the place of the trial: a real process with another end."""

    def put(script):
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        precision.try_bfloat16.cache_clear()

    yield put
    precision.try_bfloat16.cache_clear()


FASTER, SLOWER = """echo '{"speed": 1.5}'""", """echo '{"speed": 0.5}'"""
ENDLESS = "exec sleep 600"
BAD = {
    ENDLESS: "did not end within 2 s",
    "kill -ILL $$": "SIGILL",
    "echo 'MemoryError: too much' >&2; exit 1": "MemoryError: too much",
    SLOWER: "0.50 times as fast as float32",
}


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for the trial is a shell script")
@pytest.mark.parametrize("script", BAD)
def test_where_it_does_not_work_or_is_slow_it_is_not_offered(
    child, script, photograph, monkeypatch
):
    child(script)
    if script == ENDLESS:
        monkeypatch.setattr(precision, "TRIAL_S", 2)
    assert Backend(CPU, mixed=True).half is None
    with pytest.raises(ConfigError, match=BAD[script]):
        finish(join(TrainOptions(precision="bfloat16", device="cpu", devices=1)))
    image = photograph[:64, :64]
    mixed = kpac.deblur(image, device="cpu", precision="mixed")
    assert np.array_equal(mixed.image, kpac.deblur(image, device="cpu").image)
    assert mixed.recipe.environment["precision"] == "float32"


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for the trial is a shell script")
@pytest.mark.parametrize("script", BAD)
def test_a_run_that_is_resumed_goes_on_where_it_is_slow_but_not_where_it_fails(
    child, script, monkeypatch
):
    child(script)
    monkeypatch.setattr(precision, "TRIAL_S", 2)
    steps = join(TrainOptions(precision="bfloat16", device="cpu", devices=1), resumed=True)
    if script == SLOWER:
        _, processes = finish(steps)
        with processes.computing():
            assert torch.is_autocast_enabled("cpu")
    else:
        with pytest.raises(ConfigError, match=BAD[script]):
            finish(steps)


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for the trial is a shell script")
def test_where_it_is_faster_it_is_used(child, photograph):
    child(FASTER)
    assert Backend(CPU, mixed=True).half == torch.bfloat16
    assert Backend(torch.device("cuda"), mixed=True).half == torch.float16
    _, processes = finish(join(TrainOptions(precision="bfloat16", device="cpu", devices=1)))
    with processes.computing():
        assert torch.is_autocast_enabled("cpu")


def test_the_trial_itself_runs_here():
    precision.try_bfloat16.cache_clear()
    trial = precision.try_bfloat16("deblur")
    assert trial.is_useful == (trial.speed > 1)
    assert trial.reason or trial.speed > 0
    if not trial.is_useful:
        pytest.skip(f"bfloat16: {trial}")
    image = np.random.default_rng(0).random((96, 120, 3)).astype(np.float32)
    mixed = kpac.deblur(image, device="cpu", precision="mixed", tile=64)
    plain = kpac.deblur(image, device="cpu", tile=64)
    assert mixed.recipe.environment["precision"] == "bfloat16"
    difference = np.abs(mixed.image - plain.image)
    assert 0 < difference.max() < 0.1
