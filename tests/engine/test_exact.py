"""Tiling, regions and the Session change memory and time, never the result."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import napari_kpac as kpac
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.tiling import MAX_STEP_SECONDS, MIN_BAND_ROWS, TimeCost, make_plan
from napari_kpac.network import count_flops
from tests.engine.conftest import tiny_net

NETS = {levels: tiny_net(levels) for levels in (2, 3)}
ODD = tiny_net(2, stride_padding="symmetric", kernel_size=3, dilations=(1, 3), blocks=3)
DUAL = tiny_net(3, views=2)


def random_image(height, width, seed=0, channels=3):
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(seed).random(shape)


def run(image, net, **kwargs):
    return kpac.deblur(image, net, "cpu", range="unit", **kwargs)


def assert_same(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a.image, b.image, rtol=0, atol=tolerance)
    np.testing.assert_allclose(a.alpha, b.alpha, rtol=0, atol=max(tolerance, 1e-6))
    np.testing.assert_allclose(a.beta, b.beta, rtol=0, atol=max(tolerance, 1e-6))


sizes = st.integers(1, 150)
gains = st.lists(st.floats(0, 2), min_size=3, max_size=3)


@given(height=sizes, width=sizes, tile=st.integers(8, 96), levels=st.sampled_from((2, 3)))
def test_tiled_equals_untiled_in_float64(height, width, tile, levels):
    image = random_image(height, width)
    whole = run(image, NETS[levels], tile=None)
    assert_same(run(image, NETS[levels], tile=tile), whole)


@given(height=sizes, width=sizes, tile=st.integers(8, 64), kept=st.sets(st.integers(0, 2)),
       band=st.integers(1, 12), scratch=st.booleans())  # fmt: skip
def test_what_is_kept_banded_or_on_disk_does_not_matter(height, width, tile, kept, band, scratch):
    from dataclasses import replace

    from napari_kpac.engine import job

    net = NETS[3]
    image = random_image(height, width)
    whole = run(image, net, tile=None)
    original = job.make_plan

    def changed(*args, **kwargs):
        plan = original(*args, **kwargs)
        return replace(plan, kept_skips=tuple(sorted(kept)), band=band, scratch=scratch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "make_plan", changed)
        tiled = run(image, net, tile=tile)
    assert tiled.recipe.environment["plan"]["band"] == band
    assert_same(tiled, whole)


@given(height=st.integers(1, 90), width=st.integers(1, 90), tile=st.integers(8, 40))
def test_the_symmetric_rule_three_blocks_and_other_kernels(height, width, tile):
    image = random_image(height, width)
    assert_same(run(image, ODD, tile=tile), run(image, ODD, tile=None))


def net_of_other_layers(levels, seed=0):
    """A network whose kernels, dilations and strides' paddings are all drawn anew."""
    rng = np.random.default_rng(seed)
    net = tiny_net(
        levels,
        stride_padding=str(rng.choice(("authors", "symmetric"))),
        kernel_size=int(rng.choice((1, 3, 5))),
        dilations=tuple(map(int, rng.choice(9, 3, replace=False) + 1)),
    )
    for module in net.modules():
        if isinstance(module, torch.nn.ConvTranspose2d):
            continue  # its size belongs to its stride
        for name, conv in list(module.named_children()):
            if isinstance(conv, torch.nn.Conv2d) and name not in ("atrous", "0"):
                _enlarge(conv, int(rng.integers(0, 3)))
    return net


def _enlarge(conv, ring):
    """Put rings of random weights around a kernel; a strided one grows at its far ends."""
    shape = (*conv.weight.shape[:2], *(side + 2 * ring for side in conv.weight.shape[2:]))
    scale = float(conv.weight.detach().std()) * conv.weight.shape[-1] / shape[-1]
    generator = torch.Generator().manual_seed(ring)
    weight = scale * torch.randn(shape, generator=generator, dtype=conv.weight.dtype)
    conv.weight = torch.nn.Parameter(weight, requires_grad=False)
    conv.kernel_size = shape[2:]
    conv.padding = tuple(pad + ring * conv.dilation[0] for pad in conv.padding)


