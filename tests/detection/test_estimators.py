"""Sources of blur, and detection as an action."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError, ImageError, KpacError
from napari_kpac.core.estimators import ESTIMATOR_NAMES, ESTIMATORS
from napari_kpac.core.options import SOURCES, DetectionOptions
from napari_kpac.core.progress import finish
from napari_kpac.detection import Curve, decide, detect_steps, estimators, measure_steps
from napari_kpac.detection.estimators import (
    MAX_VARIANCE,
    MIN_VARIANCE,
    family,
    local_variance_blur,
)
from tests.engine.conftest import tiny_net

NET = tiny_net(3, double=False)
PLAIN = {"device": "cpu", "upsampling": 1}


@pytest.fixture
def image(rng):
    return rng.random((40, 56)).astype(np.float32)


def detected(image, **options):
    chosen = DetectionOptions(**{**PLAIN, **options})
    return finish(detect_steps(image, chosen, model=NET))


def test_alpha1_is_the_blur_map(image):
    expected = kpac.blur_map(image, NET, **PLAIN)
    found = detected(image)
    assert np.array_equal(found.values, expected)
    assert found.values.dtype == np.float32
    assert found.upsampling == 1
    assert found.threshold == pytest.approx(0.3 * expected.max() + 0.7 * expected.min())
    assert np.array_equal(found.mask, expected >= np.float32(found.threshold))
    assert found.histogram.counts.sum() == image.size
    assert found.model_name == "unsaved"
    assert len(found.model_sha256) == 64
    assert detected(image, upsampling=2).upsampling == 2


def test_other_alphas_and_their_mixture(image):
    alphas = np.stack([detected(image, source=f"alpha{n}").values for n in (1, 2, 3)])
    assert not np.allclose(alphas[0], alphas[1])
    mixture = detected(image, source="mixture")
    np.testing.assert_allclose(mixture.values, alphas.mean(axis=0), atol=1e-6)
    weighted = detected(image, source="mixture", weights=(1, 0, 3))
    np.testing.assert_allclose(weighted.values, (alphas[0] + 3 * alphas[2]) / 4, atol=1e-6)
    for options in ({"source": "alpha4"}, {"source": "mixture", "weights": (1, 2)}):
        with pytest.raises(ConfigError, match="3 dilations"):
            detected(image, **options)


def test_the_trained_network_tells_blur_from_texture(half_blurred):
    image, blurred = half_blurred
    found = kpac.detect(image, upsampling=1)
    assert found.values.shape == image.shape
    assert found.model_name == "kpac-3level"
    assert Curve.of(found.values, blurred).roc_auc() > 0.8


def test_local_variance_tells_blur_from_texture(half_blurred):
    image, blurred = half_blurred
    found = kpac.detect(image, source="variance")
    assert Curve.of(found.values, blurred).roc_auc() > 0.95
    otsu = found.with_threshold("otsu")
    assert (otsu.mask == blurred).mean() > 0.9
    assert (found.model_name, found.upsampling) == ("", 1)


def test_local_variance_by_its_formula(rng):
    image = rng.random((21, 17, 3)).astype(np.float32)
    blur = local_variance_blur(image, 5)
    window = image[8:13, 6:11].astype(float)
    variance = window.var(axis=(0, 1)).mean()
    expected = 1 - np.log1p(variance / MIN_VARIANCE) / np.log1p(MAX_VARIANCE / MIN_VARIANCE)
    assert blur[10, 8] == pytest.approx(expected, abs=1e-6)
    assert blur.dtype == np.float32
    checks = np.indices((16, 16)).sum(axis=0)[..., None] % 2
    assert local_variance_blur(checks.astype(np.float32), 15).min() < 0.001
    constant = np.full((9, 9, 1), 0.3, np.float32)
    assert (local_variance_blur(constant, 3) == 1).all()


def test_local_variance_does_not_depend_on_what_is_elsewhere(image):
    whole = detected(image, source="variance", range="unit").values
    part = detected(image[:, :30], source="variance", range="unit").values
    np.testing.assert_allclose(part[:, :22], whole[:, :22], atol=1e-6)


@pytest.mark.parametrize("source", ["alpha2", "mixture", "variance"])
def test_stacks_slice_by_slice_with_one_threshold(image, source):
    stack = np.stack([[image, image[::-1], image / 2]])
    options = {"source": source, "smoothing": 1.5, "range": "unit"}
    found = detected(stack, **options)
    assert found.values.shape == found.mask.shape == stack.shape
    single = detected(image[::-1], **options)
    np.testing.assert_allclose(found.values[0, 1], single.values, atol=1e-6)
    low, high = found.values.min(), found.values.max()
    assert found.threshold == pytest.approx(0.3 * high + 0.7 * low, rel=1e-5)


def test_kinds_of_images(image):
    colour = np.stack([image] * 3, axis=-1)
    grey = detected(image, source="variance").values
    for same in (
        colour,
        (colour * 255).astype(np.uint8),
        np.concatenate([colour, np.ones((*image.shape, 1), np.float32)], axis=-1),
    ):
        np.testing.assert_allclose(detected(same, source="variance").values, grey, atol=0.02)
    channels = np.stack([image, image, image, image])
    fused = detected(channels, source="variance", channel_axis=0, rgb_channels=(0, 1, 2))
    assert fused.values.shape == (2, *image.shape)
    with_gap = image.copy()
    with_gap[3, 4] = np.nan
    assert np.isfinite(detected(with_gap, source="variance").values).all()


def test_dual_pixel_views(image):
    left, right = image, np.roll(image, 1, axis=1)
    options = DetectionOptions(**PLAIN, source="variance")
    found = finish(detect_steps(None, options, views=(left, right)))
    pair = [detected(view, source="variance").values for view in (left, right)]
    np.testing.assert_allclose(found.values, np.mean(pair, axis=0), atol=1e-6)
    dual = tiny_net(3, double=False, views=2)
    both = finish(detect_steps(None, DetectionOptions(**PLAIN), views=(left, right), model=dual))
    assert both.values.shape == image.shape
    with pytest.raises(ImageError, match="same shape"):
        finish(detect_steps(None, options, views=(left, right[1:])))
    with pytest.raises(ImageError, match="no image"):
        finish(detect_steps(None, options))


def test_what_was_measured_serves_every_later_choice(image, monkeypatch):
    first = DetectionOptions(**PLAIN)
    measured = finish(measure_steps(image, first, model=NET))
    monkeypatch.setattr(estimators, "_measure_alphas", None)
    for changes in (
        {"source": "alpha3", "smoothing": 2.0},
        {"source": "mixture", "weights": (0, 1, 1)},
        {"threshold_rule": "fixed", "threshold": 0.2},
    ):
        options = replace(first, **changes)
        assert measured.serves(options)
        found = decide(measured, options)
        assert found.options == options
    for changes in ({"source": "variance"}, {"upsampling": 2}, {"range": "unit"}, {"model": "a"}):
        assert not measured.serves(replace(first, **changes))


def test_another_threshold_keeps_the_map(image):
    found = detected(image, source="variance")
    moved = found.with_threshold("fixed", 0.25)
    assert moved.values is found.values
    assert moved.histogram is found.histogram
    assert moved.threshold == moved.options.threshold == 0.25
    assert np.array_equal(moved.mask, found.values >= np.float32(0.25))
    assert moved.with_threshold("midrange").threshold == found.threshold


def test_smoothing_keeps_the_range_and_the_mean(image):
    rough, smooth = detected(image), detected(image, smoothing=3)
    assert smooth.values.std() < rough.values.std()
    assert rough.values.min() <= smooth.values.min() <= smooth.values.max() <= rough.values.max()
    assert smooth.values.mean() == pytest.approx(rough.values.mean(), abs=1e-3)


def test_progress_and_cancelling(image):
    stack = np.stack([image] * 3)
    options = DetectionOptions(**PLAIN, source="variance")
    events = list(detect_steps(stack, options))
    assert [(event.done, event.total) for event in events] == [(1, 3), (2, 3), (3, 3)]
    work = detect_steps(stack, options)
    next(work)
    work.close()
    assert list(work) == []


def test_a_constant_image_is_all_blurred():
    found = detected(np.full((20, 20), 0.4, np.float32), source="variance")
    assert (found.values == 1).all()
    assert found.mask.all()


def test_every_source_that_can_be_named_can_be_measured():
    families = {family(source) for source in (*SOURCES, "alpha", "alpha1", "alpha12")}
    assert families == {"alpha", "variance", *ESTIMATOR_NAMES}
    image = np.random.default_rng(0).integers(0, 256, (24, 30, 3)).astype(np.uint8)
    for source in families - {each.name for each in ESTIMATORS if each.needs_model}:
        found = kpac.detect(image, NET, "cpu", source=source, upsampling=1)
        assert found.values.shape == (24, 30)


@pytest.mark.parametrize(
    "options",
    [
        {"source": "alpha0"},
        {"source": "beta"},
        {"source": 3},
        {"weights": (1, 1)},
        {"source": "mixture", "weights": (0, 0)},
        {"source": "mixture", "weights": (1, -1)},
        {"source": "mixture", "weights": ()},
        {"window": 4},
        {"window": 1},
        {"smoothing": -1},
        {"smoothing": float("nan")},
        {"threshold_rule": "best"},
        {"threshold_rule": "fixed"},
        {"threshold": 0.5},
        {"threshold_rule": "fixed", "threshold": "half"},
        {"upsampling": 3},
    ],
)
def test_options_that_make_no_sense(options):
    with pytest.raises(KpacError):
        DetectionOptions(**options)


def test_options_go_through_plain_values():
    options = DetectionOptions(
        source="mixture", weights=[1, 2], threshold_rule="fixed", threshold=0.3, smoothing=2
    )
    assert DetectionOptions.from_dict(options.to_dict()) == options


def test_options_load_nothing_heavy():
    code = (
        "import sys; import napari_kpac; napari_kpac.DetectionOptions(); "
        "print([m for m in ('torch', 'skimage', 'scipy', 'napari') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("image", [np.zeros(5), np.zeros((4, 0)), np.zeros((4, 4), complex), None])
@pytest.mark.parametrize("source", ["alpha1", "variance"])
def test_what_is_no_image(image, source):
    with pytest.raises(ImageError):
        detected(image, source=source)


def test_a_model_by_its_alias_or_its_name_is_measured_once(image):
    measured = finish(measure_steps(image, DetectionOptions()))
    assert measured.model_name == "kpac-3level"
    assert measured.serves(DetectionOptions(model="kpac-3level"))
    assert not measured.serves(DetectionOptions(model="kpac-2level"))
