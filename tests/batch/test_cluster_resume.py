"""Clusters that lose a worker, the client, or the connection to where the result goes."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.batch.deblur import DeblurAction
from napari_kpac.batch.files import FileInfo
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.record import PlaneRecord
from napari_kpac.batch.worker import BatchWorker, PlaneFailure
from napari_kpac.cli import main
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import finish
from napari_kpac.images import Metadata, location
from tests import s3 as server

PLANES = 12
RECORDING_EACH = """
import sys
from napari_kpac.batch import record
from napari_kpac.cli import main
record.FLUSH_SECONDS = 0  # however fast this machine is, planes are left when the first is recorded
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory, photo):
    """A stack whose planes take a while."""
    folder = tmp_path_factory.mktemp("stack")
    planes = np.stack([np.roll(photo[..., 0], n, axis=0) for n in range(PLANES)])
    planes = np.tile(planes, (1, 8, 8)).astype(np.uint16) * 7
    path = folder / "stack.zarr"
    array = zarr.create_array(
        str(path), shape=planes.shape, dtype=planes.dtype, chunks=(1, 512, 640)
    )
    array[:] = planes
    return path


@pytest.fixture
def bucket(monkeypatch):
    """A bucket of a real S3 server, for this process and all that it starts."""
    with server.server() as address:
        system = server.connect(monkeypatch, address)
        name = f"images-{uuid.uuid4().hex}"  # moto's servers of one process share their buckets
        system.mkdir(name)
        yield f"s3://{name}"


def command(source, target, models, *flags):
    return ["deblur", str(source), "-o", str(target), "--model", str(models[0]), "--threads", "1",
            "--range", "0,2000", *flags]  # fmt: skip


@pytest.fixture(scope="module")
def plain(stack, models):
    """The result without a cluster, of a process of its own."""
    target = stack.with_name("plain.zarr")
    call = [sys.executable, "-m", "napari_kpac", *command(stack, target, models)]
    subprocess.run(call, check=True, timeout=300)
    return target


def content(where):
    """Return all files of a Zarr image, by name."""
    place = location(where)
    if isinstance(place, Path):
        files = [path for path in place.rglob("*") if path.is_file()]
        return {path.relative_to(place).as_posix(): path.read_bytes() for path in files}
    system, path = place.open_system()
    system.invalidate_cache()
    return {name.removeprefix(f"{path}/"): system.cat_file(name) for name in system.find(path)}


def done_planes(where):
    """Return the planes of an unfinished image that are recorded."""
    place = location(where)
    if isinstance(place, Path):
        place = place.with_name(f".{place.name}.unfinished")
    record = PlaneRecord(place / ".napari-kpac", {})
    lines = []
    record._take = lines.append
    record.resume()
    return {line["plane"] for line in lines if "plane" in line}


@pytest.mark.parametrize("remote", [False, True], ids=["folder", "s3"])
def test_a_killed_client_goes_on_where_it_stopped(
    remote, request, stack, plain, models, tmp_path, capsys
):
    target = tmp_path / "sharp.zarr"
    if remote:
        target = request.getfixturevalue("bucket") + "/sharp.zarr"
    address, workers, _ = request.getfixturevalue("cluster")
    record = tmp_path / "record.jsonl"
    call = command(stack, target, models, "--scheduler", address, "--record", str(record))
    client = subprocess.Popen([sys.executable, "-c", RECORDING_EACH, *call])
    limit = time.monotonic() + 120
    try:
        while not done_planes(target):
            assert client.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.02)
    finally:
        client.kill()
    assert client.wait(30) == -signal.SIGKILL
    before = done_planes(target)
    assert 0 < len(before) < PLANES
    assert not location(target).exists()
    # A worker dies as well before the same command is given again.
    workers[0].kill()
    workers[0].wait(30)
    record.unlink()
    assert main(call) == 0
    again = [json.loads(line) for line in record.read_text().splitlines()]
    planes = {line["plane"] for line in again if "plane" in line}
    assert planes == set(range(PLANES)) - before
    (ended,) = [line for line in again if "plane" not in line]
    assert ended["state"] == "made"
    assert all(line["worker"] and line["seconds"] > 0 for line in again if "plane" in line)
    assert ended["seconds"] >= sum(line["seconds"] for line in again if "plane" in line)
    # Byte by byte, the recipe included.
    assert content(target) == content(plain)
    assert not list(tmp_path.glob(".*.unfinished"))
    # And a third time there is nothing to do.
    capsys.readouterr()
    assert main(call) == 0
    assert "1 done before" in capsys.readouterr().err


