"""The Blur map widget, napari's Save and Open, the samples, the Inverse kernels widget."""

import json

import numpy as np
import pytest
import tifffile
from qtpy.QtCore import Qt

import napari_kpac as kpac
from napari_kpac.detection import Curve
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.inverse_kernels import InverseKernelsWidget
from tests.gui.conftest import WAIT, result_of


@pytest.fixture
def half_blurred():
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(0)
    texture = rng.integers(0, 256, (64, 96)).astype(np.uint8)
    texture[:, 48:] = gaussian_filter(texture[:, 48:].astype(float), 3).astype(np.uint8)
    return texture


@pytest.fixture
def widget(viewer, docked, tiny_model, half_blurred):
    viewer.add_image(half_blurred, name="half", scale=(0.5, 0.5), units="um")
    return docked(BlurMapWidget)


def measure(widget, qtbot, kind="variance"):
    widget._kind.value = kind
    qtbot.mouseClick(widget._panel.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    settle(widget, qtbot)


def settle(widget, qtbot):
    """Wait until all that was asked for is on show."""
    asked = (widget._deciding, widget._scoring, widget._extras)
    qtbot.waitUntil(lambda: not any(each.is_running for each in asked), timeout=WAIT)


def test_map_mask_threshold_and_regions(viewer, widget, half_blurred, qtbot):
    measure(widget, qtbot)
    expected = kpac.detect(half_blurred, source="variance")
    layer = result_of(viewer, "half (blur)")
    np.testing.assert_allclose(layer.data, expected.values, atol=1e-6)
    np.testing.assert_allclose(layer.scale, (0.5, 0.5))
    mask = result_of(viewer, "half (blurred)")
    assert np.array_equal(mask.data > 0, expected.mask)
    assert mask.data[:, 56:].mean() > 0.9
    assert mask.data[:, :40].mean() < 0.1
    widget._rule.value = "otsu"
    settle(widget, qtbot)
    assert (
        widget._result.detection.threshold
        == kpac.detect(half_blurred, source="variance", threshold_rule="otsu").threshold
    )
    widget._slider.setValue(0)
    qtbot.waitUntil(lambda: bool((mask.data > 0).all()), timeout=WAIT)
    assert widget._rule.value == "fixed"
    widget._rule.value = "midrange"
    widget._smoothing.value = 2.0
    settle(widget, qtbot)
    assert not np.allclose(result_of(viewer, "half (blur)").data, expected.values)
    qtbot.mouseClick(widget._regions, Qt.MouseButton.LeftButton)
    settle(widget, qtbot)
    regions = result_of(viewer, "half (blurred regions)")
    assert len(regions.features) >= 1
    widget._mask_check.setChecked(False)
    assert "half (blurred)" not in [each.name for each in viewer.layers]


def test_network_sources_share_one_measurement(viewer, widget, half_blurred, qtbot):
    measure(widget, qtbot, "alpha1")
    expected = kpac.detect(half_blurred, "tiny", source="alpha1").values
    np.testing.assert_allclose(result_of(viewer, "half (blur)").data, expected, atol=1e-5)
    widget._kind.value = "alpha4"
    settle(widget, qtbot)
    expected = kpac.detect(half_blurred, "tiny", source="alpha4").values
    np.testing.assert_allclose(result_of(viewer, "half (blur)").data, expected, atol=1e-5)
    widget._kind.value = "ebdb"
    assert "Press Measure" in widget._message.text()
    assert not widget._model.visible


def test_scores_against_a_painted_truth(viewer, widget, half_blurred, qtbot):
    measure(widget, qtbot)
    truth = np.zeros(half_blurred.shape, np.uint8)
    truth[:, 48:] = 1
    layer = viewer.add_labels(truth, name="truth", scale=(0.5, 0.5))
    widget._truth.value = layer
    settle(widget, qtbot)
    report = kpac.detect(half_blurred, source="variance")
    accuracy = (report.mask == (truth > 0)).mean()
    assert f"accuracy {accuracy:.3f}" in widget._scores.text()
    widget._polarity.value = "sharp"
    settle(widget, qtbot)
    assert f"accuracy {1 - accuracy:.3f}" in widget._scores.text()


def test_saving_by_button_and_by_napari(viewer, widget, qtbot, tmp_path):
    measure(widget, qtbot)
    values = result_of(viewer, "half (blur)").data
    path = tmp_path / "by-button.tif"
    widget.save_map(path)
    settle(widget, qtbot)
    assert "by-button.tif" in widget._message.text()
    np.testing.assert_allclose(tifffile.imread(path), values, atol=1e-6)
    with tifffile.TiffFile(path) as file:
        assert "variance" in str(file.imagej_metadata)
    widget.save_map(tmp_path / "overlay.png", "overlay")
    settle(widget, qtbot)
    assert (tmp_path / "overlay.png").exists()
    layer = result_of(viewer, "half (blur)")
    written = layer.save(str(tmp_path / "by-napari.npy"), plugin="napari-kpac")
    assert written
    np.testing.assert_allclose(np.load(tmp_path / "by-napari.npy"), values, atol=1e-6)
    assert "variance" in (tmp_path / "by-napari.npy.json").read_text()


def test_without_an_image_it_says_so(viewer, docked, tiny_model, qtbot):
    widget = docked(BlurMapWidget)
    qtbot.mouseClick(widget._panel.button, Qt.MouseButton.LeftButton)
    assert "open an image" in widget._message.text()
    assert not widget._save.isEnabled()


def test_a_recipe_opens_as_its_layers(viewer, tmp_path, tiny_model, qtbot):
    labels = np.zeros((32, 40), np.uint8)
    labels[4:9] = 2
    modulation = kpac.Modulation(labels=labels, label_gains={2: [0] * 5})
    result = kpac.deblur(np.zeros((32, 40), np.uint8), "tiny", modulation=modulation)
    result.recipe.save(tmp_path / "look.json")
    (layer,) = viewer.open(tmp_path / "look.json", plugin="napari-kpac")
    assert np.array_equal(layer.data, labels)
    (tmp_path / "other.json").write_text(json.dumps({"a": 1}))
    from napari_kpac.widgets.files import recipe_reader

    assert recipe_reader(str(tmp_path / "other.json")) is None
    assert recipe_reader(str(tmp_path / "none.json")) is None


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("coffee", ["coffee"]),
        ("scene", ["radius in pixels", "truth", "defocused scene"]),
        ("dual_pixel", ["left view", "right view", "centre image"]),
        ("focus_sweep", ["focus sweep"]),
    ],
)
def test_samples_open_offline(viewer, key, names):
    layers = viewer.open_sample("napari-kpac", key)
    assert [layer.name for layer in layers] == names
    if key == "focus_sweep":
        assert layers[0].data.shape == (7, 384, 384)
        assert layers[0].data.dtype == np.uint16
    if key == "dual_pixel":
        assert not np.array_equal(layers[0].data, layers[1].data)


