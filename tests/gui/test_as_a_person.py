"""A person at the window: mouse and keyboard only, on the real canvas."""

import numpy as np
import pytest
from PIL import Image
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QMouseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, our_threads, result_of

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def cup(viewer, image):
    return viewer.add_image(image, name="cup")


def canvas_of(viewer):
    return viewer.window._qt_viewer.canvas.native


def on_canvas(viewer, row, column):
    """Return where a pixel of the image is in the canvas."""
    canvas, camera = canvas_of(viewer), viewer.scene.camera
    down, right = (np.array([row, column]) - np.asarray(camera.center)[-2:]) * camera.zoom
    return QPoint(round(canvas.width() / 2 + right), round(canvas.height() / 2 + down))


def drag(viewer, start, end, steps=4):
    """Press, move and let go in the canvas, the last move so fast that the canvas drops it."""
    canvas = canvas_of(viewer)
    QTest.mousePress(canvas, LEFT, Qt.KeyboardModifier.NoModifier, start)
    for step in range(1, steps + 1):
        place = QPointF(start + (end - start) * step / steps)
        # QTest moves the mouse without its button.
        moved = QMouseEvent(
            QMouseEvent.Type.MouseMove, place, canvas.mapToGlobal(place),
            Qt.MouseButton.NoButton, LEFT, Qt.KeyboardModifier.NoModifier,
        )  # fmt: skip
        QApplication.sendEvent(canvas, moved)
        if step < steps - 1:
            QTest.qWait(20)
    QTest.mouseRelease(canvas, LEFT, Qt.KeyboardModifier.NoModifier, end)


