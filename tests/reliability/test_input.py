"""Every image gives an image of the same shape and type, or an error that says why not."""

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import napari_kpac as kpac
from napari_kpac.images import Metadata, open_image, write_image
from tests.engine.conftest import tiny_net
from tests.reliability.awkward import awkward

NET = tiny_net(2, double=False)
QUICK = settings(deadline=None, derandomize=True)
LONG = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


def attempt(call):
    """Return the result of a call, and its message where it refuses."""
    try:
        result = call()
    except kpac.KpacError as error:
        event("refused")
        return None, str(error) or "nothing"
    event("a result")
    return result, ""


def check_deblur(case):
    result, refusal = attempt(lambda: kpac.deblur(case.image, NET, "cpu", **case.options))
    if refusal:
        assert len(refusal) > 10
        # What has numbers in two axes or more is refused for its options alone, or its mask.
        plain = case.plain
        usable = plain.dtype.kind in "uif" and plain.ndim >= 2 and plain.size
        words = ("rgb", "mask", "channel", "image itself", "not an image", "cannot be deblurred",
                 "no finite value")  # fmt: skip
        assert not usable or any(word in refusal for word in words), refusal
        return
    plain = case.plain if not case.about.startswith("list") else np.asarray(case.image)
    made = np.asarray(result.image)  # an xarray stays one
    assert made.shape == plain.shape
    assert made.dtype == plain.dtype
    there = np.isfinite(plain)
    assert np.isfinite(made[there]).all()
    # What is missing stays missing, where it was.
    np.testing.assert_array_equal(np.isnan(made), np.isnan(plain))
    np.testing.assert_array_equal(np.isinf(made), np.isinf(plain))
    assert np.isfinite(result.alpha).all()


def check_map(case):
    options = {key: case.options[key] for key in ("range", "rgb")}
    found, refusal = attempt(lambda: kpac.blur_map(case.image, NET, "cpu", upsampling=1, **options))
    if refusal:
        assert len(refusal) > 10
        return
    assert np.isfinite(found).all()
    assert found.min() >= 0
    assert found.max() <= 1


def check_ebdb(case):
    check_classical(case, "ebdb")


def check_jnb(case):
    check_classical(case, "jnb")


def check_classical(case, method):
    options = {**case.options, "tile": "auto"}
    result, refusal = attempt(lambda: kpac.deblur(case.image, method=method, **options))
    if refusal:
        assert len(refusal) > 10
        return
    plain = case.plain if not case.about.startswith("list") else np.asarray(case.image)
    assert result.image.shape == plain.shape
    assert result.image.dtype == plain.dtype
    assert np.isfinite(np.asarray(result.image)[np.isfinite(plain)]).all()


CHECKS = (check_deblur, check_map, check_ebdb, check_jnb)
quiet = pytest.mark.filterwarnings("ignore")


@quiet
@settings(QUICK, max_examples=60)
@given(awkward(), st.sampled_from(CHECKS))
def test_awkward_images(case, check):
    check(case)


@quiet
@pytest.mark.long
@settings(LONG, max_examples=3000)
@given(awkward(), st.sampled_from((check_deblur, *CHECKS)))
def test_thousands_of_awkward_images(case, check):
    check(case)


@pytest.mark.parametrize("kind", [np.nan, np.inf, -np.inf])
def test_pixels_that_are_missing_do_not_spread(kind):
    rng = np.random.default_rng(0)
    image = rng.random((48, 64, 3)).astype(np.float32)
    clean = kpac.deblur(image, NET, "cpu", range="unit").image
    broken = image.copy()
    broken[10, 12] = kind
    result = kpac.deblur(broken, NET, "cpu", range="unit").image
    bad = ~np.isfinite(result)
    assert np.argwhere(bad.any(axis=-1)).tolist() == [[10, 12]]
    others = np.ones(image.shape[:2], bool)
    others[10, 12] = False
    # One pixel in three thousand changes the rest as little as a neighbour's value would.
    assert np.abs(result - clean)[others].mean() < 0.01


def test_a_hot_pixel_does_not_drown_the_image():
    rng = np.random.default_rng(0)
    image = rng.random((48, 64)).astype(np.float32)
    image[10, 12] = np.finfo(np.float32).max
    result = kpac.deblur(image, NET, "cpu", range="unit").image
    assert np.isfinite(result).all()
    assert result[10, 12] > 1e38


SIZES = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 0.5, 1e-300, 1e300, float("nan"), float("inf")]),
    st.floats(width=32),
)
AXES = st.sampled_from(["YX", "ZYX", "TYX", "CYX", "QYX", "XY", "YY", "", "YXS", "TZYX"])


@pytest.mark.parametrize("suffix", [".tif", ".png", ".zarr"])
def test_awkward_axes_and_scales_do_not_cost_the_image(tmp_path, suffix):
    folder = tmp_path / "out"

    @settings(QUICK, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
    @given(AXES, SIZES, SIZES, st.sampled_from(["um", "pixel", "", "\0", "parsec", "µm"]))
    def check(axes, y, x, unit):
        shape = (20, 12) if suffix == ".png" else (2, 10, 12)
        image = np.arange(240, dtype=np.uint8).reshape(shape)
        about = Metadata(
            axes=axes,
            scale={"Y": y, "X": x},
            units={"Y": unit, "X": unit},
            resolution=(x, y),
        )
        path = folder / f"a{suffix}"
        save(path, image, about)
        with open_image(path, whole=True) as again:
            assert np.array_equal(again.array, image)

    check()


def save(path, image, about):
    if path.suffix != ".zarr":
        write_image(path, image, "{}", about)
        return
    from napari_kpac.images import start_image

    target = start_image(path, image.shape, image.dtype, about, streamed=True)
    target.out[...] = image
    target.finish("{}")
