"""Files under damage: full disks, unwritable places, killed processes, vanished inputs.

The damage is done to real files by real processes.
"""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import napari_kpac as kpac
from napari_kpac.core.files import append, replacing, reserve
from napari_kpac.evaluation.results import Results, Row
from napari_kpac.images import read_image, write_image
from tests.reliability.writers import WRITERS, content, pixels, rows, zarr

ROOT = Path(__file__).parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="limits and signals of POSIX")


def child(action, folder, *more, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.writers", action, str(folder), *map(str, more)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, **options,
    )  # fmt: skip


def told_by(action, folder, *more):
    process = child(action, folder, *more)
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return json.loads(said)


def kill(action, folder):
    """Run a child up to the worst moment, and kill it there."""
    process = child(action, folder)
    try:
        said = process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    return said


@posix
@pytest.mark.parametrize(
    "share",
    [1, *(pytest.param(share, marks=pytest.mark.long) for share in (0, 0.03, 0.5, 0.97))],
)
def test_the_limit_of_file_sizes(tmp_path, share):
    """At a share of what a file needs; 1 stands for all but the last byte."""
    told = told_by("limit", tmp_path, share)
    assert set(told) == set(WRITERS)
    assert {name: each["said"] for name, each in told.items() if not each["known"]} == {}
    assert [name for name, each in told.items() if "cannot write" not in each["said"]] == []
    assert [name for name, each in told.items() if not each["intact"]] == []


@posix
def test_a_table_that_grows_into_the_limit_keeps_whole_rows(tmp_path):
    assert "cannot write" in told_by("table", tmp_path)["said"]
    written = (tmp_path / "results.csv").read_bytes()
    assert written.endswith(b"\n")
    assert len(Results(("psnr",), tmp_path).rows) == written.count(b"\n") - 1 > 10


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_device(tmp_path):
    with pytest.raises(kpac.KpacError, match="No space left"):
        append(Path("/dev/full"), b"a row")
    with pytest.raises(kpac.KpacError, match="it is a device"), replacing("/dev/full"):
        pass
    with pytest.raises(kpac.KpacError, match="it is a device"):
        kpac.deblur(np.zeros((8, 8), np.uint8)).recipe.save("/dev/full")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "napari_kpac", "models", "list", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr == "napari-kpac: cannot print the result: No space left on device\n"


@pytest.mark.parametrize("name", WRITERS)
def test_a_parent_that_is_a_file(tmp_path, name):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(kpac.KpacError, match="cannot write"):
        WRITERS[name](tmp_path / "file" / name, 0)
    assert content(tmp_path) == {"file": b"mine"}


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("name", WRITERS)
def test_a_folder_that_may_not_be_written(tmp_path, name):
    home = tmp_path / "home"
    WRITERS[name](home / name, 0)
    before = content(home)
    home.chmod(0o500)
    try:
        with pytest.raises(kpac.KpacError, match="cannot write"):
            WRITERS[name](home / name, 1)
        assert content(home) == before
    finally:
        home.chmod(0o700)


def test_room_on_the_disk_is_taken_before_it_is_mapped(tmp_path):
    """A hole in a mapped file would be a crash when the disk is full."""
    path = tmp_path / "scratch"
    path.touch()
    reserve(path, 3_000_000)
    assert path.stat().st_size == 3_000_000
    if hasattr(os, "posix_fallocate"):
        assert path.stat().st_blocks * 512 >= 3_000_000


@posix
def test_killed_while_writing_a_file(tmp_path):
    (tmp_path / "a.bin").write_bytes(b"old")
    assert kill("half_a_file", tmp_path) == "half"
    assert (tmp_path / "a.bin").read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    # Whoever writes there next clears up; what a living process is writing is left alone.
    alive = tmp_path / next(p for p in os.listdir(tmp_path) if p != "a.bin")
    ours = alive.with_name(alive.name.replace(alive.name.split(".")[2].split("-")[0], "1"))
    ours.write_bytes(b"")
    with replacing(tmp_path / "b.bin") as temporary:
        temporary.write_bytes(b"other")
    assert sorted(os.listdir(tmp_path)) == sorted([ours.name, "a.bin", "b.bin"])


