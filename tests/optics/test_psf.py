"""Point spread functions: sum, centre, radius, halves, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_kpac import KpacError
from napari_kpac.optics import Aperture, find_aperture, halves, psf, random_aperture
from napari_kpac.optics.aperture import KINDS

apertures = st.builds(
    Aperture,
    kind=st.sampled_from(KINDS),
    blades=st.integers(3, 9),
    rotation=st.floats(-360, 360),
    curvature=st.floats(0, 1),
    rim=st.floats(-0.9, 2),
    cats_eye=st.sampled_from([0.0, 0.4, 1.0]),
)
fields = st.tuples(st.floats(-1, 1), st.floats(-1, 1))


def moments(kernel):
    place = np.arange(kernel.shape[0]) - kernel.shape[0] // 2
    down, across = kernel.sum(axis=1), kernel.sum(axis=0)
    centre = place @ down, place @ across
    return centre, (place**2 @ down + place**2 @ across) / 2


@given(apertures, st.floats(0, 14), fields)
def test_every_psf_sums_to_one_is_centred_and_positive(aperture, radius, field):
    kernel = psf(aperture, radius, field=field)
    assert kernel.shape[0] == kernel.shape[1]
    assert kernel.shape[0] % 2 == 1
    assert kernel.sum() == pytest.approx(1, abs=1e-9)
    assert kernel.min() >= 0
    centre, _ = moments(kernel)
    assert np.abs(centre).max() < 1e-3


@given(apertures, st.floats(0, 14), st.floats(0, 1))
def test_halves_sum_to_one_and_average_to_the_whole(aperture, radius, softness):
    kernel = psf(aperture, radius)
    left, right = halves(kernel, softness=softness)
    assert left.sum() == pytest.approx(1, abs=1e-6)
    assert right.sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose((left + right) / 2, kernel, atol=1e-12)
    (_, to_left), (_, to_right) = moments(left)[0], moments(right)[0]
    assert to_left <= 1e-6
    assert to_right >= -1e-6


@pytest.mark.parametrize("radius", [1.0, 1.5, 2.0, 2.37, 5.25, 12.5, 40.0])
def test_the_radius_is_that_of_the_circle_of_confusion(radius):
    # A pixel that is wholly within a disc holds one over the disc's area.
    area = 1 / psf(Aperture("disc"), radius).max()
    assert np.sqrt(area / np.pi) == pytest.approx(radius, rel=0.003)
    # A disc has the second moment r^2 / 4 per axis, and so has the Gaussian; pixels add 1 / 12.
    _, moment = moments(psf(Aperture("gaussian"), radius))
    assert 2 * np.sqrt(moment - 1 / 12) == pytest.approx(radius, rel=0.02)


def test_a_disc_grows_with_fractions_of_a_pixel():
    widths = [moments(psf(Aperture(), radius))[1] for radius in np.arange(0.5, 6, 0.1)]
    assert (np.diff(widths) > 0).all()


def test_a_polygon_has_its_corners_on_the_circle_and_a_round_one_is_a_disc():
    radius = 20.0
    for blades in (5, 6, 7, 8):
        kernel = np.pad(psf(Aperture("polygon", blades=blades), radius), 2)
        half = kernel.shape[0] // 2
        right = kernel[half, half:]
        assert np.flatnonzero(right > 0).max() == pytest.approx(radius, abs=1)
        area = 1 / kernel.max()
        expected = blades / 2 * radius**2 * np.sin(2 * np.pi / blades)
        assert area == pytest.approx(expected, rel=0.01)
    np.testing.assert_allclose(
        psf(Aperture("polygon", curvature=1.0), 7.3), psf(Aperture("disc"), 7.3), atol=1e-12
    )


def test_rotation_turns_a_polygon_counter_clockwise():
    upright = psf(Aperture("polygon", blades=3, rotation=90), 10.0)
    rows = np.flatnonzero(upright.sum(axis=1) > 1e-4)
    widths = (upright > 1e-4).sum(axis=1)
    assert widths[rows[0]] < widths[rows[-1]]


def test_rims_are_bright_or_dark():
    for rim, brighter in ((1.5, True), (-0.8, False)):
        kernel = psf(Aperture("rimmed", rim=rim), 15.0)
        middle = kernel[15]
        assert (middle[28] > middle[15]) == brighter


def test_the_cats_eye_clips_the_corners_only():
    aperture = Aperture(cats_eye=1.0)
    np.testing.assert_array_equal(psf(aperture, 9.0), psf(Aperture(cats_eye=0.5), 9.0))
    middle, corner = psf(aperture, 9.0), psf(aperture, 9.0, field=(1, 1))
    assert corner.max() > 1.5 * middle.max()
    np.testing.assert_allclose(corner, corner.T, atol=1e-4)


def test_random_apertures_come_from_the_seed_and_cover_all_kinds():
    drawn = [random_aperture(seed) for seed in range(60)]
    assert drawn == [random_aperture(seed) for seed in range(60)]
    assert {aperture.kind for aperture in drawn} == {"disc", "polygon", "gaussian", "rimmed"}
    assert {a.blades for a in drawn if a.kind == "polygon"} <= {5, 6, 7, 8}
    assert len({a.rim > 0 for a in drawn if a.kind == "rimmed"}) == 2
    assert find_aperture("random", 3) == random_aperture(3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: psf(radius=-1),
        lambda: psf(radius=float("nan")),
        lambda: psf(radius=1e6),
        lambda: psf(field=(2, 0)),
        lambda: Aperture("square"),
        lambda: Aperture("polygon", blades=2),
        lambda: Aperture(curvature=2),
        lambda: Aperture(rotation=float("inf")),
        lambda: Aperture(order=0),
        lambda: find_aperture("square"),
        lambda: halves(np.ones((3, 3))),
        lambda: halves(np.ones((2, 2)) / 4),
        lambda: halves(np.ones(3) / 3),
        lambda: halves(psf(radius=2), softness=3),
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(KpacError):
        wrong()
