"""Lenses as photography has them: soft edges, their support, and lenses drawn at random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac import KpacError
from napari_kpac.optics import Aperture, psf, random_lens
from napari_kpac.optics.aperture import LENS_SHARES
from tests.optics.test_psf import moments

LENSES = 600
soft = st.floats(0, 1)


def drawn(count=LENSES, seed=0):
    rng = np.random.default_rng(seed)
    return [random_lens(rng) for _ in range(count)]


def padded(kernel, size):
    edge = (size - kernel.shape[0]) // 2
    return np.pad(kernel, edge)


@given(
    st.sampled_from(["disc", "polygon", "rimmed"]),
    st.floats(0.3, 14),
    soft,
    st.sampled_from([0.0, 0.5]),
)
def test_soft_kernels_sum_to_one_and_are_centred(kind, radius, softness, cats_eye):
    aperture = Aperture(kind, blades=5, rotation=17, softness=softness, cats_eye=cats_eye)
    kernel = psf(aperture, radius, field=(1, -0.5))
    assert kernel.sum() == pytest.approx(1, abs=1e-9)
    assert kernel.min() >= 0
    assert np.abs(moments(kernel)[0]).max() < 1e-3


@pytest.mark.parametrize("radius", [1.3, 3.0, 7.45, 20.0])
@pytest.mark.parametrize("softness", [0.1, 0.3, 1.0])
def test_a_soft_disc_is_a_mixture_of_hard_ones(radius, softness):
    """A linear edge of width w is what discs with radii from 1 - w / 2 to 1 + w / 2 add up to."""
    radii = radius * (1 + softness * ((np.arange(200) + 0.5) / 200 - 0.5))
    size = 2 * int(np.ceil(2 * radius)) + 3
    mixed = sum(r**2 * padded(psf(Aperture(), r), size) for r in radii)
    mixed /= mixed.sum()
    made = padded(psf(Aperture(softness=softness), radius), size)
    assert np.abs(made - mixed).sum() < 0.01


@pytest.mark.parametrize("softness", [0.0, 0.15, 0.3, 0.7, 1.0])
def test_the_second_moment_of_a_soft_disc(softness):
    """Of the mixture above, by hand; pixels add 1 / 12."""
    radius, w = 12.0, softness
    second, fourth = 1 + w**2 / 12, 1 + w**2 / 2 + w**4 / 80
    expected = radius**2 / 4 * fourth / second
    _, moment = moments(psf(Aperture(softness=softness), radius))
    assert moment - 1 / 12 == pytest.approx(expected, rel=0.003)


@pytest.mark.parametrize("kind", ["disc", "polygon", "rimmed"])
def test_softer_is_wider(kind):
    widths = [moments(psf(Aperture(kind, softness=s), 9.0))[1] for s in np.linspace(0, 1, 9)]
    assert (np.diff(widths) > 0).all()


@pytest.mark.parametrize("radius", [0.4, 1.0, 2.37, 5.5, 13.0])
@pytest.mark.parametrize("blades", [None, 4, 6, 8])
def test_softness_zero_is_the_hard_edge_to_the_last_bit(radius, blades):
    """Drawn here in full: several samples to a pixel, the edge as wide as one of them."""
    kernel = psf(Aperture("polygon", blades=blades) if blades else Aperture(), radius)
    size, samples = kernel.shape[0], int(np.clip(np.ceil(40 / radius), 3, 9)) | 1
    line = (np.arange(size * samples) + 0.5) / samples - 0.5 - size // 2
    y, x = line[:, None], line
    edge = 1.0
    if blades:
        sector = 2 * np.pi / blades
        edge = np.cos(sector / 2) / np.cos(np.mod(np.arctan2(-y, x), sector) - sector / 2)
        edge = edge + 0.0 * (1 - edge)
    light = np.clip((edge - np.hypot(y, x) / radius) * (radius * samples) + 0.5, 0, 1)
    expected = light.reshape(size, samples, size, samples).mean(axis=(1, 3))
    np.testing.assert_array_equal(kernel, expected / expected.sum())


def reach(aperture, radius, field):
    """Return how far light gets from its centre of gravity along an axis, on a very large grid."""
    line = np.linspace(-2, 2, 801)
    y, x = line[:, None], line
    edge = 1.0
    if aperture.kind == "polygon":
        sector = 2 * np.pi / aperture.blades
        angle = np.arctan2(-y, x) - np.deg2rad(aperture.rotation)
        edge = np.cos(sector / 2) / np.cos(np.mod(angle, sector) - sector / 2)
    light = np.clip((edge - np.hypot(y, x)) / aperture.softness + 0.5, 0, 1)
    shift = aperture.cats_eye / np.sqrt(2)
    light = light * (np.hypot(y + shift * field[0], x + shift * field[1]) <= 1)
    rows, columns = light.sum(axis=1), light.sum(axis=0)
    found = []
    for sums in (rows, columns):
        centre = line @ sums / sums.sum()
        found.append(np.abs(line[sums > 0] - centre).max())
    return radius * max(found)


@given(
    st.sampled_from(["disc", "polygon"]),
    st.integers(3, 8),
    st.floats(0, 360),
    st.floats(2, 20),
    st.floats(0.05, 1),
    st.sampled_from([0.0, 0.3, 0.7, 1.0]),
)
def test_no_light_of_a_soft_edge_is_cut_off(kind, blades, rotation, radius, softness, cats_eye):
    aperture = Aperture(
        kind, blades=blades, rotation=rotation, softness=softness, cats_eye=cats_eye
    )
    field = (1.0, 1.0)
    kernel = psf(aperture, radius, field=field)
    # The outermost pixels end half a pixel beyond their middles; the grid above has steps, too.
    assert kernel.shape[0] / 2 >= reach(aperture, radius, field) - 0.01 * radius


def test_the_kernel_ends_where_the_light_does():
    """As large as needed, not larger: every further pixel costs time."""
    kernel = psf(Aperture(softness=0.3), 20.0)
    assert kernel.shape[0] // 2 == 23
    assert kernel[0].sum() > 0


def test_lenses_come_from_the_generator():
    assert drawn(40) == drawn(40)
    assert drawn(40) != drawn(40, seed=1)


def test_the_shares_of_lenses():
    kinds = [lens.kind for lens in drawn()]
    assert sum(LENS_SHARES.values()) == pytest.approx(1)
    expected = {"disc": 0.41, "polygon": 0.41, "rimmed": 0.13, "gaussian": 0.05}
    assert expected == LENS_SHARES
    assert set(kinds) == set(expected)
    for kind, share in expected.items():
        deviation = np.sqrt(share * (1 - share) / LENSES)
        assert kinds.count(kind) / LENSES == pytest.approx(share, abs=4 * deviation)


def test_what_lenses_are_like():
    lenses = drawn()
    clipped = [lens.cats_eye for lens in lenses if lens.cats_eye]
    assert len(clipped) / LENSES == pytest.approx(1 / 6, abs=0.06)
    assert 0.1 <= min(clipped) < 0.2
    assert 0.6 < max(clipped) <= 0.7
    hard = [lens for lens in lenses if lens.kind == "gaussian"]
    assert all(lens == Aperture("gaussian") for lens in hard)
    edges = np.array([lens.softness for lens in lenses if lens.kind != "gaussian"])
    assert edges.min() >= 0
    assert edges.max() <= 0.3
    assert edges.mean() == pytest.approx(0.15, abs=0.02)
    assert {lens.blades for lens in lenses if lens.kind == "polygon"} == {5, 6, 7, 8}
    assert {lens.rim > 0 for lens in lenses if lens.kind == "rimmed"} == {True, False}


@pytest.mark.parametrize("name", ["softness", "cats_eye"])
@pytest.mark.parametrize("value", [-0.01, 1.01, float("nan"), float("inf")])
def test_values_out_of_bounds_are_refused(name, value):
    with pytest.raises(KpacError, match=rf"{name}={value}: must lie in 0\.\.1"):
        Aperture(**{name: value})
