"""Tone curves: they can be undone, rise from 0 to 1, and refuse values without sense."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac import KpacError
from napari_kpac.optics.pixels import CONTRASTS, GAMMAS, ToneCurve

curves = st.builds(ToneCurve, gamma=st.floats(1, 4), contrast=st.floats(-0.9, 0.9))
seeds = st.integers(0, 2**32 - 1)


def values(count=5001):
    return torch.linspace(0, 1, count, dtype=torch.float32)


@given(seeds)
def test_curves_of_cameras_can_be_undone(seed):
    curve = ToneCurve.draw(np.random.default_rng(seed))
    torch.testing.assert_close(curve.encode(curve.decode(values())), values(), atol=1e-4, rtol=0)
    torch.testing.assert_close(curve.decode(curve.encode(values())), values(), atol=1e-4, rtol=0)


@given(curves)
def test_curves_rise_from_0_to_1(curve):
    for made in (curve.encode(values()), curve.decode(values())):
        assert float(made[0]) == 0
        assert float(made[-1]) == pytest.approx(1, abs=1e-6)
        assert bool((made.diff() >= 0).all())
    # From one grey level of an 8-bit file to the next there is a rise.
    assert bool((curve.decode(values(256)).diff() > 0).all())


def test_values_by_hand():
    light = torch.tensor([0.0, 0.25, 1.0])
    # A root of 0.5 is a fixed point of the smooth step; one of 0.25 becomes 0.15625.
    np.testing.assert_allclose(ToneCurve(2.0, 0.5).encode(light), [0, 0.5, 1], atol=1e-6)
    dark = torch.tensor([0.0625])
    plain, curved = (float(ToneCurve(2.0, contrast).encode(dark)) for contrast in (0.0, 0.6))
    assert plain == pytest.approx(0.25, abs=1e-6)
    assert curved == pytest.approx(0.25 + 0.6 * (0.15625 - 0.25), abs=1e-6)
    assert float(ToneCurve(2.0, 0.0).decode(torch.tensor([0.3]))) == pytest.approx(0.09, abs=1e-5)


def test_an_s_curve_is_steep_in_the_middle():
    root = torch.tensor([0.45, 0.55]) ** 2
    slopes = [float(ToneCurve(2.0, c).encode(root).diff()) / 0.1 for c in (-0.2, 0.0, 0.6)]
    assert slopes == sorted(slopes)
    assert slopes[1] == pytest.approx(1, abs=1e-4)


def test_what_lies_outside_is_cut_off():
    curve = ToneCurve(2.2, 0.3)
    outside = torch.tensor([-0.5, 1.5])
    np.testing.assert_allclose(curve.encode(outside), [0, 1], atol=1e-6)
    np.testing.assert_allclose(curve.decode(outside), [0, 1], atol=1e-6)


def test_shapes_are_kept():
    image = torch.rand(3, 5, 7)
    assert ToneCurve().decode(image).shape == ToneCurve().encode(image).shape == (3, 5, 7)


def test_drawn_curves_fill_their_ranges():
    rng, again = np.random.default_rng(0), np.random.default_rng(0)
    drawn = [ToneCurve.draw(rng) for _ in range(300)]
    assert drawn == [ToneCurve.draw(again) for _ in range(300)]
    for name, (low, high) in (("gamma", GAMMAS), ("contrast", CONTRASTS)):
        found = np.array([getattr(curve, name) for curve in drawn])
        assert low <= found.min() < low + 0.05 * (high - low)
        assert high - 0.05 * (high - low) < found.max() <= high
        assert found.mean() == pytest.approx((low + high) / 2, abs=0.1 * (high - low))
    assert (GAMMAS, CONTRASTS) == ((1.7, 2.8), (-0.2, 0.6))


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 0.9},
        {"gamma": 4.1},
        {"gamma": float("nan")},
        {"contrast": 0.95},
        {"contrast": -1.0},
        {"contrast": float("nan")},
    ],
)
def test_values_without_sense_are_refused(wrong):
    with pytest.raises(KpacError, match=f"the {next(iter(wrong))} of a tone curve"):
        ToneCurve(**wrong)
