"""Progress, cancelling, memory shortage, blur maps."""

from collections import Counter

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.engine import device, levels
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.stages import Stages
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)


@pytest.fixture
def image(rng):
    return rng.random((100, 130)).astype(np.float32)


def steps(image, **options):
    return kpac.deblur_steps(image, kpac.DeblurOptions(device="cpu", **options), model=NET)


def test_progress_counts_every_tile_once(image):
    seen = list(steps(np.stack([image, image]), tile=64))
    counts = [event.done for event in seen]
    assert counts == sorted(counts)
    passes = 2 + 3 * NET.config.blocks
    total = 2 * (2 * 2 * 3 + passes)
    # Within a tile or a band the last count is told again.
    assert sorted(set(counts)) in (list(range(total + 1)), list(range(1, total + 1)))
    assert {event.total for event in seen} == {total}
    assert {event.stage for event in seen} == {"encode", "blocks", "decode"}


def test_cancelling_answers_within_one_tile(image, monkeypatch):
    encoded = []
    original = Stages._encode_tile
    monkeypatch.setattr(
        Stages,
        "_encode_tile",
        lambda self, tile: encoded.append(tile) or original(self, tile),
    )
    out = np.full_like(image, -1)
    work = kpac.deblur_steps(image, kpac.DeblurOptions(device="cpu", tile=32), model=NET, out=out)
    while next(work).done < 2:
        pass
    work.close()
    assert len(encoded) == 2
    assert (out == -1).all()


def test_cancelling_answers_within_a_band_of_a_tile(rng, monkeypatch):
    """However long a tile takes: no more rows are computed than a band has, in any stage."""
    monkeypatch.setattr(levels, "BAND_BYTES", 1)
    image = rng.random((256, 64)).astype(np.float32)
    work = steps(image, tile=None)
    counts = Counter((event.stage, event.done) for event in work)
    # One tile in all; full resolution has 16 bands of 16 rows, half of it 8, a quarter 4.
    assert counts["encode", 0] == 16 + 8 + 4
    assert counts["decode", max(done for stage, done in counts if stage == "blocks")] == 28


def test_a_band_of_a_block_can_be_left_after_every_dilation(image):
    counts = Counter((event.stage, event.done) for event in steps(image))
    within = [number - 1 for (stage, _), number in counts.items() if stage == "blocks"]
    assert within.count(len(NET.config.dilations)) == NET.config.blocks


@pytest.mark.parametrize("stage", ["_encode_tile", "by_band", "decode"])
@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: not enough memory"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
    ids=["python", "cpu", "gpu"],
)
def test_memory_shortage_leads_to_smaller_tiles(image, monkeypatch, stage, error):
    expected = kpac.deblur(image, NET, "cpu").image
    original = getattr(Stages, stage)
    failures = []

    def fail_while_large(self, *args, **options):
        if self.plan.tile > 70:
            failures.append(self.plan.tile)
            raise error
        return original(self, *args, **options)

    monkeypatch.setattr(Stages, stage, fail_while_large)
    events, work = [], steps(image)
    while True:
        try:
            events.append(next(work))
        except StopIteration as stop:
            result = stop.value
            break
    assert failures
    assert any("memory ran short" in event.note for event in events)
    np.testing.assert_allclose(result.image, expected, atol=1e-5)
    assert result.recipe.environment["plan"]["tile"] <= 70


def test_a_blur_map_survives_memory_shortage_too(image, monkeypatch):
    options = kpac.BlurMapOptions(device="cpu", upsampling=1)
    expected = finish(kpac.blur_map_steps(image, options, model=NET)).values
    original = Stages._encode_tile

    def fail_while_large(self, *args):
        if self.plan.tile > 100:  # of 164x194 pixels with the margin
            raise MemoryError
        return original(self, *args)

    monkeypatch.setattr(Stages, "_encode_tile", fail_while_large)
    actual = finish(kpac.blur_map_steps(image, options, model=NET)).values
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def test_memory_shortage_ends_with_a_clear_error(image, monkeypatch):
    def fail(self, *args):
        raise MemoryError

    monkeypatch.setattr(Stages, "_encode_tile", fail)
    with pytest.raises(kpac.KpacError, match="out of memory"):
        finish(steps(image))


