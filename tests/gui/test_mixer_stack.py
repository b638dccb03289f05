"""Another image in an open mixer, a mix for a whole stack, and layers that go away."""

import numpy as np
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

import napari_kpac as kpac
from napari_kpac.widgets.mixer.widget import REOPEN_MS
from tests.gui.conftest import WAIT, choose, open_it, result_of

LEFT = Qt.MouseButton.LeftButton


def is_shown(viewer, name, wanted):
    if name not in viewer.layers:
        return False
    found = viewer.layers[name].data
    return found.shape == wanted.shape and np.abs(found - wanted.astype(int)).max() <= 1


def test_another_image_is_opened_when_it_is_chosen(viewer, mixer, image, qtbot):
    other = np.random.default_rng(8).integers(0, 256, (64, 80), dtype=np.uint8)
    mixer._controls.strips[0][0].gain.number.setValue(0)
    look = kpac.Modulation(gains=[[0, 1, 1, 1, 1], [1] * 5])
    first = kpac.deblur(image, "tiny", modulation=look).image
    qtbot.waitUntil(lambda: is_shown(viewer, "cup (mixer)", first), timeout=WAIT)
    viewer.add_image(other, name="sky")
    assert mixer._image.layer.name == "cup"  # to select a layer is not to choose it here
    choose(mixer._image, "sky")
    wanted = kpac.deblur(other, "tiny", modulation=look).image
    qtbot.waitUntil(lambda: is_shown(viewer, "sky (mixer)", wanted), timeout=WAIT)
    assert mixer._opened.source.name == "sky"
    assert mixer._open.text() == "Close"
    assert is_shown(viewer, "cup (mixer)", first)
    # Its own result is no image to mix; the box goes back to the one that is open.
    mixer._image.value = viewer.layers["sky (mixer)"]
    assert "own result" in mixer._message.text()
    assert mixer._image.layer.name == "sky"
    assert mixer._controls.isEnabled()
    mixer._controls.strips[0][0].gain.number.setValue(1)
    plain = kpac.deblur(other, "tiny").image
    qtbot.waitUntil(lambda: is_shown(viewer, "sky (mixer)", plain), timeout=WAIT)


def test_closing_right_after_choosing_another_image(viewer, mixer, image, qtbot):
    viewer.add_image(image[::-1].copy(), name="sky")
    choose(mixer._image, "sky")
    qtbot.mouseClick(mixer._open, LEFT)
    QTest.qWait(2 * REOPEN_MS)
    assert mixer._renderer is None
    assert "sky (mixer)" not in viewer.layers


def test_a_mix_is_applied_to_all_slices(viewer, mixer, qtbot):
    assert not mixer._stack.isVisible()  # one image has no other slices
    rng = np.random.default_rng(6)
    stack = rng.integers(0, 4000, (3, 48, 64)).astype(np.uint16)
    viewer.add_image(stack, name="cells", scale=(2, 0.5, 0.5), units=("um", "um", "um"))
    choose(mixer._image, "cells")
    qtbot.waitUntil(lambda: "cells (mixer)" in viewer.layers, timeout=WAIT)
    qtbot.waitUntil(mixer._stack.isVisible, timeout=WAIT)
    mixer._controls.strips[1][2].gain.number.setValue(0)
    mixer._controls.strength.number.setValue(0.5)
    viewer.window.resize(1000, 600)  # the panel's message lies below what the dock shows
    qtbot.waitUntil(lambda: mixer._stack.message.visibleRegion().isEmpty(), timeout=WAIT)
    mixer._stack.button.click()
    assert mixer._stack.button.text() == "Cancel"
    qtbot.waitUntil(lambda: not mixer._stack.message.visibleRegion().isEmpty(), timeout=WAIT)
    qtbot.waitUntil(lambda: "Done" in mixer._stack.message.text(), timeout=WAIT)
    look = kpac.Modulation(gains=[[1] * 5, [1, 1, 0, 1, 1]], strength=0.5)
    wanted = kpac.deblur(stack, "tiny", modulation=look)
    layer = viewer.layers["cells (mixer, all slices)"]
    assert np.array_equal(layer.data, wanted.image)
    assert layer.metadata["napari_kpac"]["modulation"] == wanted.recipe.to_dict()["modulation"]
    np.testing.assert_allclose(layer.scale, (2, 0.5, 0.5))
    # The slice that is being mixed stays on top, so that sliders can be seen to act.
    live = viewer.layers["cells (mixer)"]
    assert viewer.layers.index(layer) < viewer.layers.index(live)
    number = len(viewer.layers)
    qtbot.mouseClick(mixer._stack.button, LEFT)
    qtbot.waitUntil(lambda: not mixer._stack.task.is_running, timeout=WAIT)
    assert len(viewer.layers) == number


def test_applying_to_a_stack_can_be_cancelled(viewer, mixer, qtbot):
    stack = np.random.default_rng(6).integers(0, 256, (2000, 40, 48)).astype(np.uint8)
    viewer.add_image(stack, name="film")
    choose(mixer._image, "film")
    qtbot.waitUntil(mixer._stack.isVisible, timeout=WAIT)
    qtbot.mouseClick(mixer._stack.button, LEFT)
    qtbot.waitUntil(lambda: mixer._stack.bar.value() > 0, timeout=WAIT)
    assert mixer._stack.bar.isVisible()
    qtbot.mouseClick(mixer._stack.button, LEFT)
    qtbot.waitUntil(lambda: not mixer._stack.task.is_running, timeout=WAIT)
    assert "Cancelled" in mixer._stack.message.text()
    assert "film (mixer, all slices)" not in viewer.layers
    assert not mixer._stack.bar.isVisible()


def test_all_layers_are_removed_while_it_renders(viewer, mixer, image, qtbot):
    """Nothing comes back after ``layers.clear()``, and the next image can be opened."""
    for name in ("sky", "sea"):
        qtbot.mouseClick(mixer._controls.strips[0][0].thumbnail, LEFT)
        qtbot.mouseClick(mixer._controls.new_labels, LEFT)
        QTest.qWait(100)
        mixer._controls.strips[0][0].gain.number.setValue(0.5)
        mixer._move(mixer.state.with_strength(0, 0.7))  # a slider that is still held
        renderer = mixer._renderer
        viewer.layers.clear()
        assert mixer._renderer is None
        assert mixer._message.text() == "The image was removed."
        qtbot.waitUntil(lambda gone=renderer: not gone.is_alive, timeout=WAIT)
        QTest.qWait(200)
        assert len(viewer.layers) == 0
        viewer.add_image(image[::-1].copy(), name=name)
        open_it(mixer, qtbot)
        assert result_of(viewer, f"{name} (mixer)").data.shape == image.shape