def run(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def open_mixer(docked, qtbot):
    widget = docked(MixerWidget)
    qtbot.mouseClick(widget._open, LEFT)
    qtbot.waitUntil(widget._controls.isEnabled, timeout=WAIT)
    return widget


def seen(viewer):
    return viewer.screenshot(canvas_only=True, flash=False)[..., :3].astype(int)


def test_dragging_the_split_and_holding_the_key(viewer, docked, tiny_model, cup, qtbot):
    widget = docked(DeblurWidget)
    viewer.reset_view()
    run(widget, qtbot)
    result = result_of(viewer, "cup (deblurred)")
    comparison = widget._comparison
    qtbot.mouseClick(comparison._check, LEFT)
    QTest.qWait(100)
    drag(viewer, on_canvas(viewer, 40, 64), on_canvas(viewer, 40, 90))
    assert abs(comparison._column(128) - 90) <= 2
    camera = tuple(viewer.scene.camera.center)
    drag(viewer, on_canvas(viewer, 40, 20), on_canvas(viewer, 40, 30))
    assert abs(comparison._column(128) - 90) <= 2
    assert tuple(viewer.scene.camera.center) != camera
    qtbot.mouseClick(comparison._check, LEFT)
    canvas = canvas_of(viewer)
    canvas.setFocus()
    QTest.keyPress(canvas, Qt.Key.Key_I, Qt.KeyboardModifier.ShiftModifier)
    assert not result.visible
    QTest.keyRelease(canvas, Qt.Key.Key_I, Qt.KeyboardModifier.ShiftModifier)
    qtbot.waitUntil(lambda: result.visible, timeout=WAIT)


def test_a_draft_while_dragging_and_the_exact_image_at_rest(
    viewer, docked, tiny_model, cup, image, qtbot
):
    mixer = open_mixer(docked, qtbot)
    QTest.qWait(300)
    before, came = seen(viewer), []
    mixer._renderer.rendered.connect(lambda result, _: came.append(result.draft))
    strip = mixer._controls.strips[0][2]
    slider = strip.gain.slider
    middle = QPoint(slider.width() // 2, slider.height() // 2)
    qtbot.mousePress(slider, LEFT, pos=middle)
    qtbot.mouseMove(slider, QPoint(middle.x(), slider.height() - 2))
    qtbot.waitUntil(lambda: bool(came), timeout=WAIT)
    assert came[0]
    # Held but at rest: the exact image comes although the button is still down.
    qtbot.waitUntil(lambda: not came[-1], timeout=WAIT)
    qtbot.mouseRelease(slider, LEFT, pos=QPoint(middle.x(), slider.height() - 2))
    rows = np.ones((2, 5))
    rows[0, 2] = strip.gain.value
    wanted = kpac.deblur(image, "tiny", modulation=kpac.Modulation(gains=rows)).image.astype(int)
    layer = result_of(viewer, "cup (mixer)")
    qtbot.waitUntil(lambda: layer.data.shape == wanted.shape, timeout=WAIT)
    qtbot.waitUntil(lambda: np.abs(layer.data - wanted).max() <= 1, timeout=WAIT)
    assert layer.metadata["napari_kpac"]
    assert np.abs(seen(viewer) - before).max() > 3


def test_without_live_preview_nothing_moves_before_the_slider_is_let_go(
    viewer, docked, tiny_model, cup, qtbot
):
    mixer = open_mixer(docked, qtbot)
    mixer._controls.live.click()
    came = []
    mixer._renderer.rendered.connect(lambda result, _: came.append(result.draft))
    slider = mixer._controls.strips[0][2].gain.slider
    middle = QPoint(slider.width() // 2, slider.height() // 2)
    qtbot.mousePress(slider, LEFT, pos=middle)
    qtbot.mouseMove(slider, QPoint(middle.x(), slider.height() - 2))
    QTest.qWait(500)
    assert came == []
    qtbot.mouseRelease(slider, LEFT, pos=QPoint(middle.x(), slider.height() - 2))
    qtbot.waitUntil(lambda: bool(came), timeout=WAIT)
    assert not any(came)


def test_what_is_on_screen_is_of_one_setting(viewer, docked, tiny_model, image, qtbot):
    """While only a part has been rendered, the layer is that part and nothing else."""
    viewer.add_image(np.tile(image, (4, 4, 1)), name="cup")
    mixer = open_mixer(docked, qtbot)
    viewer.scene.camera.zoom *= 4
    QTest.qWait(200)
    layer = result_of(viewer, "cup (mixer)")
    shapes = []
    layer.events.data.connect(lambda event: shapes.append(layer.data.shape[:2]))
    mixer._controls.strips[0][0].gain.number.setFocus()
    mixer._controls.strips[0][0].gain.number.selectAll()
    QTest.keyClicks(mixer._controls.strips[0][0].gain.number, "0.2")
    QTest.keyClick(mixer._controls.strips[0][0].gain.number, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: shapes[-1:] == [(384, 512)], timeout=WAIT)
    assert shapes[0][0] < 384
    assert shapes[0][1] < 512
    np.testing.assert_allclose(layer.translate, (0, 0))


def test_painting_with_the_brush_changes_only_there(viewer, docked, tiny_model, cup, qtbot):
    mixer = open_mixer(docked, qtbot)
    viewer.reset_view()
    plain = result_of(viewer, "cup (mixer)").data.astype(int)
    qtbot.mouseClick(mixer._controls.new_labels, LEFT)
    labels = mixer._labels.layer
    labels.brush_size = 16
    for strip in mixer._controls.strips[1]:
        qtbot.mouseClick(strip.mute, LEFT)
        qtbot.mouseClick(strip.mute, LEFT)
        strip.gain.number.selectAll()
        QTest.keyClicks(strip.gain.number, "0")
        QTest.keyClick(strip.gain.number, Qt.Key.Key_Return)
    QTest.qWait(100)
    drag(viewer, on_canvas(viewer, 70, 90), on_canvas(viewer, 70, 105))
    mask = np.asarray(labels.data) == 1
    assert mask.any()
    layer = result_of(viewer, "cup (mixer)")

    def change():
        same = layer.data.shape == plain.shape
        return np.abs(layer.data - plain).max(axis=-1) if same else np.zeros(mask.shape)

    qtbot.waitUntil(lambda: change()[mask].max() > 0, timeout=WAIT)
    assert change()[:24, :40].max() <= 1


def test_undo_by_key_and_a_recipe_that_replays(
    viewer, docked, tiny_model, cup, image, qtbot, tmp_path, monkeypatch
):
    mixer = open_mixer(docked, qtbot)
    strip = mixer._controls.strips[0][3]
    qtbot.mouseClick(strip.solo, LEFT)
    QApplication.setActiveWindow(viewer.window._qt_window)
    strip.gain.slider.setFocus()
    QTest.keyClick(strip.gain.slider, Qt.Key.Key_PageDown)
    assert strip.gain.value == 0.75
    QTest.keyClick(strip.gain.slider, Qt.Key.Key_Z, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: strip.gain.value == 1, timeout=WAIT)
    assert strip.solo.isChecked()
    monkeypatch.setattr(
        "napari_kpac.widgets.mixer.recipes.QFileDialog.getSaveFileName",
        lambda *_: (str(tmp_path / "look.json"), ""),
    )
    qtbot.mouseClick(mixer._controls.buttons["Save"], LEFT)
    qtbot.waitUntil(lambda: "Saved" in mixer._message.text(), timeout=WAIT)
    Image.fromarray(image).save(tmp_path / "cup.png")
    call = ["deblur", str(tmp_path / "cup.png"), "-o", str(tmp_path / "out.png")]
    assert main([*call, "--recipe", str(tmp_path / "look.json")]) == 0
    again = np.asarray(Image.open(tmp_path / "out.png")).astype(int)
    layer = result_of(viewer, "cup (mixer)")
    qtbot.waitUntil(
        lambda: layer.data.shape == again.shape and np.abs(layer.data - again).max() <= 1,
        timeout=WAIT,
    )


def test_a_sample_from_the_menu_and_every_widget_by_its_command(viewer, tiny_model, qtbot):
    (layer,) = viewer.open_sample("napari-kpac", "coffee")
    for name in ("Deblur", "Attention mixer", "Blur map", "Inverse kernels"):
        dock, widget = viewer.window.add_plugin_dock_widget("napari-kpac", name)
        assert widget._image.layer is layer
        viewer.window.remove_dock_widget(dock)
    qtbot.waitUntil(lambda: not our_threads(), timeout=WAIT)


def test_closing_everything_while_everything_runs(viewer, docked, tiny_model, image, qtbot):
    viewer.add_image(np.stack([image] * 6), name="stack", rgb=True)
    deblur, mixer = docked(DeblurWidget), docked(MixerWidget)
    qtbot.mouseClick(mixer._open, LEFT)
    qtbot.mouseClick(deblur._panel.button, LEFT)
    QTest.qWait(50)
    viewer.close()
    qtbot.waitUntil(lambda: not our_threads(), timeout=WAIT)