def test_what_does_not_fit_is_begun_anew(tmp_path):
    one = PlaneRecord(tmp_path / "r", {"fingerprint": "a", "shape": (3, 4)})
    assert not one.resume()
    one.begin()
    one.add(2, "w1", 0.5, {"device": "cpu"})
    one.add(0, "w2", 0.5, {"device": "cpu"})
    one.flush()
    two = PlaneRecord(tmp_path / "r", {"fingerprint": "a", "shape": (3, 4)})
    assert two.resume()
    assert (two.done, two.workers, two.seconds) == ({0, 2}, {"w1", "w2"}, 1.0)
    assert two.environment == {"device": "cpu"}
    two.add(1, "w3", 0.5)
    two.flush()
    # A line that was cut off costs one plane, and no more.
    last = max((tmp_path / "r").iterdir())
    last.write_bytes(last.read_bytes()[:-4])
    three = PlaneRecord(tmp_path / "r", {"fingerprint": "a", "shape": (3, 4)})
    assert three.resume()
    assert three.done == {0, 2}
    other = PlaneRecord(tmp_path / "r", {"fingerprint": "b", "shape": (3, 4)})
    assert not other.resume()
    assert other.done == set()


class Here:
    """Stands for dask's worker where its tasks are called directly."""

    name, address = "w1", "tcp://127.0.0.1:1"


@pytest.fixture
def worker(models):
    options = kpac.DeblurOptions(model=str(models[0]), tile=64)
    found = BatchWorker(DeblurAction.prepare(options), 1)
    found.setup(Here())
    yield found
    asyncio.run(found.teardown(Here()))


def test_a_task_that_runs_twice_writes_the_same_bytes(worker, photo, tmp_path):
    Image.fromarray(photo).save(tmp_path / "a.png")
    item = Item(tmp_path / "a.png", tmp_path / "b.png")
    assert worker.process(item).state == "made"
    first = item.target.read_bytes()
    assert worker.process(item).state == "made"
    assert item.target.read_bytes() == first

    stack = np.stack([photo[..., 0], photo[..., 1]])
    zarr.create_array(str(tmp_path / "a.zarr"), shape=stack.shape, dtype=stack.dtype)[:] = stack
    item = Item(tmp_path / "a.zarr", tmp_path / "b.zarr")
    info = worker.process(item)
    assert isinstance(info, FileInfo)
    output = worker.action.shared_output(item, info)
    region = output.begin()
    for plane in (0, 1):
        output.record.add(plane, "w", 1.0, worker.compute(item, plane, info.pixel_range, region))
    files = content(region.place)
    chunks = {name: data for name, data in files.items() if "jsonl" not in name}
    assert len(chunks) == 2
    worker.compute(item, 1, info.pixel_range, region)
    assert content(region.place) == files
    output.finish()
    result = zarr.open(str(item.target), mode="r")[:]
    assert np.array_equal(result, kpac.deblur(stack, worker.action.options.model, tile=64).image)


def test_a_plane_larger_than_the_budget_is_tiled_in_its_task(worker, tmp_path, monkeypatch):
    monkeypatch.setattr("napari_kpac.engine.job.CHUNKED_SHARE", 0.0)
    monkeypatch.setattr("napari_kpac.images.zarr_target.CHUNK_SIDE_PX", 96)
    stack = np.random.default_rng(0).integers(0, 255, (2, 130, 134), dtype=np.uint8)
    array = zarr.create_array(
        str(tmp_path / "a.zarr"), shape=stack.shape, dtype=stack.dtype, chunks=(1, 64, 64)
    )
    array[:] = stack
    item = Item(tmp_path / "a.zarr", tmp_path / "b.zarr")
    info = worker.process(item)
    assert info.plane_bytes == 0  # nothing holds it whole
    output = worker.action.shared_output(item, info)
    region = output.begin()
    for plane in (1, 0):
        output.record.add(plane, "w", 1.0, worker.compute(item, plane, info.pixel_range, region))
    output.finish()
    expected = kpac.deblur(stack, worker.action.options.model, tile=64).image
    assert np.array_equal(zarr.open(str(item.target), mode="r")[:], expected)


def test_planes_that_share_chunks_are_not_written_by_workers(worker, tmp_path):
    # Ten planes of 40x3 look like one image in colour to a Zarr file without names of axes.
    about = FileInfo((10, 40, 3), np.dtype(np.uint8), Metadata(), 10, 1)
    item = Item(tmp_path / "a.zarr", tmp_path / "b.zarr")
    (tmp_path / "a.zarr").mkdir()
    assert worker.action.shared_output(item, about) is None
    about = FileInfo((10, 40, 50), np.dtype(np.uint8), Metadata(), 10, 1)
    assert worker.action.shared_output(item, about) is not None
    assert worker.action.shared_output(Item(item.source, tmp_path / "b.tif"), about) is None


