"""Models in the window: the default, those that take two views; preferences; the palette."""

import napari
import numpy as np
import pytest
from napari.settings import get_plugin_settings
from packaging.version import Version
from qtpy.QtCore import Qt

from napari_kpac.weights import ModelCard, install, save_network
from napari_kpac.widgets import preferences
from napari_kpac.widgets.deblur import DeblurWidget
from tests import dmenet_reference
from tests.engine.conftest import tiny_net
from tests.gui.conftest import WAIT, kpac, result_of

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def pair_model(own_models, tiny_model):
    """Two models whose names mislead: one takes two views, the other has ``dual`` in its name."""
    net = tiny_net(3, double=False, views=2)
    save_network(net, own_models / "pair.safetensors", ModelCard(name="pair"))
    single = tiny_net(3, double=False)
    save_network(single, own_models / "residual-x.safetensors", ModelCard(name="residual-x"))


def run(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def test_a_model_is_asked_whether_it_takes_views(viewer, docked, pair_model, image, qtbot):
    widget = docked(DeblurWidget)
    viewer.add_image(image, name="cup")
    widget._model.value = "residual-x"
    assert not widget._left.visible
    run(widget, qtbot)
    assert np.array_equal(
        result_of(viewer, "cup (deblurred)").data, kpac.deblur(image, "residual-x").image
    )
    widget._model.value = "pair"
    assert widget._left.visible
    run(widget, qtbot)
    assert "choose the layers of the left and the right view" in widget._message.text()
    assert "--" not in widget._message.text()


@pytest.mark.parametrize("first", ["sample", "widget"])
def test_the_dual_pixel_sample_chooses_its_views(viewer, docked, pair_model, qtbot, first):
    if first == "sample":
        viewer.open_sample("napari-kpac", "dual_pixel")
    widget = docked(DeblurWidget)
    if first == "widget":
        viewer.open_sample("napari-kpac", "dual_pixel")
    widget._model.value = "pair"
    left, right = viewer.layers["left view"], viewer.layers["right view"]
    assert (widget._left.layer, widget._right.layer) == (left, right)
    # The dock is hidden meanwhile: what was chosen counts, not what can be seen.
    widget.hide()
    run(widget, qtbot)
    centre = viewer.layers["centre image"].data
    wanted = kpac.deblur(centre, "pair", views=(left.data, right.data)).image
    assert np.array_equal(result_of(viewer, "centre image (deblurred)").data, wanted)


def test_the_preferred_model_is_the_one_that_is_chosen(viewer, pair_model, qtbot, image):
    settings = get_plugin_settings("napari-kpac").computing
    settings.model = "residual-x"
    try:
        assert preferences.model("default") == "residual-x"
        viewer.add_image(image, name="cup")
        for name in ("Deblur", "Attention mixer", "Blur map"):
            dock, widget = viewer.window.add_plugin_dock_widget("napari-kpac", name)
            qtbot.waitUntil(lambda box=widget._model: "tiny" in box.choices, timeout=WAIT)
            assert widget._model.value == "residual-x"
            viewer.window.remove_dock_widget(dock)
    finally:
        settings.model = "default"


def by_palette(viewer, text, command):
    """Type into the command palette and run the command, which must be among what it finds."""
    viewer.window._toggle_command_palette()
    palette = viewer.window._qt_window._command_palette
    palette._line.setText(text)
    found = [each.id for each in palette._list.iter_command()]
    try:
        palette._list.execute(found.index(command))
    finally:
        palette.hide()


in_palette = pytest.mark.skipif(
    Version(napari.__version__) >= Version("0.10.0rc0"),
    reason="this napari keeps readers and writers out of the palette",
)


@in_palette
def test_a_recipe_opens_from_the_palette(viewer, tiny_model, tmp_path, monkeypatch):
    labels = np.ones((32, 40), np.uint8)
    modulation = kpac.Modulation(labels=labels, label_gains={1: [0] * 5})
    result = kpac.deblur(np.zeros((32, 40), np.uint8), "tiny", modulation=modulation)
    result.recipe.save(tmp_path / "look.json")
    monkeypatch.setattr(
        "napari_kpac.widgets.files.QFileDialog.getOpenFileName",
        lambda *_: (str(tmp_path / "look.json"), ""),
    )
    by_palette(viewer, "Open a KPAC recipe", "napari-kpac.read_recipe")
    assert [layer.name for layer in viewer.layers] == ["labels of the recipe"]


@in_palette
def test_a_map_is_saved_from_the_palette(viewer, tmp_path, monkeypatch):
    viewer.add_image(np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8), name="map")
    monkeypatch.setattr(
        "napari_kpac.widgets.files.QFileDialog.getSaveFileName",
        lambda *_: (str(tmp_path / "map.npy"), ""),
    )
    by_palette(viewer, "Save a blur map", "napari-kpac.write_map")
    assert np.load(tmp_path / "map.npy").shape == (6, 8)


def test_installing_a_model_twice_speaks_of_no_flags(own_models, tiny_model):
    from napari_kpac.core.errors import WeightsError
    from napari_kpac.weights import install

    with pytest.raises(WeightsError, match="overwrite it") as raised:
        install(own_models / "tiny.safetensors")
    assert "--" not in str(raised.value)


def test_estimators_of_defocus_are_offered_where_they_can_be_used(
    docked, tiny_model, qtbot, tmp_path
):
    dmenet_reference.write_named(tmp_path / "file.npz", dmenet_reference.random_layers())
    widget = docked(DeblurWidget)
    install(tmp_path / "file.npz", "defocus")
    box = widget._model
    qtbot.waitUntil(lambda: "tiny" in box.choices, timeout=WAIT)
    assert "defocus" not in box.choices
    widget._method.value = "dmenet"
    qtbot.waitUntil(lambda: list(box.choices) == ["defocus"], timeout=WAIT)
    assert box.value == "defocus"
    assert box.visible
    widget._method.value = "kpac"
    assert "tiny" in box.choices
    assert "defocus" not in box.choices
