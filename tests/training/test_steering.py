"""Training with the sliders: targets by hand for every kind of gain, and a network learns them."""

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.network import KPACConfig
from napari_kpac.training.examples import (
    STEERING_KINDS,
    Steering,
    as_alpha_sees,
    coarse,
    collate,
    draw_steering,
    open_data,
)
from napari_kpac.training.losses import alpha_targets, attention_loss, steered_target, strength
from napari_kpac.training.validation import run
from tests.training.conftest import lively_net


def shares(radius: float) -> np.ndarray:
    """Targets of the five alphas at a radius, over their sum, from the formula alone."""
    onsets = np.array([12 ** (i / 4) for i in range(5)])
    targets = 1 / (1 + np.exp(-(radius - onsets) / (0.3 * onsets)))
    return targets / targets.sum()


def left(gains, radius=3.0, mask=1.0) -> torch.Tensor:
    """Strength of a crop of 2x2 pixels with one radius."""
    plane = torch.full((1, 2, 2), 1.0)
    return strength(torch.as_tensor(gains, dtype=torch.float32)[None], mask * plane, radius * plane)


def test_gains_that_are_alike_are_the_strength():
    for gain in (0.0, 0.3, 1.0):
        assert left(np.full((2, 5), gain)).numpy() == pytest.approx(gain)


def test_a_gain_for_each_dilation_takes_its_share():
    gains = np.tile([1.0, 0.5, 0.0, 0.25, 0.75], (2, 1))
    for radius in (0.5, 2.0, 6.0, 15.0):
        wanted = float((shares(radius) * gains[0]).sum())
        assert left(gains, radius).numpy() == pytest.approx(wanted, rel=1e-5)


def test_mutes_count_by_the_mean_of_the_blocks():
    gains = np.array([[0, 1, 1, 1, 1], [1, 1, 0, 1, 1]], float)
    first, _, third, *_ = shares(4.0)
    assert left(gains, 4.0).numpy() == pytest.approx(1 - (first + third) / 2, rel=1e-5)


def test_a_mask_multiplies():
    mask = torch.tensor([[[0.0, 1.0], [0.5, 0.25]]])
    gains = torch.full((1, 2, 5), 0.8)
    found = strength(gains, mask, torch.full((1, 2, 2), 3.0))
    assert torch.allclose(found[0, 0], 0.8 * mask[0])


def test_where_the_radius_is_not_known_the_gain_itself_counts():
    gains = torch.full((2, 2, 5), 0.4)
    radius = torch.stack([torch.full((2, 2), float("nan")), torch.full((2, 2), 5.0)])
    found = strength(gains, torch.ones(2, 2, 2), radius)
    assert found.numpy() == pytest.approx(0.4)


def test_the_target_lies_between_blurred_and_sharp():
    blurred, sharp = torch.rand(1, 3, 2, 2), torch.rand(1, 3, 2, 2)
    half = torch.full((1, 1, 2, 2), 0.5)
    assert torch.allclose(steered_target(blurred, sharp, half), (blurred + sharp) / 2)
    assert torch.equal(steered_target(blurred, sharp, 0 * half), blurred)
    assert torch.allclose(steered_target(blurred, sharp, 2 * half), sharp)


def drawn(count=400, known=True):
    return [
        draw_steering(np.random.default_rng(seed), (2, 5), 32, share=1, known=known)
        for seed in range(count)
    ]


def kind_of(steering: Steering) -> str:
    gains = steering.gains
    if (gains == 1).all():
        return "patches"
    if np.ptp(gains) == 0:
        return "alike"
    return "mutes" if np.isin(gains, (0, 1)).all() else "dilations"


def test_all_kinds_are_drawn_and_stay_within_bounds():
    found = drawn()
    kinds = [kind_of(each) for each in found]
    for kind in STEERING_KINDS:
        assert 0.15 < kinds.count(kind) / len(kinds) < 0.35, kind
    for each, kind in zip(found, kinds, strict=True):
        assert 0 <= each.gains.min() <= each.gains.max() <= 1
        assert 0 <= each.mask.min() <= each.mask.max() <= 1
        assert kind != "patches" or each.mask.min() < 1
        if kind == "dilations":
            assert np.array_equal(each.gains[0], each.gains[1])
    masked = [np.ptp(each.mask) > 0 for each in found]
    assert any(masked)
    assert not all(masked)
    silent = [each for each in found if not each.gains.any()]
    assert silent


def test_of_real_pairs_only_gains_that_are_alike():
    assert {kind_of(each) for each in drawn(known=False)} == {"alike"}
    assert all((each.mask == 1).all() for each in drawn(known=False))


def test_the_same_seed_draws_the_same():
    first, second = drawn(20), drawn(20)
    for one, other in zip(first, second, strict=True):
        assert np.array_equal(one.gains, other.gains)
        assert np.array_equal(one.mask, other.mask)


