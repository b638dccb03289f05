"""Nothing is deleted that we did not make, whatever it is called."""

import numpy as np
import pytest
from qtpy.QtCore import Qt

from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT

LEFT = Qt.MouseButton.LeftButton
NAMES = (
    "split", "cup (deblurred)", "cup (difference)", "cup (mixer)", "cup (blur)", "cup (blurred)",
    "cup (blurred regions)", "α1 of block 1", "Points",
)  # fmt: skip


@pytest.fixture
def own(viewer, image):
    """Layers of the user: an image, and points with the names that our layers have."""
    viewer.add_image(image, name="cup")
    for name in NAMES:
        viewer.add_points(np.zeros((1, 2)), name=name)
    viewer.layers.selection.active = viewer.layers["cup"]
    return list(viewer.layers)


def check(viewer, own):
    assert [layer for layer in viewer.layers if layer in own] == own
    assert [layer.name for layer in own] == ["cup", *NAMES]


def run(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def test_deblur_and_compare(viewer, docked, tiny_model, own, qtbot):
    widget = docked(DeblurWidget)
    for _ in range(2):
        run(widget, qtbot)
        qtbot.mouseClick(widget._comparison._check, LEFT)
        qtbot.mouseClick(widget._comparison._difference, LEFT)
        qtbot.waitUntil(lambda: not widget._comparison._differences.is_running, timeout=WAIT)
    check(viewer, own)
    widget.release()
    check(viewer, own)


def test_blur_map(viewer, docked, tiny_model, own, qtbot):
    widget = docked(BlurMapWidget)
    widget._kind.value = "variance"
    asked = (widget._deciding, widget._scoring, widget._extras)
    for _ in range(2):
        run(widget, qtbot)
        qtbot.waitUntil(lambda: widget._result is not None, timeout=WAIT)
        for _ in range(2):
            qtbot.mouseClick(widget._regions, LEFT)
            qtbot.mouseClick(widget._mask_check, LEFT)
            qtbot.waitUntil(lambda: not any(each.is_running for each in asked), timeout=WAIT)
    check(viewer, own)


def test_mixer(viewer, docked, tiny_model, own, qtbot):
    mixer = docked(MixerWidget)
    qtbot.mouseClick(mixer._open, LEFT)
    qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    for _ in range(2):
        qtbot.mouseClick(mixer._controls.strips[0][0].thumbnail, LEFT)
    assert len(viewer.layers) == len(own) + 2  # the result and one map
    qtbot.mouseClick(mixer._open, LEFT)
    check(viewer, own)


def test_a_second_image_of_equal_shape_has_its_own_map(viewer, docked, tiny_model, image, qtbot):
    widget = docked(BlurMapWidget)
    widget._kind.value = "variance"
    found = []
    for name, scale in (("one", 2.0), ("two", 5.0)):
        viewer.add_image(image[:: -1 if found else 1], name=name, scale=(scale, scale))
        run(widget, qtbot)
        qtbot.waitUntil(lambda name=name: f"{name} (blur)" in viewer.layers, timeout=WAIT)
        layer = viewer.layers[f"{name} (blur)"]
        np.testing.assert_allclose(layer.scale, (scale, scale))
        found.append((layer, layer.data.copy()))
    (one, before), (two, _) = found
    assert one is not two
    assert np.array_equal(one.data, before)