@pytest.mark.parametrize("first", ["sample", "widget"])
@pytest.mark.parametrize(
    ("key", "name"), [("scene", "defocused scene"), ("dual_pixel", "centre image")]
)
def test_widgets_begin_with_what_is_to_be_deblurred(viewer, first, key, name):
    if first == "sample":
        viewer.open_sample("napari-kpac", key)
    _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", "Deblur")
    if first == "widget":
        viewer.open_sample("napari-kpac", key)
    assert widget._image.layer.name == name
    widget.release()


def test_inverse_kernels_live(viewer, qtbot, half_blurred):
    viewer.add_image(half_blurred, name="half")
    widget = InverseKernelsWidget(viewer)
    viewer.window.add_dock_widget(widget, name="Inverse kernels", area="right")
    assert widget._message.text() == "Computing the inverses ..."
    panels = list(widget._panels.values())
    qtbot.waitUntil(lambda: panels[3].shown.size > 0, timeout=WAIT)
    assert widget._message.text().startswith("The inverse of a larger blur")
    assert panels[2].shown.shape[0] > panels[1].shown.shape[0]
    before = panels[3].shown.shape
    widget._scale.value = 4
    qtbot.waitUntil(lambda: panels[3].shown.shape != before, timeout=WAIT)
    qtbot.mouseClick(widget._button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: "dB" in widget._message.text(), timeout=WAIT)
    stack = result_of(viewer, "blurred | direct | enlarged | dilated")
    assert stack.data.shape == (64, 4 * 96)
    widget.release()