def test_other_errors_are_not_mistaken_for_memory(image, monkeypatch):
    def fail(self, *args):
        raise RuntimeError("something else")

    monkeypatch.setattr(Stages, "_encode_tile", fail)
    with pytest.raises(RuntimeError, match="something else"):
        finish(steps(image))


def test_scratch_files_vanish(image, monkeypatch, tmp_path):
    import tempfile
    from dataclasses import replace

    from napari_kpac.engine import job

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    original = job.make_plan
    monkeypatch.setattr(job, "make_plan", lambda *a, **k: replace(original(*a, **k), scratch=True))
    work = steps(image, tile=64)
    while next(work).done < 1:
        pass
    assert list(tmp_path.rglob("*.raw"))
    work.close()
    assert not list(tmp_path.rglob("*.raw"))
    finish(steps(image, tile=64))
    assert not list(tmp_path.iterdir())


def test_devices_are_listed_with_the_cpu_last():
    names = [found.name for found in device.devices()]
    assert names[-1] == "cpu"
    assert device.resolve("auto") == torch.device(names[0])
    assert device.free_memory(torch.device("cpu")) > 0


@pytest.mark.gpu
@pytest.mark.parametrize("name", [d.name for d in device.devices() if d.name != "cpu"])
def test_every_gpu_gives_what_the_cpu_gives(name, photograph):
    expected = kpac.deblur(photograph, device="cpu").image.astype(float)
    actual = kpac.deblur(photograph, device=name, tile=128).image.astype(float)
    assert np.abs(actual - expected).max() <= 1


def test_blur_maps(photograph):
    image = photograph[:96, :120]
    values = kpac.blur_map(image)
    assert values.shape == (96, 120)
    assert values.dtype == np.float32
    assert 0 <= values.min() <= values.max() <= 1
    plain = kpac.blur_map(image, upsampling=1)
    stack = kpac.blur_map(np.stack([image, image]), upsampling=1)
    np.testing.assert_allclose(stack[1], plain, atol=1e-6)
    tiled = kpac.blur_map(image, tile=64)
    np.testing.assert_allclose(tiled, values, atol=1e-5)


@pytest.mark.parametrize(
    ("wanted", "pixels", "factor"),
    [
        ("auto", 10**6, 4),
        ("auto", 10**6 + 1, 2),
        ("auto", 5 * 10**6, 1),
        ("paper", 10**8, 4),
        (2, 5, 2),
    ],
)
def test_the_blur_map_enlarges_less_the_larger_the_image(wanted, pixels, factor):
    assert kpac.BlurMapOptions(upsampling=wanted).upsampling_factor(pixels, best=4) == factor


def test_the_blur_map_enlarges_by_what_is_best_for_the_model():
    assert kpac.BlurMapOptions().upsampling_factor(1000) == 1
    assert kpac.BlurMapOptions().upsampling_factor(1000, best=2) == 2
    assert kpac.BlurMapOptions(upsampling=4).upsampling_factor(1000, best=2) == 4


def test_only_the_encoder_and_the_first_attention_run_for_a_blur_map(image, monkeypatch):
    def never(*args):
        raise AssertionError("not needed for a blur map")

    monkeypatch.setattr(Bottleneck, "run", never)
    monkeypatch.setattr(Stages, "decode", never)
    options = kpac.BlurMapOptions(device="cpu")
    found = finish(kpac.blur_map_steps(image, options, model=NET))
    assert found.upsampling == 1
    assert found.alpha.shape == (3, 100, 130)
