"""Recipes in the Deblur widget: applied to a slice, to all slices, to all selected layers."""

import threading

import numpy as np
import pytest
from qtpy.QtCore import Qt

import napari_kpac as kpac
from napari_kpac.widgets.deblur import DeblurWidget
from tests.gui.conftest import WAIT, result_of

LEFT = Qt.MouseButton.LeftButton
LOOK = kpac.Modulation(gains=[1, 1, 0.5, 0, 0], strength=0.7)


@pytest.fixture
def widget(docked, tiny_model):
    return docked(DeblurWidget)


@pytest.fixture
def look(tmp_path, tiny_model):
    """A recipe that was tuned on an 8-bit grey image."""
    recipe = kpac.deblur(np.zeros((16, 16), np.uint8), "tiny", modulation=LOOK).recipe
    recipe.save(tmp_path / "look.json")
    return tmp_path / "look.json"


def apply(widget, path, qtbot):
    widget._recipe.choose(path)
    qtbot.waitUntil(lambda: widget._recipe._summary.text() != "", timeout=WAIT)
    qtbot.mouseClick(widget._apply, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def test_to_all_slices_and_to_the_slice_on_display(viewer, widget, look, qtbot):
    stack = np.random.default_rng(1).integers(0, 4000, (3, 40, 56)).astype(np.uint16)
    viewer.add_image(stack, name="z", scale=(2, 0.5, 0.5), units=("um",) * 3)
    viewer.dims.set_current_step(0, 1)
    apply(widget, look, qtbot)
    assert widget._recipe._summary.text() == "model tiny, gains 1, 1, 0.5, 0, 0, strength 0.7"
    whole = result_of(viewer, "z (look)")
    wanted = kpac.deblur(stack, "tiny", modulation=LOOK)
    assert np.abs(whole.data.astype(int) - wanted.image).max() <= 1
    np.testing.assert_allclose(whole.scale, (2, 0.5, 0.5))
    assert whole.metadata["napari_kpac"]["modulation"]["strength"] == 0.7
    whole.name = "kept"
    widget._scope.value = "slice"
    apply(widget, look, qtbot)
    alone = result_of(viewer, "z (look)")
    wanted = kpac.deblur(stack[1], "tiny", modulation=LOOK).image
    assert alone.data.shape == (1, 40, 56)
    assert np.abs(alone.data[0].astype(int) - wanted).max() <= 1
    np.testing.assert_allclose(alone.translate, (2, 0, 0))
    assert widget._comparison._check.isEnabled()


def test_to_all_selected_layers_each_on_its_own(viewer, widget, look, image, qtbot):
    cup = viewer.add_image(image, name="cup")
    viewer.add_image(image[..., 0], name="left alone")
    mask = viewer.add_image(np.zeros((16, 16), bool), name="mask")
    deep = viewer.add_image(image[..., 1].astype(np.uint16) * 200, name="deep")
    points = viewer.add_points(np.zeros((1, 2)), name="points")
    widget._scope.value = "selected"
    assert not widget._image.visible
    viewer.layers.selection = {cup, mask, deep, points}
    apply(widget, look, qtbot)
    for layer in (cup, deep):
        made = result_of(viewer, f"{layer.name} (look)")
        wanted = kpac.deblur(layer.data, "tiny", modulation=LOOK).image
        assert made.data.dtype == layer.data.dtype
        assert np.abs(made.data.astype(int) - wanted).max() <= 1
    names = [layer.name for layer in viewer.layers]
    assert "left alone (look)" not in names
    said = widget._message.text()
    assert "“cup (look)”, “deep (look)”" in said
    assert "⚠ “mask”" in said
    assert "bool" in said
    # The same box goes for the Deblur button.
    viewer.layers.selection = {deep}
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    made = result_of(viewer, "deep (deblurred)")
    assert np.array_equal(made.data, kpac.deblur(deep.data, "tiny").image)
    viewer.layers.selection = {points}
    apply(widget, look, qtbot)
    assert "select one or more image layers" in widget._message.text()


def test_what_does_not_fit_is_refused_in_words(viewer, widget, look, image, tmp_path, qtbot):
    viewer.add_image(image, name="cup")
    qtbot.mouseClick(widget._apply, LEFT)
    assert "choose a recipe first" in widget._message.text()
    widget._scope.value = "rectangle"
    apply(widget, look, qtbot)
    assert "whole slices" in widget._message.text()
    widget._scope.value = "all"
    recipe = kpac.deblur(
        np.full((16, 16), 1000, np.uint16), "tiny", range=(0.0, 60000.0)
    ).recipe  # of a 16-bit image
    recipe.save(tmp_path / "deep.json")
    apply(widget, tmp_path / "deep.json", qtbot)
    assert "60000" in widget._message.text()
    assert "uint8" in widget._message.text()
    assert [layer.name for layer in viewer.layers] == ["cup"]
    (tmp_path / "other.json").write_text("{}")
    widget._recipe.choose(tmp_path / "other.json")
    qtbot.waitUntil(lambda: "not a napari-kpac" in widget._recipe._summary.text(), timeout=WAIT)
    widget._recipe.choose("")
    qtbot.waitUntil(lambda: widget._recipe._summary.text() == "", timeout=WAIT)


def test_cancel_keeps_the_layers_that_were_done(viewer, widget, image, qtbot, monkeypatch):
    from napari_kpac.engine.stages import Stages

    encode, calls, asked = Stages._encode_tile, [], threading.Event()

    def wait_for_cancel(self, tile):
        calls.append(tile)
        assert len(calls) == 1 or asked.wait(WAIT / 1000)
        return encode(self, tile)

    monkeypatch.setattr(Stages, "_encode_tile", wait_for_cancel)
    layers = [viewer.add_image(image[..., 0], name=name) for name in ("a", "b", "c")]
    viewer.layers.selection = set(layers)
    widget._scope.value = "selected"
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: "a (deblurred)" in viewer.layers, timeout=WAIT)
    qtbot.mouseClick(widget._panel.button, LEFT)
    asked.set()
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert "1 of 3 layers were done before" in widget._message.text()
    # Above the images that would hide it.
    assert [layer.name for layer in viewer.layers] == ["a", "b", "c", "a (deblurred)"]
