"""Memory that runs out at every place where something is allocated, and for real."""

import errno
import json
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core import allocator
from napari_kpac.core.progress import Progress, finish
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.job import Job
from napari_kpac.engine.memory import has_given_up, is_memory_error
from napari_kpac.engine.stages import Stages
from napari_kpac.engine.tiling import MIN_TILE_PX
from tests.engine.conftest import tiny_net
from tests.reliability import shortage
from tests.training.conftest import TINY

NET = tiny_net(2, double=False)
PLACES = 12
"""Places in the quick run; the long run takes all of them."""


@pytest.fixture
def image():
    return np.random.default_rng(0).random((136, 144)).astype(np.float32)


def deblurred(image):
    return kpac.deblur(image, NET, "cpu").image


def classical(image):
    return kpac.deblur(image[:32, :32], method="ebdb").image


def mapped(image):
    return kpac.blur_map(image, NET, "cpu", upsampling=1)


def detected(image):
    return kpac.detect(image, source="variance").values


def session(image):
    opened = kpac.Session(image, NET, "cpu")
    try:
        opened.render()
        opened.render(draft=True)
        gains = kpac.Modulation(gains=[0.5, 1, 1])
        opened.render(gains, region=(10, 60, 20, 80))
        return opened.render(gains).image
    finally:
        opened.close()


def replayed(image):
    options = kpac.DeblurOptions(device="cpu")
    recipe = kpac.Recipe(options, kpac.Modulation(), "tiny", "0" * 64)
    return kpac.replay(image, recipe, NET).image


ACTIONS = (deblurred, mapped, session, replayed, classical, detected)