def test_masks_are_as_smooth_as_alpha():
    """What the target is made with is what alpha's cells can follow."""
    mask = torch.zeros(1, 32, 32)
    mask[:, :, 16:] = 1
    seen = as_alpha_sees(mask, 8)
    assert torch.equal(coarse(mask, (4, 4))[0, 0, 0], torch.tensor([0.0, 0, 1, 1]))
    assert seen.shape == mask.shape
    assert (seen[0, 0].diff() >= 0).all()
    assert seen[0, 0, 0] == 0
    assert seen[0, 0, -1] == 1
    assert float(seen[0, 0].diff().max()) <= 1 / 8 + 1e-6


def test_a_batch_has_gains_in_its_share(options):
    given = options(batch_size=40, steering=0.3)
    examples = open_data(given).batch(given, 0, attention=(2, 5))
    changed = (examples.gains.flatten(1) != 1).any(1) | (examples.mask.flatten(1) != 1).any(1)
    assert 4 <= int(changed.sum()) <= 20
    assert open_data(given).batch(given, 0).gains is None
    off = options(batch_size=4, steering=0.0)
    assert open_data(off).batch(off, 0, attention=(2, 5)).gains is None


def test_processes_draw_what_one_would(options):
    given = options(batch_size=4, steering=1.0)
    data = open_data(given)
    whole = data.batch(given, 3, attention=(2, 5))
    parts = [data.batch(given, 3, rank, 2, attention=(2, 5)) for rank in (0, 1)]
    assert torch.equal(torch.cat([part.gains for part in parts]), whole.gains)
    assert torch.equal(torch.cat([part.mask for part in parts]), whole.mask)


def test_gains_act_on_alpha_and_the_loss_sees_it_before(options):
    net = lively_net()
    given = options(batch_size=1, steering=1.0)
    examples = open_data(given).batch(given, 0, attention=(2, 5))
    plain, changed = [], []
    with torch.no_grad():
        untouched = run(net, type(examples)(*_first_four(examples)), plain)
        output = run(net, examples, changed)
    assert torch.equal(plain[0], changed[0])
    assert not torch.equal(untouched, output)
    muted = run(net, type(examples)(*_first_four(examples)), [], [0.0] * 5)
    no_gains = type(examples)(
        *_first_four(examples), gains=torch.zeros(1, 2, 5), mask=torch.ones(1, 32, 32)
    )
    assert torch.allclose(muted, run(net, no_gains, []))


def _first_four(examples):
    return examples.blurred, examples.sharp, examples.views, examples.radius


def test_unknown_radii_do_not_enter_the_attention_loss():
    alpha = [torch.rand(2, 5, 4, 4, generator=torch.Generator().manual_seed(0))]
    radius = torch.full((2, 32, 32), 3.0)
    radius[1] = float("nan")
    known = attention_loss([alpha[0][:1]], radius[:1])
    assert float(attention_loss(alpha, radius)) == pytest.approx(float(known) / 2)
    assert float(attention_loss(alpha, torch.full((2, 32, 32), float("nan")))) == 0


def test_a_tiny_network_learns_to_obey(one_thread):
    """One blurred image: with the sliders, no attention comes to mean no change."""
    generator = torch.Generator().manual_seed(0)
    sharp = torch.rand(3, 32, 32, generator=generator).numpy().transpose(1, 2, 0)
    from napari_kpac.datasets.pairs import Pair
    from napari_kpac.optics import defocus

    made = defocus(sharp, 2.0)
    pair = Pair("p", made.image, sharp, None, made.radius)
    examples = collate([pair, pair])
    mask = torch.ones(2, 32, 32)
    found = {}
    for steered in (True, False):
        net = kpac.build(KPACConfig(channels=8), seed=0)
        optimiser = torch.optim.Adam(net.parameters(), 2e-3)
        for _ in range(160):
            gains = torch.stack([torch.ones(2, 5), torch.zeros(2, 5)]) if steered else None
            batch = type(examples)(
                *_first_four(examples), gains=gains, mask=mask if steered else None
            )
            optimiser.zero_grad()
            alphas = []
            output = run(net, batch, alphas)
            loss = (output - batch.target()).abs().mean()
            loss = loss + 0.03 * attention_loss(alphas, batch.radius)
            loss.backward()
            optimiser.step()
        with torch.no_grad():
            plain, muted = (run(net, examples, [], gains) for gains in (None, [0.0] * 5))
        change = (examples.sharp - examples.blurred).abs().mean()
        found[steered] = [
            float((image - examples.blurred).abs().mean() / change) for image in (plain, muted)
        ]
    assert found[True][0] > 0.3
    assert found[True][1] < 0.5 * found[True][0]
    assert found[False][1] > 0.5 * found[False][0]


def test_targets_change_evenly_and_reach_the_large_radii():
    """Neighbouring radii look different to the decoder, up to the largest that are trained."""
    radii = torch.tensor([1.0, 2, 4, 8, 12, 16, 20]).view(1, 1, 1, -1)
    steps = alpha_targets(radii, 5)[0, :, 0].diff(dim=1).abs().sum(dim=0)
    assert (steps > 0.15).all()
