"""Levels in bands, and the buffers that they leave to the next tile."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.engine import levels
from napari_kpac.engine.job import Job
from napari_kpac.engine.levels import Workspace, decode_level, encode
from napari_kpac.network import layers
from tests.engine.conftest import tiny_net

NETS = [tiny_net(2), tiny_net(3), tiny_net(3, stride_padding="symmetric")]


@given(
    net=st.sampled_from(NETS), height=st.integers(1, 9), width=st.integers(1, 9),
    least=st.sampled_from((2, 4, 6, 16)),
)  # fmt: skip
def test_bands_give_what_the_levels_give(net, height, width, least):
    cell = net.config.multiple
    generator = torch.Generator().manual_seed(height)
    x = torch.rand(1, 3, cell * height, cell * width, dtype=torch.float64, generator=generator)
    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(levels, "MIN_BAND_ROWS", least)
        patch.setattr(levels, "BAND_BYTES", 1)
        wanted, skips = net.encode(x)
        halves = {n: net.decoder.skip_half(n, skip) for n, skip in enumerate(skips)}
        space = Workspace()
        for _ in range(2):  # again, in the buffers of the first time
            made = finish(encode(net, x, tuple(halves), space))
            torch.testing.assert_close(made.features, wanted, rtol=0, atol=1e-12)
            assert made.halves.keys() == halves.keys()
            for number, half in halves.items():
                torch.testing.assert_close(made.halves[number], half, rtol=0, atol=1e-12)
        alone = finish(encode(net, x, (0,), Workspace(), features=False))
        assert alone.features is None
        torch.testing.assert_close(alone.halves[0], halves[0], rtol=0, atol=1e-12)
        deep = torch.rand(wanted.shape, dtype=torch.float64, generator=generator)
        plain = deep
        for number in reversed(range(net.config.levels)):
            plain = net.decoder.level(number)(plain, halves[number])
            deep = finish(decode_level(net, number, deep, halves[number], space))
            torch.testing.assert_close(deep, plain, rtol=0, atol=1e-12)


def test_every_tile_and_plane_uses_the_same_buffers(monkeypatch):
    made = []
    empty = torch.empty
    monkeypatch.setattr(levels.torch, "empty", lambda *a, **k: made.append(a) or empty(*a, **k))
    options = kpac.DeblurOptions(device="cpu", tile=32)
    stack = np.random.default_rng(0).random((3, 64, 64)).astype(np.float32)
    job = Job(stack, options, model=tiny_net(3, double=False))
    counts = []
    for plane in job.layout.planes():
        made.clear()
        list(job.deblur(plane, job.load(plane)))
        counts.append(len([a for a in made if isinstance(a[0], int)]))
    assert counts[0] > 0
    assert counts[1:] == [0, 0]
    assert len(job.spare) == 1


def test_planes_in_several_threads_do_not_share_buffers():
    stack = np.random.default_rng(0).random((8, 48, 40)).astype(np.float32)
    net = tiny_net(3, double=False)
    expected = kpac.deblur(stack, net, "cpu", range="unit", tile=24).image
    job = Job(stack, kpac.DeblurOptions(device="cpu", range="unit", tile=24), model=net)
    out = np.empty_like(stack)

    def work(plane):
        list(job.deblur(plane, job.load(plane), out))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, job.layout.planes()))
    np.testing.assert_allclose(out, expected, atol=1e-6)


def test_a_workspace_grows_and_can_be_emptied():
    space, like = Workspace(), torch.empty(0)
    small = space.map("a", like, 2, 3, 4)
    assert small.shape == (1, 2, 3, 4)
    assert small.is_contiguous(memory_format=torch.channels_last)
    assert space.map("a", like, 2, 3, 4).data_ptr() == small.data_ptr()
    assert space.map("a", like, 2, 3, 5).numel() == 30
    assert space.size == 30 * 4
    assert space.map("a", like.double(), 2, 3, 4).dtype == torch.float64
    space.clear()
    assert space.size == 0


def test_results_are_the_same_without_fused_convolutions(photograph, monkeypatch):
    """As on a build of torch that does not have these operations."""
    image = photograph[:200, :232].astype(np.float32) / 255
    with torch.no_grad():
        fused = layers._fuses(torch.zeros(1), torch.zeros(1))
    here = kpac.deblur(image, device="cpu")
    monkeypatch.setattr(layers, "_has_fused_convolutions", lambda: False)
    plain = kpac.deblur(image, device="cpu")
    np.testing.assert_allclose(here.image, plain.image, rtol=0, atol=1e-5)
    np.testing.assert_allclose(here.alpha, plain.alpha, rtol=0, atol=1e-5)
    assert fused == torch.backends.mkldnn.is_available()


def test_learning_and_double_precision_are_never_fused():
    weight = torch.zeros(1, requires_grad=True)
    assert not layers._fuses(torch.zeros(1), weight)
    with torch.no_grad():
        assert not layers._fuses(torch.zeros(1).double(), weight.double())