@pytest.mark.parametrize("thorough", [False, pytest.param(True, marks=pytest.mark.long)])
@pytest.mark.parametrize("failures", [1, 10**9], ids=["once", "for-good"])
@pytest.mark.parametrize("hook", [shortage.of_torch, shortage.of_numpy])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_allocation(image, action, hook, failures, thorough):
    """Each ends with the same pixels, in smaller tiles if need be, or with a KpacError."""
    expected = action(image)
    with hook() as counted:
        action(image)
    if not counted.count:
        pytest.skip("this action allocates nothing of the kind")
    places = range(1, counted.count + 1, 1 if thorough else max(1, counted.count // PLACES))
    ends = {"made": 0, "refused": 0}
    for place in places:
        made, said = None, ""
        with hook(place, failures) as limited:
            try:
                made = action(image)
            except kpac.KpacError as error:
                said = str(error)
        assert limited.count >= place
        if made is None:
            assert "out of memory" in said
            assert ";" in said  # what to do
            ends["refused"] += 1
        else:
            np.testing.assert_allclose(made, expected, atol=1e-4)
            ends["made"] += 1
        assert not allocator.is_keeping_memory()
    assert sum(ends.values()) == len(places)
    if failures > 1:
        assert ends["made"] == 0
    elif hook is shortage.of_torch and action in (deblurred, session):
        assert ends["refused"] <= ends["made"]
    np.testing.assert_array_equal(action(image), expected)


def test_the_hook_into_numpy_hooks():
    assert shortage.test_hook()


def test_smaller_and_smaller_down_to_the_floor(image, monkeypatch):
    """Every smaller plan is tried and told of; the error at the end says what to do."""
    tried = []

    def fail(self, *args):
        tried.append(self.stages.plan)
        raise MemoryError

    monkeypatch.setattr(Bottleneck, "run", fail)
    steps = kpac.deblur_steps(image, kpac.DeblurOptions(device="cpu", tile=128), model=NET)
    told = []
    with pytest.raises(kpac.KpacError, match="out of memory even with tiles of 64 pixels; close"):
        told.extend(progress.note for progress in steps)
    assert [plan.tile for plan in tried] == [128, 128, MIN_TILE_PX, MIN_TILE_PX]
    assert [plan.scratch for plan in tried] == [False, False, False, True]
    said = [note for note in told if note]
    assert len(said) == len(tried) - 1
    assert all("memory ran short; going on with tiles of" in note for note in said)


def test_a_session_goes_on_in_smaller_tiles_and_says_so(image, monkeypatch):
    opened = kpac.Session(image, NET, "cpu")
    expected = opened.render().image
    opened.close()
    original = Stages._encode_tile

    def fail_while_large(self, *args):
        if self.plan.tile > 80:
            raise MemoryError
        return original(self, *args)

    monkeypatch.setattr(Stages, "_encode_tile", fail_while_large)
    opened = kpac.Session(image, NET, "cpu")
    for _ in opened.encode_steps():
        pass
    assert "memory ran short; going on with tiles of 72 pixels" in opened.note
    np.testing.assert_allclose(opened.render().image, expected, atol=1e-5)
    # Also between two renders, when something else took the memory.
    monkeypatch.setattr(Stages, "decode", _failing_once(Stages.decode))
    gains = kpac.Modulation(gains=[0.5, 1, 1])
    np.testing.assert_allclose(
        opened.render(gains).image, kpac.deblur(image, NET, modulation=gains).image, atol=1e-5
    )
    opened.close()


def _failing_once(original):
    failures = []

    def method(self, *args):
        if not failures:
            failures.append(1)
            raise MemoryError
        return original(self, *args)

    return method


def test_a_batch_says_so_and_goes_on(photo, models, tmp_path, monkeypatch):
    from napari_kpac.images import read_image, write_image

    for name in ("a.png", "b.png"):
        write_image(tmp_path / "in" / name, np.tile(photo, (3, 2, 1)))
    expected = kpac.deblur(np.tile(photo, (3, 2, 1)), models[0]).image
    original = Stages._encode_tile

    def fail_while_large(self, *args):
        if self.plan.tile > 100:
            raise MemoryError
        return original(self, *args)

    monkeypatch.setattr(Stages, "_encode_tile", fail_while_large)
    options = kpac.DeblurOptions(model=str(models[0]))
    steps, told = kpac.deblur_files([tmp_path / "in"], tmp_path / "out", options), []
    while True:
        try:
            told.append(next(steps).note)
        except StopIteration as stop:
            report = stop.value
            break
    assert len(report.of("made")) == 2
    for name in ("a.png", "b.png"):
        assert any(note.startswith(f"{name}: memory ran short") for note in told)
        found = read_image(tmp_path / "out" / name).astype(int)
        assert np.abs(found - expected).max() <= 1
    monkeypatch.setattr(Stages, "_encode_tile", _out_of_memory)
    report = finish(kpac.deblur_files([tmp_path / "in"], tmp_path / "none", options))
    assert len(report.failed) == 2
    assert all("out of memory" in outcome.problem for outcome in report.failed)


def _out_of_memory(*_):
    raise MemoryError


def test_training_and_evaluating_say_what_to_do(options, tmp_path, monkeypatch):
    with pytest.raises(kpac.KpacError, match=r"out of memory.* smaller batch_size \(now 2\)"):
        with shortage.of_torch(400, 10**9):
            finish(kpac.train(options(), tmp_path / "run"))
    # What was learned before is kept, and the run goes on from there.
    steps = kpac.train(options(), tmp_path / "two")
    for _ in range(TINY["save_every"]):
        next(steps)
    monkeypatch.setattr("napari_kpac.training.loop.Trainer.step", _out_of_memory)
    with pytest.raises(kpac.KpacError, match="what was saved is kept"):
        next(steps)
    monkeypatch.undo()
    from napari_kpac.training import resume

    assert next(resume(tmp_path / "two")).done == TINY["save_every"] + 1


REAL = """
    import json, resource, sys
    import numpy as np, psutil, torch
    import napari_kpac as kpac
    torch.set_num_threads(1)
    net = kpac.build(kpac.KPACConfig(levels=2, channels=16, shape_hidden=2), seed=0)
    image = np.random.default_rng(0).random((2048, 2048)).astype(np.float32)
    options = kpac.DeblurOptions(device="cpu", memory="64 GB")
    expected = kpac.deblur(image, net, "cpu", tile=256).image
    told = []
    for spare in (400, 250, None):
        if spare is not None:
            size = psutil.Process().memory_info().vms + spare * 10**6
            resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))
        notes, end = [], ""
        steps = kpac.deblur_steps(image, options, model=net)
        try:
            while True:
                notes.append(next(steps).note)
        except StopIteration as stop:
            result = stop.value
        except kpac.KpacError as error:
            result, end = None, str(error)
        finally:
            limits = resource.RLIM_INFINITY, resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_AS, limits)
        same = result is None or bool(np.allclose(result.image, expected, atol=1e-5))
        told.append({"short": any("ran short" in n for n in notes), "end": end, "same": same})
        del result
    print(json.dumps(told))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of Linux")
def test_a_real_limit_of_memory():
    """A process whose address space is bounded: the system itself refuses."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(REAL)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout)
    assert all(each["same"] for each in told)
    assert any(each["short"] and not each["end"] for each in told), told
    assert all("out of memory" in each["end"] for each in told if each["end"])
    # With enough memory again all is well, also in the thread that had none.
    assert told[-1]["end"] == ""


def test_what_one_thread_cannot_do_is_done_in_another():
    """Where oneDNN has given up in a thread, the next attempt is made elsewhere."""
    here = threading.current_thread()
    spoilt = {here}

    def prepared():
        return Job(np.zeros((64, 64), np.float32), kpac.DeblurOptions(device="cpu"), model=NET)

    def attempt():
        if threading.current_thread() in spoilt:
            raise RuntimeError("could not create a primitive")
        for done in range(3):
            yield Progress(done + 1, 3, "encode")
        return threading.current_thread(), torch.get_num_threads()

    job = prepared()
    budget = job.plan.budget
    there, threads = finish(job.within_memory(attempt))
    assert there is not here
    assert threads == torch.get_num_threads()
    assert job.plan.budget < budget
    steps = prepared().within_memory(attempt)
    assert [next(steps).done for _ in range(2)] == [0, 1]
    steps.close()
    assert not [each for each in threading.enumerate() if "again" in each.name]


@pytest.mark.parametrize(
    ("error", "short", "for_good"),
    [
        (MemoryError(), True, False),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True, False),
        (RuntimeError("std::bad_alloc"), True, False),
        (RuntimeError("could not create a primitive"), True, True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True, False),
        (OSError(errno.ENOSPC, "No space left on device"), False, False),
        (RuntimeError("sizes do not match"), False, False),
        (ValueError("out of memory"), False, False),
    ],
)
def test_which_errors_are_shortages(error, short, for_good):
    assert is_memory_error(error) == short
    assert has_given_up(error) == for_good
