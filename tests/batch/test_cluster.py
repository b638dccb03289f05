"""Real dask clusters: processes of their own, one of them killed in the middle."""

import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.batch.client import open_client
from napari_kpac.batch.cluster import _problem
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.worker import PlaneFailure, TaskResult
from napari_kpac.cli import main
from napari_kpac.core.errors import ClusterError
from napari_kpac.core.progress import finish
from napari_kpac.images import description_of, read_image

PLANES = 12


@pytest.fixture
def folder(tmp_path, photo):
    """Images, a stack whose range is found in the data, and a broken file."""
    root = tmp_path / "in"
    root.mkdir()
    for n in range(4):
        Image.fromarray(np.roll(photo, n, axis=1)).save(root / f"{n}.png")
    stack = np.stack([np.roll(photo[..., 0], n, axis=0) for n in range(PLANES)])
    stack = np.tile(stack, (1, 4, 4)).astype(np.uint16) * 7
    array = zarr.create_array(str(root / "stack.zarr"), shape=stack.shape, dtype=stack.dtype)
    array[:] = stack
    (root / "broken.png").write_bytes(b"nothing")
    return root


def serial(folder, out, models):
    options = kpac.DeblurOptions(model=str(models[0]))
    return finish(kpac.deblur_files([folder], out, options, batch=kpac.BatchOptions(threads=1)))


def same_files(one, two):
    names = sorted(path.name for path in one.iterdir())
    assert names == sorted(path.name for path in two.iterdir())
    for name in names:
        assert np.array_equal(read_image(one / name), read_image(two / name)), name
        assert (
            description_of(one / name)["fingerprint"] == description_of(two / name)["fingerprint"]
        )


def wait_for_both(address):
    from distributed import Client

    with Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)


def test_a_killed_worker_loses_nothing(folder, models, cluster, tmp_path):
    address, workers, _ = cluster
    wait_for_both(address)
    report = serial(folder, tmp_path / "serial", models)
    assert len(report.of("made")) == 5
    steps = kpac.deblur_files(
        [folder],
        tmp_path / "cluster",
        kpac.DeblurOptions(model=str(models[0])),
        batch=kpac.BatchOptions(scheduler=address, threads=1),
    )
    killed = 0.0
    while True:
        try:
            progress = next(steps)
        except StopIteration as stop:
            report = stop.value
            break
        # In the middle of the stack, when both workers have planes at work and waiting.
        if not killed and progress.stage == "stack.zarr":
            os.kill(workers[0].pid, signal.SIGKILL)
            assert workers[0].wait(10) == -signal.SIGKILL
            killed = progress.done / progress.total
    assert 0 < killed < 1
    assert workers[1].poll() is None
    assert len(report.of("made")) == 5
    assert [outcome.item.first.name for outcome in report.failed] == ["broken.png"]
    same_files(tmp_path / "serial", tmp_path / "cluster")


def local_workers():
    """Return the processes that dask started for this one."""
    children = psutil.Process().children()
    return [each for each in children if "spawn_main" in " ".join(each.cmdline())]


def run_and_then(steps, act):
    """Run a batch; do something when the first plane of its stack is done."""
    acted = False
    while True:
        try:
            progress = next(steps)
        except StopIteration as stop:
            assert acted
            return stop.value
        if not acted and progress.stage == "stack.zarr":
            act()
            acted = True


def test_local_workers_that_die_are_started_again(folder, models, tmp_path):
    killed = []

    def kill_all():
        killed.extend(local_workers())
        for process in killed:
            process.kill()

    options, batch = kpac.DeblurOptions(model=str(models[0])), kpac.BatchOptions(workers=2)
    steps = kpac.deblur_files([folder], tmp_path / "out", options, batch=batch)
    report = run_and_then(steps, kill_all)
    assert len(killed) == 2
    assert len(report.of("made")) == 5
    assert [outcome.item.first.name for outcome in report.failed] == ["broken.png"]
    assert local_workers() == []


def test_workers_that_go_for_good_end_the_batch(folder, models, cluster, tmp_path):
    """dask would wait for others for ever."""
    address, workers, _ = cluster
    wait_for_both(address)
    options = kpac.DeblurOptions(model=str(models[0]))
    batch = kpac.BatchOptions(scheduler=address, wait=3, threads=1)
    steps = kpac.deblur_files([folder / "stack.zarr"], tmp_path / "a.zarr", options, batch=batch)

    def kill_all():
        for process in workers:
            process.kill()

    with pytest.raises(ClusterError, match="no workers for 3 s; what is done is kept"):
        run_and_then(steps, kill_all)
    kept = tmp_path / ".a.zarr.unfinished"
    assert list((kept / ".napari-kpac").glob("*.jsonl"))
    assert not (tmp_path / "a.zarr").exists()


def test_a_scheduler_that_dies_ends_the_batch(folder, models, cluster, tmp_path):
    address, _, scheduler = cluster
    steps = kpac.deblur_files(
        [folder / "stack.zarr"],
        tmp_path / "a.zarr",
        kpac.DeblurOptions(model=str(models[0])),
        batch=kpac.BatchOptions(scheduler=address, wait=30, threads=1),
    )
    with pytest.raises(ClusterError, match="the connection to the scheduler broke"):
        run_and_then(steps, scheduler.kill)


def test_local_workers_from_the_terminal(folder, models, tmp_path, capsys):
    serial(folder, tmp_path / "serial", models)
    call = ["deblur", str(folder), "-o", str(tmp_path / "two"), "--model", str(models[0])]
    done = subprocess.run(
        [sys.executable, "-m", "napari_kpac", *call, "--workers", "2", "--threads", "1"],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 1
    assert "5 made, 1 failed" in done.stderr
    same_files(tmp_path / "serial", tmp_path / "two")
    assert main(call) == 1
    assert "5 done before, 1 failed" in capsys.readouterr().err
    record = description_of(tmp_path / "two" / "stack.zarr")
    assert record["options"]["memory"] is None
    assert record["environment"]["threads"] == 1


def test_local_workers_have_one_thread_and_this_process_stays_as_it_is(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("__DASK_PARENT_PID", raising=False)
    before = dict(os.environ)
    with open_client(kpac.BatchOptions(workers=1)) as client:
        (found,) = client.run(lambda: dict(os.environ)).values()
    assert found["OMP_NUM_THREADS"] == "1"
    assert dict(os.environ) == before


def test_nobody_at_the_address(folder, models, tmp_path, capsys, monkeypatch):
    call = ["deblur", str(folder), "-o", str(tmp_path / "x"), "--scheduler", "tcp://127.0.0.1:9",
            "--wait", "1"]  # fmt: skip
    assert main(call) == 1
    assert "no scheduler answers" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(call) == 1
    assert "napari-kpac[distributed]" in capsys.readouterr().err


def test_a_result_that_arrived_counts_although_its_worker_died(tmp_path):
    """The future of such a result is lost by the time it is looked at."""
    item = Item(tmp_path / "a.png", tmp_path / "b.png")
    assert _problem(item, TaskResult("computed", "w1", 1.0)) is None
    assert "bad plane" in _problem(item, TaskResult(PlaneFailure("bad plane"), "w1", 1.0))
    problem = _problem(item, (OSError, OSError("worker died"), None))
    assert "a.png" in problem
    assert "worker died" in problem
