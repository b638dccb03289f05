"""Work that is given up at every single step: nothing half-done, nothing held on to."""

import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core import allocator
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.evaluation import EvaluateOptions
from napari_kpac.evaluation.speed import bench_steps
from napari_kpac.images import read_image, write_image
from napari_kpac.reproduction import cost as costing
from napari_kpac.reproduction.cost import cost_steps
from napari_kpac.reproduction.variants import find_experiment, variant_steps
from napari_kpac.training import read_trained
from tests.engine.conftest import tiny_net

NET = tiny_net(2, double=False)


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 255, (40, 48), dtype=np.uint8)


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where scratch files go; nothing of ours is left there."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert [name for name in os.listdir(folder) if name.startswith("napari-kpac")] == []


def cancel_everywhere(make, check, *, most=None):
    """Close a generator before its first step and after every one of them."""
    total = sum(1 for _ in make(0))
    numbers = range(total + 1)
    if most is not None and total > most:
        numbers = sorted({round(n) for n in np.linspace(0, total, most)})
    before = torch.get_num_threads()
    for number in numbers:
        steps = make(number + 1)
        for _ in range(number):
            next(steps)
        steps.close()
        check(number + 1, number == total)
        assert not allocator.is_keeping_memory()
        assert torch.get_num_threads() == before
        assert not [t.name for t in threading.enumerate() if t.name.startswith("napari-kpac")]
    return total


def open_files(folder):
    return [each.path for each in psutil.Process().open_files() if str(folder) in each.path]


def engine_steps(kind, image, out):
    if kind == "deblur":
        options = kpac.DeblurOptions(device="cpu", tile=16)
        return kpac.deblur_steps(np.stack([image] * 2), options, model=NET, out=out)
    if kind in ("ebdb", "jnb"):
        return kpac.deblur_steps(image, kpac.DeblurOptions(method=kind))
    if kind == "blur map":
        options = kpac.BlurMapOptions(device="cpu", tile=16, upsampling=1)
        return kpac.blur_map_steps(image, options, model=NET)
    options = kpac.DetectionOptions(source="variance")
    return kpac.detect_steps(np.stack([image] * 3), options)


@pytest.mark.parametrize("kind", ["deblur", "ebdb", "jnb", "blur map", "detect"])
def test_the_engine(image, kind):
    outs = {}

    def make(number):
        outs[number] = np.full((2, *image.shape), 77, np.uint8)
        return engine_steps(kind, image, outs[number])

    def check(number, last):
        del last
        if kind == "deblur" and number <= 9:  # still encoding
            assert (outs[number] == 77).all()

    assert cancel_everywhere(make, check) > 1


def test_a_session(image):
    expected = kpac.deblur(image, NET, tile=16).image.astype(int)
    sessions = {}

    def make(number):
        sessions[number] = kpac.Session(image, NET, "cpu", tile=16)
        return sessions[number].encode_steps()

    def check(number, last):
        del last
        # It was left in the middle and goes on as if nothing had been.
        assert np.abs(sessions[number].render().image - expected).max() <= 1
        sessions[number].close()

    # Nine tiles: within each after the bands of both upper levels, and at its end.
    assert cancel_everywhere(make, check) == 3 * 9


@pytest.fixture
def inputs(tmp_path, image):
    folder = tmp_path / "in"
    for name in ("a.png", "b.tif"):
        write_image(folder / name, image)
    write_image(folder / "stack.tif", np.stack([image] * 3))
    return folder


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("kind", ["deblur", "blur map", "attention"])
def test_batches(inputs, models, tmp_path, kind, overlap):
    batch = kpac.BatchOptions(overlap=overlap, to=None)
    whole = {}

    def make(number):
        out = tmp_path / f"out{number}"
        if kind == "blur map":
            options = kpac.DetectionOptions(model=str(models[0]), upsampling=1)
            return kpac.blur_map_files([inputs], out, options, batch=batch)
        options = kpac.DeblurOptions(model=str(models[0]))
        if kind == "attention":
            return kpac.attention_files([inputs], out, options, batch=batch)
        return kpac.deblur_files([inputs], out, options, batch=batch)

    finish(make(-1))
    for path in (tmp_path / "out-1").rglob("*.*"):
        whole[path.name] = read_image(path)

    def check(number, last):
        found = [p for p in (tmp_path / f"out{number}").rglob("*") if p.is_file()]
        for path in found:
            np.testing.assert_array_equal(read_image(path), whole[path.name])
        assert len(found) == len(whole) or not last
        assert open_files(inputs) == []

    assert cancel_everywhere(make, check) > 3