@pytest.mark.parametrize("seed", range(6))
def test_halos_follow_from_the_layers(seed):
    """No number is written down by hand: other layers have other halos, and tiles stay exact."""
    net = net_of_other_layers(2 + seed % 2, seed)
    assert net.halos != NETS[net.config.levels].halos
    image = random_image(150, 171)
    whole = run(image, net, tile=None)
    for tile in (24, 48):
        assert_same(run(image, net, tile=tile), whole)
    session = kpac.Session(image, net, "cpu", range="unit", tile=40)
    part = session.render(region=(30, 77, 90, 140)).image
    np.testing.assert_allclose(part, whole.image[30:77, 90:140], rtol=0, atol=1e-9)
    less = run(image, net, tile=48, modulation=kpac.Modulation(gains=[0.5, 1, 1]))
    assert np.abs(less.image - whole.image).max() > 1e-6


@pytest.mark.parametrize("tile", [16, 40, 100])
def test_dual_pixel_tiles(tile):
    left, right, centre = (random_image(61, 77, seed) for seed in range(3))
    for image in (centre, None):
        whole = kpac.deblur(image, DUAL, "cpu", views=(left, right), tile=None, range="unit")
        tiled = kpac.deblur(image, DUAL, "cpu", views=(left, right), tile=tile, range="unit")
        assert_same(tiled, whole)


@pytest.mark.parametrize("tile", [64, 136, 256])
def test_the_real_network_in_float32(photograph, tile):
    image = photograph[:301, :397].astype(np.float32) / 255
    assert_same(kpac.deblur(image, tile=tile), kpac.deblur(image, tile=None), 1e-5)


@given(height=st.integers(20, 150), width=st.integers(20, 150), data=st.data())
def test_a_region_is_that_crop_of_the_whole(height, width, data):
    image = random_image(height, width)
    top, left = data.draw(st.integers(0, height - 1)), data.draw(st.integers(0, width - 1))
    bottom = data.draw(st.integers(top + 1, height))
    right = data.draw(st.integers(left + 1, width))
    rows = data.draw(st.lists(gains, min_size=2, max_size=2))
    session = kpac.Session(image, NETS[data.draw(st.sampled_from((2, 3)))], "cpu", range="unit")
    if data.draw(st.booleans()):
        session.render()
    modulation = kpac.Modulation(gains=rows)
    part = session.render(modulation, region=(top, bottom, left, right))
    whole = session.render(modulation)
    cut = (slice(top, bottom), slice(left, right))
    np.testing.assert_allclose(part.image, whole.image[cut], rtol=0, atol=1e-9)
    np.testing.assert_allclose(part.alpha_at_image(), whole.alpha_at_image()[..., *cut], atol=1e-5)
    assert part.region == (top, bottom, left, right) or part.region is None


@given(moves=st.lists(st.tuples(st.sampled_from(("first", "second", "both", "strength", "label",
       "override", "none")), gains, st.booleans()), min_size=1, max_size=6))  # fmt: skip
def test_any_sequence_of_moves_ends_where_a_fresh_run_does(moves):
    image = random_image(70, 51)
    labels = np.zeros((70, 51), int)
    labels[20:50, 10:40] = 1
    alpha_map = random_image(70, 51, 5, channels=1)
    session = kpac.Session(image, NETS[3], "cpu", range="unit")
    ones = [1, 1, 1]
    for kind, row, partial in moves:
        modulation = {
            "first": kpac.Modulation(gains=[row, ones]),
            "second": kpac.Modulation(gains=[ones, row]),
            "both": kpac.Modulation(gains=row),
            "strength": kpac.Modulation(strength=row[0]),
            "label": kpac.Modulation(labels=labels, label_gains={1: row}),
            "override": kpac.Modulation(override={(1, 2): alpha_map, (2, 3): row[0]}, gains=row),
            "none": None,
        }[kind]
        region = (10, 33, 5, 40) if partial else None
        rendered = session.render(modulation, region=region)
    expected = run(image, NETS[3], modulation=modulation, tile=24)
    cut = expected.image[10:33, 5:40] if partial else expected.image
    np.testing.assert_allclose(rendered.image, cut, rtol=0, atol=1e-9)


