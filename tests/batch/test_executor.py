"""Batches: what goes in, what is skipped, what fails, and what overlaps with what."""

import json
import os
import shutil
import threading

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

import napari_kpac as kpac
from napari_kpac.batch import deblur_files, executor, files
from napari_kpac.batch.deblur import DeblurAction, DeblurOutput
from napari_kpac.batch.executor import run_steps
from napari_kpac.batch.inputs import find_images, plan_items
from napari_kpac.cli import main
from napari_kpac.core.progress import finish
from napari_kpac.images import read_image


@pytest.fixture
def photos(tmp_path, photo):
    folder = tmp_path / "in"
    folder.mkdir()
    for n in (1, 2, 10):
        Image.fromarray(np.roll(photo, n, axis=0)).save(folder / f"p{n}.png")
    return folder


def deblur(models, *arguments):
    call = ["deblur", *map(str, arguments), "--model", str(models[0])]
    try:
        return main(call)
    except SystemExit as stop:
        return stop.code


def states(models, capsys, *arguments):
    deblur(models, *arguments, "--json")
    return [outcome["state"] for outcome in json.loads(capsys.readouterr().out)]


def test_folders_patterns_and_their_order(photos, tmp_path, monkeypatch):
    (photos / "deeper").mkdir()
    shutil.copy(photos / "p1.png", photos / "deeper" / "p1.png")
    (photos / "out").mkdir()
    shutil.copy(photos / "p1.png", photos / "out" / "p1.png")
    found = find_images([photos], photos / "out")
    assert [str(each.relative) for each in found] == [
        os.path.join("deeper", "p1.png"), "p1.png", "p2.png", "p10.png",
    ]  # fmt: skip
    assert [each.path.name for each in find_images([photos / "p*.png"])] == [
        "p1.png", "p2.png", "p10.png",
    ]  # fmt: skip
    assert len(find_images([photos / "**" / "*.png"])) == 5
    with pytest.raises(kpac.KpacError, match="nothing matches"):
        find_images([photos / "*.tif"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(kpac.KpacError, match="no images in this folder"):
        find_images([tmp_path / "empty"])


def test_names_of_results(photos, tmp_path):
    def plan(names, output, **naming):
        found = plan_items(
            [photos / name for name in names], output, suffixes=(".png", ".tif"), **naming
        )
        return [item.target for item in found]

    out = tmp_path / "out"
    assert plan(["p1.png"], out) == [out / "p1.png"]
    assert plan(["p1.png"], tmp_path / "x.tif") == [tmp_path / "x.tif"]
    assert plan(["a.cr2", "b.tif"], out, fallback=".tif") == [out / "a.tif", out / "b.tif"]
    assert plan(["a.cr2", "a.jpg"], out, suffix=".png") == [out / "a.cr2.png", out / "a.jpg.png"]
    with pytest.raises(kpac.KpacError, match="over the input"):
        plan(["p1.png", "p2.png"], photos)
    with pytest.raises(kpac.KpacError, match="one file for 2"):
        plan(["p1.png", "p2.png"], tmp_path / "x.tif")
    with pytest.raises(kpac.KpacError, match="must end in"):
        plan(["p1.png"], tmp_path / "x.zarr")


def test_what_is_done_is_skipped_and_nothing_else(photos, models, tmp_path, capsys):
    out = tmp_path / "out"
    assert states(models, capsys, photos, "-o", out, "--dry-run") == ["planned"] * 3
    assert not out.exists()
    assert states(models, capsys, photos, "-o", out) == ["made"] * 3
    (out / "p2.png").unlink()
    assert states(models, capsys, photos, "-o", out) == ["skipped", "made", "skipped"]
    # A source that changed afterwards is made again.
    later = (out / "p1.png").stat().st_mtime + 10
    os.utime(photos / "p1.png", (later, later))
    assert states(models, capsys, photos, "-o", out, "--dry-run") == [
        "planned", "skipped", "skipped",
    ]  # fmt: skip
    os.utime(photos / "p1.png", (later - 1000, later - 1000))
    # Other settings are never taken for done, nor written over the old result.
    before = (out / "p1.png").read_bytes()
    assert states(models, capsys, photos, "-o", out, "--strength", "0.5") == ["failed"] * 3
    assert (out / "p1.png").read_bytes() == before
    assert states(models, capsys, photos, "-o", out, "--strength", "0.5", "--overwrite") == [
        "made", "made", "made",
    ]  # fmt: skip
    assert (out / "p1.png").read_bytes() != before
    # Where it ran does not matter.
    assert states(models, capsys, photos, "-o", out, "--strength", "0.5", "--tile", "32") == [
        "skipped", "skipped", "skipped",
    ]  # fmt: skip


def test_a_foreign_file_is_not_replaced(photos, models, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    shutil.copy(photos / "p2.png", out / "p1.png")
    assert deblur(models, photos, "-o", out) == 1
    said = capsys.readouterr().err
    assert "2 made, 1 failed" in said
    assert "the option overwrite" in said
    assert (out / "p1.png").read_bytes() == (photos / "p2.png").read_bytes()


@pytest.mark.parametrize("overlap", [True, False])
def test_with_and_without_overlap_is_the_same(photos, models, tmp_path, overlap):
    (photos / "bad.png").write_bytes(b"nothing")
    options = kpac.DeblurOptions(model=str(models[0]))
    steps = kpac.deblur_files(
        [photos], tmp_path / "out", options, batch=kpac.BatchOptions(overlap=overlap)
    )
    events = []
    while True:
        try:
            events.append(next(steps))
        except StopIteration as stop:
            report = stop.value
            break
    assert [event.done for event in events] == sorted(event.done for event in events)
    assert events[-1].done == events[-1].total == 400
    assert len(report.of("made")) == 3
    assert len(report.failed) == 1
    for name in ("p1.png", "p2.png", "p10.png"):
        expected = kpac.deblur(read_image(photos / name), models[0]).image
        assert np.array_equal(read_image(tmp_path / "out" / name), expected)


def test_reading_and_writing_overlap_with_computing(photos, models, tmp_path):
    """While one image is computed the next is read and the one before is written."""
    seen, main_thread = {}, threading.current_thread()
    next_read, waited = threading.Event(), []

    class WatchedOutput(DeblurOutput):
        def add(self, plane):
            seen.setdefault("write", []).append(threading.current_thread())
            super().add(plane)

        def finish(self):
            seen.setdefault("write", []).append(threading.current_thread())
            return super().finish()

    class Watched(DeblurAction):
        def open(self, item, pixel_range=None):
            seen.setdefault("open", []).append(threading.current_thread())
            if item.first.name == "p2.png":
                next_read.set()
            return super().open(item, pixel_range)

        def compute(self, file, plane, loaded, pixels=None):
            seen.setdefault("compute", []).append(threading.current_thread())
            # The first image is not let go before the second is being read.
            waited.append(next_read.wait(20))
            return (yield from super().compute(file, plane, loaded, pixels))

        def output(self, item, info):
            return WatchedOutput(item, info, None)

    items = plan_items([photos], tmp_path / "out", suffixes=(".png",))
    action = Watched.prepare(kpac.DeblurOptions(model=str(models[0])))
    assert len(finish(run_steps(items, action)).of("made")) == 3
    assert waited == [True] * 3
    assert set(seen["compute"]) == {main_thread}
    assert len(set(seen["open"])) == len(set(seen["write"])) == 1
    assert len({main_thread, *seen["open"], *seen["write"]}) == 3


@pytest.mark.parametrize("overlap", [True, False])
def test_large_images_go_one_at_a_time(photos, models, tmp_path, monkeypatch, overlap):
    """Nothing is decoded or computed while one is being encoded, and freed memory is returned."""
    monkeypatch.setattr(files, "LARGE_PLANE_BYTES", 1000)
    log = []
    monkeypatch.setattr(files, "give_back", lambda: log.append("give back"))

    class WatchedOutput(DeblurOutput):
        def finish(self):
            outcome = super().finish()
            log.append("written")
            return outcome

    class Watched(DeblurAction):
        def open(self, item, pixel_range=None):
            log.append("open")
            return super().open(item, pixel_range)

        def compute(self, file, plane, loaded, pixels=None):
            computed = yield from super().compute(file, plane, loaded, pixels)
            log.append("computed")
            return computed

        def output(self, item, info):
            return WatchedOutput(item, info, None)

    items = plan_items([photos], tmp_path / "out", suffixes=(".png",))
    action = Watched.prepare(kpac.DeblurOptions(model=str(models[0])))
    done = finish(run_steps(items, action, kpac.BatchOptions(overlap=overlap)))
    assert len(done.of("made")) == 3
    assert log == ["open", "computed", "give back", "written"] * 3


def test_stopping_leaves_nothing_half_written(photos, models, tmp_path):
    stack = np.stack([read_image(photos / "p1.png")[..., 0]] * 6)
    array = zarr.create_array(str(photos / "s.zarr"), shape=stack.shape, dtype=stack.dtype)
    array[:] = stack
    out = tmp_path / "out"
    steps = kpac.deblur_files([photos / "s.zarr"], out, kpac.DeblurOptions(model=str(models[0])))
    for event in steps:
        if event.done > 50:
            break
    steps.close()
    assert list(out.iterdir()) == []
    assert not [each for each in threading.enumerate() if each.name.startswith("napari-kpac")]


def test_a_disk_that_cannot_be_written_to(photos, models, tmp_path, capsys):
    (tmp_path / "out").write_text("a file where the folder should be")
    assert deblur(models, photos, "-o", tmp_path / "out") == 1
    assert "3 failed" in capsys.readouterr().err


def test_an_error_that_nobody_foresaw_is_that_files_affair(photos, models, tmp_path, monkeypatch):
    from napari_kpac.engine.bottleneck import Bottleneck

    original, calls = Bottleneck.run, []

    def fail_once(self, *args):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("a strange thing")
        return original(self, *args)

    monkeypatch.setattr(Bottleneck, "run", fail_once)
    steps = kpac.deblur_files([photos], tmp_path / "out", kpac.DeblurOptions(model=str(models[0])))
    report = finish(steps)
    assert [outcome.state for outcome in report.outcomes] == ["made", "failed", "made"]
    assert "a strange thing" in report.failed[0].problem


def test_other_formats_for_results(photos, models, tmp_path):
    assert deblur(models, photos, "-o", tmp_path / "t", "--to", "tif") == 0
    assert deblur(models, photos / "p1.png", "-o", tmp_path / "z.zarr") == 0
    expected = kpac.deblur(read_image(photos / "p1.png"), models[0]).image
    assert np.array_equal(tifffile.imread(tmp_path / "t" / "p1.tif"), expected)
    assert np.array_equal(read_image(tmp_path / "z.zarr"), expected)
    assert deblur(models, photos, "-o", tmp_path / "t", "--to", "gif") == 2
    assert deblur(models, photos, "-o", tmp_path / "t", "--workers", "0") == 2
    assert deblur(models, "-o", tmp_path / "t") == 2


def test_a_result_that_does_not_fit_its_format_costs_no_work(
    photo, models, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("napari_kpac.engine.bottleneck.Bottleneck.run", None)
    tifffile.imwrite(tmp_path / "s.tif", np.stack([photo[..., 0]] * 2), photometric="minisblack")
    tifffile.imwrite(tmp_path / "f.tif", photo[..., 0] / 255, photometric="minisblack")
    for name, word in (("s.tif", "not a stack"), ("f.tif", "float64 pixels")):
        assert deblur(models, tmp_path / name, "-o", tmp_path / "o.png") == 1
        assert word in capsys.readouterr().err


def test_maps_that_are_done_are_found_again(photo, models, tmp_path, capsys):
    """Stacks become many files; names that only begin alike, or look like patterns, do not fool."""
    folder = tmp_path / "in"
    folder.mkdir()
    stack = np.stack([photo[..., 0]] * 11)
    for name in ("s-0.tif", "s.tif", "p[1]0.tif"):
        tifffile.imwrite(folder / name, stack, photometric="minisblack")
    flags = ["-o", str(tmp_path / "out"), "--model", str(models[0]), "--json"]
    maps = ["--upsampling", "1", "--format", "png8", "--mask", str(tmp_path / "masks")]
    for command, extra in (("blur-map", maps), ("attention", [])):
        call = [command, str(folder), *flags, *extra]
        for names, expected in (
            (["s-0.tif"], {"made": 1}),
            ([], {"made": 2, "skipped": 1}),
            ([], {"skipped": 3}),
        ):
            chosen = [command, *(str(folder / name) for name in names), *flags, *extra]
            assert main(chosen if names else call) == 0
            found = [outcome["state"] for outcome in json.loads(capsys.readouterr().out)]
            assert {state: found.count(state) for state in set(found)} == expected


def test_dual_pixel_pairs(photo, models, tmp_path, capsys):
    left, right = tmp_path / "l", tmp_path / "r"
    for side, shift in ((left, 1), (right, -1)):
        side.mkdir()
        for n in (1, 2):
            Image.fromarray(np.roll(photo, shift * n, axis=1)).save(side / f"{n}.png")
    out, model = tmp_path / "out", ["--model", str(models[1])]
    views = ["--left", str(left), "--right", str(right)]
    assert main(["deblur", "-o", str(out), *views, *model]) == 0
    for n in (1, 2):
        pair = tuple(read_image(side / f"{n}.png") for side in (left, right))
        expected = kpac.deblur(None, models[1], views=pair).image
        assert np.array_equal(read_image(out / f"{n}.png"), expected)
    assert main(["blur-map", "-o", str(out / "m"), *views, *model, "--upsampling", "1"]) == 0
    assert main(["attention", "-o", str(out / "a"), *views, *model]) == 0
    # With a centre image, and views of other names: in their order.
    (right / "1.png").rename(right / "a.png")
    (right / "2.png").rename(right / "b.png")
    centre = tmp_path / "c.png"
    Image.fromarray(photo).save(centre)
    files = ["--left", str(left / "2.png"), "--right", str(right / "b.png")]
    assert main(["deblur", str(centre), "-o", str(tmp_path / "x.png"), *files, *model]) == 0
    expected = kpac.deblur(photo, models[1], views=pair).image
    assert np.array_equal(read_image(tmp_path / "x.png"), expected)
    capsys.readouterr()
    assert main(["deblur", "-o", str(out / "n"), *views, *model, "--dry-run", "--json"]) == 0
    found = [[os.path.basename(path) for path in o["views"]]
             for o in json.loads(capsys.readouterr().out)]  # fmt: skip
    assert found == [["1.png", "a.png"], ["2.png", "b.png"]]
    (right / "b.png").unlink()
    assert main(["deblur", "-o", str(out / "n"), *views, *model]) == 1
    assert "2 left and 1 right" in capsys.readouterr().err


def of(models):
    return kpac.DeblurOptions(model=str(models[0]))


def test_one_is_read_ahead_and_one_written_behind(photos, models, tmp_path, monkeypatch):
    """And of large ones none: each is written before the next is read."""
    for limit, most in ((10**12, 3), (0, 1)):
        monkeypatch.setattr(files, "LARGE_PLANE_BYTES", limit)
        alive, log = set(), []
        original_open, original_write = DeblurAction.open, files.FileTask.write

        def open_(self, item, pixel_range=None, alive=alive, log=log, original=original_open):
            alive.add(item.first)
            log.append(len(alive))
            return original(self, item, pixel_range)

        def write(self, plane, info=None, alive=alive, original=original_write):
            outcome = original(self, plane, info)
            alive.difference_update([outcome.item.first] if outcome else [])
            return outcome

        with monkeypatch.context() as patched:
            patched.setattr(DeblurAction, "open", open_)
            patched.setattr(files.FileTask, "write", write)
            report = finish(deblur_files([photos], tmp_path / str(most), of(models)))
        assert not report.failed
        assert len(log) > 2
        assert max(log) <= most


def test_one_image_needs_no_thread(photos, models, tmp_path, monkeypatch):
    def never(*given):
        raise AssertionError("a thread was started")

    monkeypatch.setattr(executor, "ThreadPoolExecutor", never)
    report = finish(deblur_files([photos / "p1.png"], tmp_path / "one.png", of(models)))
    assert [outcome.state for outcome in report.outcomes] == ["made"]


def test_an_error_in_writing_the_last_result_is_counted(photos, models, tmp_path, monkeypatch):
    """It comes after everything was computed."""
    finish_file, last = DeblurOutput.finish, photos / "p10.png"

    def fail(self):
        if self.item.first == last:
            raise OSError("the disk is full")
        return finish_file(self)

    monkeypatch.setattr(DeblurOutput, "finish", fail)
    report = finish(deblur_files([photos], tmp_path / "out", of(models)))
    assert [outcome.item.first for outcome in report.failed] == [last]
    assert "the disk is full" in report.failed[0].problem
    assert not list((tmp_path / "out").glob(f"{last.stem}*"))
    assert not list((tmp_path / "out").glob(".*"))
