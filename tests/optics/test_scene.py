"""Radius maps from a seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac import KpacError
from napari_kpac.optics import radius_map
from napari_kpac.optics.scene import KINDS, cut


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 60)),
    st.integers(0, 2**40),
    st.floats(0, 30),
    st.sampled_from([None, *KINDS]),
    st.booleans(),
)
def test_maps_are_finite_bounded_and_repeat(shape, seed, largest, kind, near):
    made = radius_map(shape, seed, largest=largest, kind=kind, near=near)
    assert made.shape == shape
    assert made.dtype == np.float32
    assert np.isfinite(made).all()
    assert made.max() <= largest + 1e-5
    assert made.min() >= (-largest - 1e-5 if near else 0)
    np.testing.assert_array_equal(
        made, radius_map(shape, seed, largest=largest, kind=kind, near=near)
    )


def test_kinds_look_as_they_are_called():
    for seed in range(8):
        plane, tilted, smooth = (
            radius_map((90, 120), seed, kind=k) for k in ("plane", "tilted", "smooth")
        )
        assert plane.min() == plane.max()
        for axis in (0, 1):
            np.testing.assert_allclose(np.diff(tilted, n=2, axis=axis), 0, atol=1e-5)
        assert np.abs(np.diff(smooth, axis=0)).max() < 1
        assert not cut(smooth, 10).occlude
    objects = [radius_map((90, 120), seed, kind="objects") for seed in range(8)]
    assert all(np.abs(np.diff(scene, axis=1)).max() > 0.3 for scene in objects)


def test_all_kinds_are_drawn():
    spread = {radius_map((40, 40), seed).tobytes() for seed in range(40)}
    assert len(spread) == 40


@pytest.mark.parametrize(
    "wrong", [{"kind": "cave"}, {"largest": -1.0}, {"largest": float("nan")}, {"shape": (0, 3)}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(KpacError):
        radius_map(**{"shape": (8, 8), "seed": 0, **wrong})
