"""The road to an accelerator, with a device of our own that counts and computes on the CPU."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.engine import backend, job
from napari_kpac.engine.backend import Backend
from napari_kpac.engine.stages import SAFETY_FACTOR
from napari_kpac.engine.tiling import MemoryCost
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)
IMAGE = np.random.default_rng(0).random((96, 128, 3)).astype(np.float32)


class FakeAccelerator(Backend):
    """Counts what goes up and down; every download waits for the device, nothing else does."""

    def __init__(self, device, *, mixed=False, capacity=10**12, free=10**10):
        super().__init__(device, mixed=mixed)
        self.is_accelerator = True
        self.capacity, self.free = capacity, free
        self.uploads, self.downloads, self.released = [], [], 0

    def upload(self, x):
        self.uploads.append(tuple(x.shape))
        return super().upload(x).clone()

    def download(self, x, dtype):
        self.downloads.append(tuple(x.shape))
        return super().download(x, dtype)

    def free_memory(self):
        return self.free

    def check_available(self, size):
        if size > self.capacity:
            raise torch.OutOfMemoryError("fake accelerator out of memory")

    def release(self):
        self.released += 1

    def pixels_down(self):
        return [shape for shape in self.downloads if shape[1:2] == (3,) and shape[2] > 30]


@pytest.fixture
def fakes(monkeypatch):
    """All fakes that jobs made; ``settings`` are given to the next."""
    made, settings = [], {}

    def make(device, *, mixed=False):
        made.append(FakeAccelerator(device, mixed=mixed, **settings))
        return made[-1]

    monkeypatch.setattr(job, "Backend", make)
    make.made, make.settings = made, settings
    return make


def expected(**options):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "Backend", Backend)
        return kpac.deblur(IMAGE, NET, "cpu", range="unit", **options).image


@pytest.mark.parametrize("tile", ["auto", 32, None])
def test_an_image_goes_up_once_and_its_residual_comes_down_once(fakes, tile):
    result = kpac.deblur(IMAGE, NET, "cpu", range="unit", tile=tile)
    (fake,) = fakes.made
    assert fake.uploads == [(1, 3, 96, 128)]
    assert fake.pixels_down() == [(1, 3, 96, 128)]
    assert len(fake.downloads) == 3  # and alpha, and beta
    np.testing.assert_allclose(result.image, expected(), atol=1e-6)


def test_a_moved_slider_uploads_nothing_and_downloads_what_is_shown(fakes):
    session = kpac.Session(IMAGE, NET, "cpu", range="unit", tile=32)
    session.render()
    (fake,) = fakes.made
    assert fake.uploads == [(1, 3, 96, 128)]
    fake.uploads.clear()
    for gains in ([[0, 1, 1], [1, 1, 1]], [[0, 1, 1], [1, 0.5, 1]], [1, 1, 0]):
        fake.downloads.clear()
        result = session.render(kpac.Modulation(gains=gains))
        assert fake.pixels_down() == [(1, 3, 96, 128)]
        assert len(fake.downloads) == 3
        wanted = expected(modulation=kpac.Modulation(gains=gains))
        np.testing.assert_allclose(result.image, wanted, atol=1e-6)
    fake.downloads.clear()
    session.render(kpac.Modulation(gains=gains), region=(10, 60, 20, 90))
    assert not [shape for shape in fake.pixels_down() if shape[2:] > (56, 80)]
    session.render(kpac.Modulation(gains=gains, strength=0.5))
    assert fake.uploads == []


def test_a_strength_alone_brings_no_pixels_down(fakes):
    session = kpac.Session(IMAGE, NET, "cpu", range="unit")
    session.render()
    (fake,) = fakes.made
    fake.downloads.clear()
    session.render(kpac.Modulation(strength=0.5))
    assert fake.pixels_down() == []


def test_a_device_without_room_leads_to_smaller_tiles(fakes):
    needed = MemoryCost(NET.config, 4, banded=False).tile(*IMAGE.shape[:2])
    fakes.settings["capacity"] = int(SAFETY_FACTOR * needed) - 1
    notes = []
    steps = kpac.deblur_steps(IMAGE, kpac.DeblurOptions(device="cpu", range="unit"), model=NET)
    while True:
        try:
            notes.append(next(steps).note)
        except StopIteration as stop:
            result = stop.value
            break
    (fake,) = fakes.made
    assert any("memory ran short" in note for note in notes)
    assert fake.released
    assert result.recipe.environment["plan"]["tile"] < 128
    np.testing.assert_allclose(result.image, expected(), atol=1e-6)


def test_plans_believe_what_the_device_says_of_its_memory(fakes):
    large = np.zeros((1000, 1000, 3), np.uint8)
    tiles = []
    for free in (10**10, 2 * 10**8):
        fakes.settings["free"] = free
        tiles.append(job.Job(large, kpac.DeblurOptions(device="cpu"), model="default").plan.tile)
    assert tiles[0] >= 1000
    assert tiles[1] < 512


ROAD = ("job", "session", "stages", "levels", "bottleneck", "sampling")
"""The modules through which an image goes on its way through the network."""
COPIES = re.compile(r"\.cpu\(\)|\.cuda\(|pin_memory|\.item\(\)|synchronize|\.to\(\"|\.to\(.*device")


def test_nothing_else_on_the_road_copies_between_devices():
    """Gains and maps of a modulation follow alpha; all else goes through the backend."""
    folder = Path(backend.__file__).parent
    found = [
        (name, line.strip())
        for name in ROAD
        for line in (folder / f"{name}.py").read_text().splitlines()
        if COPIES.search(line)
    ]
    # What the backend has downloaded becomes an array.
    assert found == [("job", "return x.float().cpu().numpy()")]