@posix
def test_killed_while_writing_a_folder(tmp_path):
    zarr(tmp_path / "a.zarr", 0)
    before = content(tmp_path)
    assert kill("half_a_folder", tmp_path) == "half"
    left = content(tmp_path)
    assert {name: left[name] for name in before} == before
    assert len(os.listdir(tmp_path)) == 2
    sweep(tmp_path)
    assert content(tmp_path) == before


@posix
def test_killed_between_two_names_of_a_folder(tmp_path):
    zarr(tmp_path / "a.zarr", 0)
    before = content(tmp_path)
    assert kill("between_two_names", tmp_path) == "between"
    assert not (tmp_path / "a.zarr").exists()
    sweep(tmp_path)
    assert content(tmp_path) == before
    zarr(tmp_path / "a.zarr", 1)
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert np.array_equal(read_image(tmp_path / "a.zarr"), pixels(1, shape=(4, 60, 80)))


def sweep(folder):
    """Do what the next process does when it writes into the folder."""
    code = "import sys; from napari_kpac.core.files import write_record; from pathlib import Path;"
    code += "write_record(Path(sys.argv[1]) / 'x.json', {}).unlink()"
    subprocess.run([sys.executable, "-c", code, str(folder)], check=True)


@posix
def test_killed_in_the_middle_of_a_row(tmp_path):
    rows(tmp_path, 0)
    whole = (tmp_path / "results.csv").read_bytes()
    assert kill("half_a_row", tmp_path) == "half"
    results = Results(("psnr",), tmp_path)
    assert (tmp_path / "results.csv").read_bytes() == whole
    results.add(Row("new", "method", 0.0, {"psnr": 2.0}))
    assert len(Results(("psnr",), tmp_path).rows) == 201


def test_a_folder_that_cannot_be_replaced_comes_back(tmp_path, monkeypatch):
    zarr(tmp_path / "a.zarr", 0)
    before, original = content(tmp_path), Path.rename

    def rename(self, target):
        if self.name.endswith(".zarr") and self.name.startswith("."):
            raise OSError(28, "No space left on device")
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(kpac.KpacError, match="No space left"):
        zarr(tmp_path / "a.zarr", 1)
    assert content(tmp_path) == before


@pytest.mark.parametrize("kind", ["a.png", "a.tif", "a.zarr", "streamed.tif"])
@pytest.mark.parametrize("overlap", [True, False])
def test_an_input_that_vanishes_while_it_is_used(tmp_path, models, monkeypatch, kind, overlap):
    """The file is lost after it was opened: its item fails or is whole, the next is made."""
    import shutil

    from napari_kpac.batch import deblur
    from napari_kpac.core.progress import finish

    # Everything that can stay on the disk does.
    monkeypatch.setattr("napari_kpac.images.tiff.WHOLE_UP_TO_BYTES", 0)
    monkeypatch.setattr(deblur, "MAX_COLLECTED_BYTES", 0)
    source, out = tmp_path / "in", tmp_path / "out"
    WRITERS[kind](source / kind, 0)
    options = kpac.DeblurOptions(model=str(models[0]), tile=32)
    batch = kpac.BatchOptions(overlap=overlap)
    finish(kpac.deblur_files([source], tmp_path / "whole", options, batch=batch))
    expected = read_image(tmp_path / "whole" / kind)
    write_image(source / "z.png", pixels(3))
    steps = kpac.deblur_files([source], out, options, batch=batch)
    next(steps)
    gone = source / kind
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    report = finish(steps)
    states = {outcome.item.first.name: outcome for outcome in report.outcomes}
    assert states["z.png"].state == "made"
    if states[kind].state == "made":
        assert np.array_equal(read_image(out / kind), expected)
        assert kind != "a.zarr"
    else:
        assert kind in states[kind].problem
        assert not (out / kind).exists()
    assert not [name for name in os.listdir(out) if name.startswith(".")]
