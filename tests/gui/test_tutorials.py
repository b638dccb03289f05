"""The tutorials, step by step with mouse and keyboard, and what stood in the way there."""

import numpy as np
import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QWheelEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QPushButton

from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, open_it, result_of

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def scene(viewer, image):
    """A hidden truth below an image, as in the sample."""
    viewer.add_image(image[::-1].copy(), name="truth", visible=False)
    return viewer.add_image(image, name="scene")


def names(viewer):
    return [layer.name for layer in viewer.layers]


def deblur(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def turn_wheel(widget, qtbot):
    """Turn the mouse wheel above a widget; returns whether that took it.

    What is not taken goes on to the page, if it comes from the system and not from a test.
    """
    place = QPointF(widget.rect().center())
    event = QWheelEvent(
        place, QPointF(widget.mapToGlobal(place)), QPoint(0, -120), QPoint(0, -120),
        Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase, False,
    )  # fmt: skip
    event.ignore()
    QApplication.sendEvent(widget, event)
    qtbot.wait(20)
    return event.isAccepted()


def test_the_mixer_is_seen_above_a_result_of_the_deblur_widget(
    viewer, docked, tiny_model, scene, qtbot
):
    widget = docked(DeblurWidget)
    deblur(widget, qtbot)
    assert names(viewer)[-1] == "scene (deblurred)"
    mixer = docked(MixerWidget)
    open_it(mixer, qtbot)
    assert names(viewer)[-1] == "scene (mixer)"
    # The other way round: what was asked for last is on top.
    deblur(widget, qtbot)
    assert names(viewer)[-1] == "scene (deblurred)"
    qtbot.mouseClick(mixer._open, LEFT)
    open_it(mixer, qtbot)
    assert names(viewer)[-1] == "scene (mixer)"
    # What the user draws or puts there half-transparent stays on top.
    viewer.add_labels(np.zeros(scene.data.shape[:2], np.uint8), name="mine")
    viewer.add_image(scene.data[..., 0], name="overlay", opacity=0.5)
    viewer.layers.selection.active = scene
    deblur(widget, qtbot)
    assert names(viewer)[-3:] == ["scene (deblurred)", "mine", "overlay"]
    mixer.close_session("")


def test_an_image_dragged_on_top_does_not_hide_the_next_result(
    viewer, docked, tiny_model, scene, qtbot
):
    widget = docked(DeblurWidget)
    deblur(widget, qtbot)
    truth = result_of(viewer, "truth")
    viewer.layers.move(viewer.layers.index(truth), len(viewer.layers))
    truth.visible = True
    assert names(viewer)[-1] == "truth"
    deblur(widget, qtbot)
    assert names(viewer)[-1] == "scene (deblurred)"
    assert names(viewer).count("scene (deblurred)") == 1


def test_the_line_goes_with_the_split_layer(viewer, docked, tiny_model, scene, qtbot):
    widget = docked(DeblurWidget)
    deblur(widget, qtbot)
    comparison = widget._comparison
    qtbot.mouseClick(comparison._check, LEFT)
    handle = comparison._line.handle
    qtbot.waitUntil(handle.isVisible, timeout=WAIT)
    split = result_of(viewer, "split")
    split.visible = False  # its eye in the list of layers
    assert not handle.isVisible()
    comparison._slider.setValue(300)
    qtbot.wait(100)
    assert not handle.isVisible()
    split.visible = True
    assert handle.isVisible()


def test_the_wheel_scrolls_and_changes_no_control(viewer, mixer, qtbot):
    controls, before = mixer._controls, mixer.state
    strip = controls.strips[0][0]
    watched = [
        controls.preset, mixer._image.native, strip.gain.slider, strip.gain.number,
        controls.strength.slider, controls.strength.number,
    ]  # fmt: skip
    controls.preset.setFocus()
    for control in watched:
        assert not turn_wheel(control, qtbot), control
        assert mixer.state == before, control
    assert controls.preset.currentText() == "all (as trained)"
    # It is the page that scrolls.
    viewer.window.resize(1000, 600)
    bar = mixer._scrolling.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 0, timeout=WAIT)
    assert turn_wheel(mixer._scrolling.viewport(), qtbot)
    assert bar.value() > 0
    # A slider that was clicked follows the wheel, as everywhere.
    QApplication.setActiveWindow(viewer.window._qt_window)
    strip.gain.slider.setFocus()
    qtbot.waitUntil(strip.gain.slider.hasFocus, timeout=WAIT)
    assert turn_wheel(strip.gain.slider, qtbot)
    assert mixer.state != before


def test_one_sets_a_strip_back_with_mute_and_solo(mixer, qtbot):
    strip = mixer._controls.strips[0][1]
    neutral = mixer.state
    one = next(each for each in strip.findChildren(QPushButton) if each.text() == "1")
    for press in (strip.mute, strip.solo):
        qtbot.mouseClick(press, LEFT)
        assert mixer.state != neutral
        qtbot.mouseClick(one, LEFT)
        assert mixer.state == neutral
        assert not press.isChecked()
    strip.gain.number.setValue(0.5)
    qtbot.mouseClick(strip.mute, LEFT)
    qtbot.mouseClick(one, LEFT)
    assert mixer.state == neutral
    # One move: it is taken back at once.
    QTest.mouseClick(mixer._controls.buttons["Undo"], LEFT)
    assert strip.gain.value == 0.5
    assert strip.mute.isChecked()


def test_a_closed_mixer_shows_what_it_will_open_with(viewer, docked, tiny_model, scene):
    controls = docked(MixerWidget)._controls
    assert controls.strength.value == 1
    assert controls.strength.number.value() == 1
    assert controls.preset.currentText() == controls.preset.placeholderText() == ""


def test_pointing_at_strips_moves_nothing(viewer, mixer, qtbot):
    """Nor does a gain above 1, which is warned of."""
    controls = mixer._controls
    qtbot.waitUntil(lambda: not mixer._renderer._unmeasured, timeout=WAIT)
    places = set()
    for strip in controls.strips[0]:
        for gain in (1.0, 1.5):
            strip.gain.number.setValue(gain)
            strip.pointed.emit()
            qtbot.wait(50)
            places.add(controls.preset.y())
    assert len(places) == 1


def test_long_tooltips_are_broken_into_lines(viewer, mixer, docked, tiny_model):
    for widget in (mixer, docked(DeblurWidget)):
        for part in [*widget.findChildren(QPushButton), mixer._controls.strips[0][0].thumbnail]:
            told = part.toolTip()
            is_rich = Qt.mightBeRichText(told)
            assert is_rich or max(map(len, told.split("\n")), default=0) <= 80, told