def test_a_damaged_plane_is_named_and_the_others_are_kept(models, tmp_path, photo, monkeypatch):
    stack = np.stack([np.roll(photo[..., 0], n) for n in range(6)])
    source = tmp_path / "a.zarr"
    zarr.create_array(str(source), shape=stack.shape, dtype=stack.dtype, chunks=(1, 64, 80))[:] = (
        stack
    )
    bad = source / "c" / "5" / "0" / "0"
    good = bad.read_bytes()
    bad.write_bytes(b"nothing")
    options = kpac.DeblurOptions(model=str(models[0]))
    batch = kpac.BatchOptions(workers=1, threads=1, record=str(tmp_path / "record.jsonl"))

    def run():
        return finish(kpac.deblur_files([source], tmp_path / "b.zarr", options, batch=batch))

    (outcome,) = run().failed
    assert "a part of it cannot be read" in outcome.problem
    assert "5 of 6 planes are done and kept" in outcome.problem
    lines = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    assert [line["plane"] for line in lines if line["state"] == "failed" and "plane" in line] == [5]
    assert not (tmp_path / "b.zarr").exists()
    bad.write_bytes(good)
    (outcome,) = run().of("made")
    lines = [json.loads(line) for line in (tmp_path / "record.jsonl").read_text().splitlines()]
    made = [line["plane"] for line in lines if line["state"] == "made" and "plane" in line]
    assert sorted(made) == [0, 1, 2, 3, 4, 5]  # each once
    assert len(outcome.to_dict()["workers"]) >= 1
    assert np.array_equal(
        zarr.open(str(tmp_path / "b.zarr"), mode="r")[:], kpac.deblur(stack, models[0]).image
    )


def test_a_worker_says_what_is_wrong_with_a_file(worker, tmp_path):
    (tmp_path / "a.png").write_bytes(b"nothing")
    outcome = worker.process(Item(tmp_path / "a.png", tmp_path / "b.png"))
    assert outcome.state == "failed"
    assert "a.png: cannot be read" in outcome.problem
    failure = worker.compute(Item(tmp_path / "none.tif", tmp_path / "b.tif"), 0, None, None)
    assert isinstance(failure, PlaneFailure)
    assert "there is no such file" in failure.problem


def test_a_worker_gives_up_when_the_batch_ends(worker, photo, tmp_path):
    Image.fromarray(np.tile(photo, (4, 4, 1))).save(tmp_path / "a.png")
    item = Item(tmp_path / "a.png", tmp_path / "out" / "b.png")
    worker._stopped = True
    outcome = worker.process(item)
    assert outcome.state == "failed"
    assert "the batch has ended" in outcome.problem
    assert list((tmp_path / "out").rglob("*")) == []


# URLs in batches


def test_urls_in_and_out(bucket, models, stack, plain, tmp_path, capsys):
    system, _ = location(f"{bucket}/x.zarr").open_system()
    system.put(str(stack), f"{bucket}/in/stack.zarr", recursive=True)
    source, target = f"{bucket}/in/stack.zarr", f"{bucket}/out/sharp.zarr"
    call = command(source, target, models)
    assert main([*call, "--dry-run"]) == 0
    assert f"{source} -> {target}" in capsys.readouterr().err
    assert main(call) == 0
    assert main(call) == 0
    assert "1 done before" in capsys.readouterr().err
    chunks = {name: data for name, data in content(target).items() if "/" in name}
    assert chunks == {name: data for name, data in content(plain).items() if "/" in name}
    # Into a folder at a URL, and back to files of this machine.
    capsys.readouterr()
    assert main(command(stack, f"{bucket}/all/", models, "--to", "zarr")) == 0
    assert location(f"{bucket}/all/stack.zarr").exists()
    assert main(command(target, tmp_path / "again.tif", models)) == 0
    assert tifffile.imread(tmp_path / "again.tif").shape == (PLANES, 512, 640)


@pytest.mark.parametrize(
    ("inputs", "output", "flags", "message"),
    [
        (["s3://b/folder"], "out", [], "a URL names one image"),
        (["s3://b/a.png"], None, [], "name the file for its result"),
        (["s3://b/a.png"], "s3://b/out", [], "choose the format zarr"),
        (["s3://b/a.zarr"], "https://host/b.zarr", [], "can only be read"),
        (["s3://b/a.zarr"], "s3://b/a.zarr", [], "refusing to write over the input"),
        (["s3://b/a.zarr"], "s3://b/b.tif", [], "end the name in .zarr"),
        (["memory://b/a.zarr"], "b.zarr", ["--workers", "1"], "this process alone"),
        (["ftp://b/a.zarr"], "b.zarr", [], "images are read from"),
    ],
)
def test_mistakes_with_urls(inputs, output, flags, message, models, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    call = ["deblur", *inputs, "--model", str(models[0]), *flags]
    assert main(call + ([] if output is None else ["-o", output])) == 2
    assert re.search(message, capsys.readouterr().err)


def test_maps_go_to_files_of_this_machine(tmp_path):
    with pytest.raises(ConfigError, match="files of this machine"):
        finish(kpac.blur_map_files(["s3://b/a.zarr"], "s3://b/maps"))
    with pytest.raises(ConfigError, match="files of this machine"):
        finish(kpac.attention_files(["s3://b/a.zarr"], "s3://b/maps"))