def test_neutral_modulation_equals_the_plain_result(photograph):
    image = photograph[:200, :232]
    plain = kpac.deblur(image)
    session = kpac.Session(image)
    for modulation in (None, kpac.Modulation(), kpac.Modulation(gains=[1] * 5)):
        assert np.array_equal(session.render(modulation).image, plain.image)
        assert np.array_equal(kpac.deblur(image, modulation=modulation).image, plain.image)


def test_strength_zero_is_the_input_to_the_bit(photograph):
    modulation = kpac.Modulation(strength=0)
    assert np.array_equal(kpac.deblur(photograph[:99, :57], modulation=modulation).image,
                          photograph[:99, :57])  # fmt: skip
    odd = np.random.default_rng(0).normal(1e9, 1e3, (40, 41))
    assert np.array_equal(kpac.deblur(odd, modulation=modulation).image, odd)


def test_a_lean_session_gives_the_same(monkeypatch):
    image = random_image(64, 80)
    modulation = kpac.Modulation(gains=[0.5, 0, 1.5])
    monkeypatch.setattr(Bottleneck, "is_lean", True)
    lean = kpac.Session(image, NETS[3], "cpu", range="unit")
    assert_same(lean.render(modulation), run(image, NETS[3], modulation=modulation))


@pytest.mark.parametrize("memory", ["40 MB", "1 GB"])
def test_the_budget_chooses_and_the_choice_is_recorded(memory):
    image = (random_image(300, 400) * 255).astype(np.uint8)
    plan = kpac.deblur(image, memory=memory).recipe.environment["plan"]
    if memory == "40 MB":
        assert plan["tile"] < 300
        assert plan["kept_skips"] == []
    if memory == "1 GB":
        assert plan["tile"] >= 400


def test_plans_need_no_more_than_their_budget():
    config = kpac.KPACConfig()
    small = make_plan((3000, 4000), config, halo=24, budget=1_000_000_000)
    large = make_plan((3000, 4000), config, halo=24, budget=6_000_000_000)
    assert small.tile <= large.tile
    assert len(small.kept_skips) < 3
    assert large.kept_skips == (0, 1, 2)
    assert make_plan((100_000, 100_000), config, halo=24, budget=1_000_000_000).scratch


def test_no_step_of_a_plan_takes_long_whatever_the_size_and_the_memory():
    """A plan of one piece for 8.6 megapixels showed no progress for half a minute."""
    net, rate = kpac.build(), 1e11
    time = TimeCost(net.work, rate)
    for size in ((720, 1280), (2400, 3600), (6000, 8000), (30_000, 1000), (8664, 11544)):
        for budget in (10**9, 10**12):
            plan = make_plan(size, net.config, halo=net.halos.encode, budget=budget, time=time)
            largest = max(tile.height * tile.width for tile in plan.tiles())
            assert largest <= 1024**2
            kept = plan.kept_skips == (0, 1, 2)
            side = plan.tile + 2 * net.halos.encode
            pixels = min(side, size[0]) * min(side, size[1])
            assert time.tile(pixels, kept=kept) <= MAX_STEP_SECONDS
            rows = min(plan.band + 2 * net.work.block_halo, size[0] // 8)
            block = 2 * rows * (size[1] // 8) * net.work.block / rate
            assert block <= MAX_STEP_SECONDS or plan.band == MIN_BAND_ROWS
    slow = make_plan(
        (2400, 3600), net.config, halo=net.halos.encode, budget=10**12,
        time=TimeCost(net.work, rate / 10),
    )  # fmt: skip
    assert slow.tile < plan.tile
    assert slow.band < plan.band


def test_the_work_of_the_stages_is_that_of_the_whole_network():
    net, (height, width) = kpac.build(), (256, 384)
    flops = count_flops(lambda: kpac.build(), (1, 3, height, width)).flops
    work = net.work
    cell = 2 * (
        work.block
        + sum(
            conv.weight.numel()
            for name, conv in net.blocks[0].named_modules()
            if name.startswith("scale.") and hasattr(conv, "weight")
        )
    )
    shared = cell * net.config.blocks + 2 * (net.decoder.gather.weight.numel()
                                             + net.decoder.refine.weight.numel())  # fmt: skip
    expected = (2 * (work.encode + work.decode) + shared / net.config.multiple**2) * height * width
    assert flops == pytest.approx(expected, rel=1e-4)