def test_starting_napari_with_the_plugin_does_not_load_torch():
    import subprocess
    import sys

    code = (
        "import sys; from npe2 import PluginManager; pm = PluginManager.instance();"
        "pm.discover(); pm.get_manifest('napari-kpac');"
        "import napari_kpac.widgets.samples, napari_kpac.widgets.files;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_rule_by_the_mean_stays_on_the_scale(viewer, widget, half_blurred, qtbot):
    mostly = half_blurred.copy()
    mostly[:, 20:] = 128
    viewer.layers["half"].data = mostly
    measure(widget, qtbot)
    widget._rule.value = "mean"
    settle(widget, qtbot)
    assert 1.5 * result_of(viewer, "half (blur)").data.mean() > 1
    assert widget._result.detection.threshold == 1
    assert widget._slider.value() == widget._slider.maximum()


@pytest.fixture
def ready(viewer, qtbot):
    """The Blur map dock as it opens: nothing in it is changed."""
    widget = BlurMapWidget(viewer)
    viewer.window.add_dock_widget(widget, name="Blur map", area="right")
    qtbot.waitUntil(lambda: len(widget._model.choices) > 0, timeout=WAIT)
    yield widget
    widget.release()


def press_measure(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=2 * WAIT)
    settle(widget, qtbot)


def test_the_defaults_separate_blurred_from_sharp(viewer, ready, qtbot):
    viewer.open_sample("napari-kpac", "scene")
    press_measure(ready, qtbot)
    values = result_of(viewer, "defocused scene (blur)").data
    radius = viewer.layers["radius in pixels"].data
    known = (radius < 0.5) | (radius > 2)
    curve = Curve.of(values[known], radius[known] > 2)
    assert curve.roc_auc() > 0.9
    assert "of the image is blurred" in ready._message.text()
    assert 0.3 < ready._result.share < 0.99


def test_the_sharp_frame_of_the_focus_sweep_scores_lowest(viewer, ready, qtbot):
    viewer.open_sample("napari-kpac", "focus_sweep")
    press_measure(ready, qtbot)
    means = result_of(viewer, "focus sweep (blur)").data.mean(axis=(1, 2))
    assert int(np.argmin(means)) == 3
    assert means[3] < 0.5 * np.delete(means, 3).min()


def test_a_map_without_contrast_says_so(viewer, ready, qtbot):
    from skimage import data

    viewer.add_image(data.gravel()[:160, :160], name="gravel")
    press_measure(ready, qtbot)
    assert "no contrast" in ready._message.text()
    assert "equally sharp" in ready._message.text()
    assert ready._result.share == 0
    soft = kpac.defocus(data.coffee()[:160, :160], 8).image
    ready._image.value = viewer.add_image(soft, name="soft")
    press_measure(ready, qtbot)
    assert "equally blurred" in ready._message.text()
    assert ready._result.share == 1


def test_every_source_has_a_line_on_what_it_is_good_for(ready):
    for source in ("alpha1", "mixture", "variance", "ebdb", "jnb"):
        ready._kind.value = source
        assert len(ready._about.text()) > 20
        assert ready._enlarge.visible == (source in ("alpha1", "mixture"))
