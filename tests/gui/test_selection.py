"""Which image the docks work on: what is selected, until somebody chooses in the box."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, result_of

LEFT = Qt.MouseButton.LeftButton


@pytest.mark.parametrize(
    ("key", "name"), [("scene", "defocused scene"), ("dual_pixel", "centre image")]
)
def test_a_sample_leaves_the_image_to_deblur_selected(viewer, key, name):
    viewer.open_sample("napari-kpac", key)
    assert viewer.layers.selection.active.name == name
    assert [layer.name for layer in viewer.layers if layer.visible] == [name]
    for dock in ("Deblur", "Attention mixer", "Blur map", "Inverse kernels"):
        _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", dock)
        assert widget._image.layer.name == name
        assert widget._image.choices[0].name == name
        widget.release()


def test_the_box_follows_the_selection_until_somebody_chooses(viewer, tiny_model, image):
    _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", "Deblur")
    first = viewer.add_image(image, name="first")
    second = viewer.add_image(image[::-1], name="second")
    assert widget._image.layer is second  # newly opened
    viewer.layers.selection.active = first
    assert widget._image.layer is first
    box = widget._image.native
    box.setFocus()
    QTest.keyClick(box, Qt.Key.Key_Down)
    assert widget._image.layer is second
    viewer.layers.selection.active = first
    third = viewer.add_image(image, name="third")
    assert widget._image.layer is second
    viewer.layers.remove(second)
    viewer.layers.selection.active = first
    viewer.layers.selection.active = third
    assert widget._image.layer is third
    widget.release()


def test_what_we_made_is_offered_last_and_not_followed(viewer, docked, tiny_model, image, qtbot):
    widget = docked(DeblurWidget)
    cup = viewer.add_image(image, name="cup")
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    qtbot.mouseClick(widget._comparison._check, LEFT)
    qtbot.mouseClick(widget._comparison._difference, LEFT)
    qtbot.waitUntil(lambda: len(viewer.layers) == 4, timeout=WAIT)
    for name in ("split", "cup (deblurred)", "cup (difference)"):
        viewer.layers.selection.active = result_of(viewer, name)
        assert widget._image.layer is cup
    other = viewer.add_image(np.zeros((9, 9), np.uint8), name="other")
    assert list(widget._image.choices[:2]) == [cup, other]
    assert widget._image.layer is other


def test_an_open_mixer_stays_with_its_image(viewer, docked, tiny_model, image, qtbot):
    cup = viewer.add_image(image, name="cup")
    mixer = docked(MixerWidget)
    qtbot.mouseClick(mixer._open, LEFT)
    qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    other = viewer.add_image(image[::-1], name="other")
    assert mixer._image.layer is cup
    qtbot.mouseClick(mixer._open, LEFT)
    viewer.layers.selection.active = cup
    viewer.layers.selection.active = other
    assert mixer._image.layer is other