@pytest.fixture
def cluster():
    """A scheduler with one worker, each a process of its own."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


def test_a_batch_on_a_cluster(inputs, models, tmp_path, cluster):
    """The cluster is left with nothing to do, and takes the next batch."""
    options = kpac.DeblurOptions(model=str(models[0]))
    batch = kpac.BatchOptions(scheduler=cluster.scheduler_address)

    def make(number):
        return kpac.deblur_files([inputs], tmp_path / f"out{number}", options, batch=batch)

    finish(kpac.deblur_files([inputs], tmp_path / "here", options))
    whole = {path.name: read_image(path) for path in files(tmp_path / "here")}

    def check(number, last):
        found = files(tmp_path / f"out{number}")
        for path in found:
            np.testing.assert_array_equal(read_image(path), whole[path.name])
        assert len(found) == len(whole) or not last
        until = time.monotonic() + 30
        while cluster.scheduler.tasks:
            assert time.monotonic() < until
            time.sleep(0.01)

    assert cancel_everywhere(make, check) == 5


def test_training(options, tmp_path):
    """A run that is stopped at any step goes on from there."""
    from napari_kpac.training import resume

    def make(number):
        return kpac.train(
            options(steps=5, save_every=2, validate_every=2), tmp_path / f"run{number}"
        )

    def check(number, last):
        run = tmp_path / f"run{number}"
        assert not [p.name for p in run.rglob("*") if p.name.startswith(".")]
        if number == 1:
            assert not run.exists()
        elif not last:
            assert next(resume(run)).done == number

    assert cancel_everywhere(make, check) == 5


@pytest.fixture
def pairs(tmp_path, photos):
    made = SynthesisOptions(size=64, max_radius=2.0, test=0.0, val=1.0)
    finish(synthesise([photos], tmp_path / "pairs", made))
    return tmp_path / "pairs"


def test_evaluating(pairs, models, tmp_path):
    """What was measured is kept; the same call again ends with the same table."""
    asked = EvaluateOptions(
        kind="dpdd",
        root=str(pairs),
        model=(str(models[0]),),
        method=("unsharp",),
        limit=2,
        lpips=False,
    )
    finish(kpac.evaluate(asked, tmp_path / "whole"))
    expected = (tmp_path / "whole" / "results.csv").read_bytes()

    def make(number):
        return kpac.evaluate(asked, tmp_path / f"e{number}")

    def check(number, last):
        del last
        folder = tmp_path / f"e{number}"
        if number > 1:
            written = (folder / "results.csv").read_bytes()
            assert expected.startswith(written)
        finish(make(number))
        assert (folder / "results.csv").read_bytes() == expected
        assert not [p.name for p in folder.rglob("*") if p.name.startswith(".")]

    assert cancel_everywhere(make, check) >= 6


@pytest.mark.long
def test_variants(variant_options, tmp_path):
    """What was trained is kept; the same call again ends with the same weights."""
    asked = replace(variant_options, steps=2)
    experiments = [find_experiment("weight-sharing")]

    def weights(number):
        runs = tmp_path / f"v{number}" / "runs"
        return [read_trained(run).state_dict() for run in sorted(runs.iterdir())]

    def make(number):
        return variant_steps(experiments, asked, tmp_path / f"v{number}")

    finish(make(-1))
    expected = weights(-1)

    def check(number, last):
        del last
        finish(make(number))
        for one, other in zip(weights(number), expected, strict=True):
            assert all(torch.equal(one[name], other[name]) for name in other)
        assert not [p.name for p in files(tmp_path / f"v{number}") if p.name.startswith(".")]

    assert cancel_everywhere(make, check) == 6


@pytest.mark.long
def test_costs(monkeypatch, tmp_path):
    monkeypatch.setattr(costing, "NETWORKS", costing.NETWORKS[:2])
    monkeypatch.chdir(tmp_path)
    assert cancel_everywhere(lambda _: cost_steps((32, 32), 1), nothing_left()) == 2


@pytest.mark.long
def test_bench(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert cancel_everywhere(lambda _: bench_steps(repeats=1), nothing_left()) == 2


def nothing_left():
    """Make a check that no new child is at work and no file lies about."""
    before = psutil.Process().children()

    def check(number, last):
        del number, last
        assert psutil.Process().children() == before
        assert files(Path.cwd()) == []

    return check


def test_synthesis(photos, tmp_path):
    made = SynthesisOptions(size=48, max_radius=2.0, per_photo=2)

    def make(number):
        return synthesise([photos], tmp_path / f"s{number}", made)

    finish(make(-1))
    expected = {p.relative_to(tmp_path / "s-1"): p.read_bytes() for p in files(tmp_path / "s-1")}

    def check(number, last):
        folder = tmp_path / f"s{number}"
        found = {p.relative_to(folder): p.read_bytes() for p in files(folder)}
        assert found.items() <= expected.items()
        assert len(found) == len(expected) or not last

    assert cancel_everywhere(make, check) == 6


def files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]
