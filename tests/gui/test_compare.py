"""The comparison in the canvas: the line of the split, its handle, the key, parts of images."""

import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import QEvent, QPoint, QPointF, Qt
from qtpy.QtGui import QKeyEvent, QMouseEvent
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QMenu, QWidget

from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.layers import METADATA
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, result_of
from tests.gui.test_as_a_person import canvas_of, on_canvas, run, seen

LEFT = Qt.MouseButton.LeftButton
SHIFT = Qt.KeyboardModifier.ShiftModifier


@pytest.fixture
def widget(viewer, docked, tiny_model):
    return docked(DeblurWidget)


def split(widget, qtbot):
    run(widget, qtbot)
    qtbot.mouseClick(widget._comparison._check, LEFT)
    return widget._comparison


def handle_centre(comparison):
    handle = comparison._line.handle
    return handle.pos() + QPoint(handle.width() // 2, handle.height() // 2)


def drag_handle(handle, way):
    """Drag the handle with the mouse, as a person does."""
    middle = QPointF(handle.width() / 2, handle.height() / 2)
    QTest.mousePress(handle, LEFT, pos=middle.toPoint())
    # QTest moves the mouse without its button.
    moved = QMouseEvent(
        QEvent.Type.MouseMove, middle + way, handle.mapToGlobal(middle + way),
        Qt.MouseButton.NoButton, LEFT, Qt.KeyboardModifier.NoModifier,
    )  # fmt: skip
    QApplication.sendEvent(handle, moved)
    QTest.mouseRelease(handle, LEFT, pos=middle.toPoint())


def test_a_line_with_a_handle_stands_where_the_split_is(viewer, widget, image, qtbot):
    cup = viewer.add_image(image, name="cup", scale=(2, 2), translate=(5, 7))
    viewer.reset_view()
    comparison = split(widget, qtbot)
    handle, line = comparison._line.handle, comparison._line.line
    assert handle.isVisible()
    assert line.isVisible()
    # Left edge of the column at which the result begins, in the world.
    column = comparison._column(128)
    where = on_canvas(viewer, 5 + 2 * 47.5, 7 + 2 * (column - 0.5))
    assert (handle_centre(comparison) - where).manhattanLength() <= 3
    before = handle_centre(comparison)
    drag_handle(handle, QPointF(60, 0))
    wanted = column + 60 / viewer.scene.camera.zoom / 2
    assert abs(comparison._column(128) - wanted) <= 1
    qtbot.waitUntil(lambda: abs((handle_centre(comparison) - before).x() - 60) <= 3, timeout=WAIT)
    # It goes along when the view moves, and is not there where the split is not.
    viewer.scene.camera.center = (0, 100, 200)
    assert handle_centre(comparison) != before
    viewer.scene.camera.center = (0, 1e6, 1e6)
    assert not handle.isVisible()
    viewer.reset_view()
    assert handle.isVisible()
    viewer.dims.ndisplay = 3
    assert not handle.isVisible()
    viewer.dims.ndisplay = 2
    qtbot.mouseClick(comparison._check, LEFT)
    assert not handle.isVisible()
    assert not line.isVisible()
    assert cup in viewer.layers


def test_the_line_is_seen_in_the_window(viewer, widget, qtbot):
    viewer.add_image(np.full((96, 128), 90, np.uint8), name="grey", contrast_limits=(0, 255))
    viewer.reset_view()
    comparison = split(widget, qtbot)
    QTest.qWait(200)
    shot = canvas_of(viewer).grab().toImage()
    place = on_canvas(viewer, 10, comparison._column(128) - 0.5)
    colours = {shot.pixelColor(place.x() + dx, place.y()).lightness() for dx in range(-2, 3)}
    assert max(colours) > 240
    assert min(colours) < 75


def test_the_split_is_neither_active_nor_offered(viewer, widget, image, qtbot):
    cup = viewer.add_image(image, name="cup")
    comparison = split(widget, qtbot)
    layer = result_of(viewer, "split")
    assert viewer.layers.selection.active is cup
    for box in (widget._image, widget._left, widget._right):
        assert layer not in box.choices
        assert result_of(viewer, "cup (deblurred)") in box.choices
    comparison._slider.setValue(700)
    qtbot.waitUntil(lambda: layer.data.shape[1] < 64, timeout=WAIT)
    assert viewer.layers.selection.active is cup
    _, other = viewer.window.add_plugin_dock_widget("napari-kpac", "Blur map")
    assert layer not in other._image.choices
    other.release()


def test_the_split_cannot_replace_an_alpha_map(viewer, widget, docked, image, qtbot, monkeypatch):
    viewer.add_image(image, name="cup")
    split(widget, qtbot)
    mixer = docked(MixerWidget)
    qtbot.mouseClick(mixer._open, LEFT)
    qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    offered = []
    monkeypatch.setattr(
        QMenu, "exec", lambda menu, _: offered.extend(each.text() for each in menu.actions())
    )
    mixer._controls.map_menu_wanted.emit(0, 0, QPoint(0, 0))
    assert any("cup (deblurred)" in text for text in offered)
    assert not any("split" in text for text in offered)


def press(canvas, kind, *, repeated):
    event = QKeyEvent(kind, Qt.Key.Key_I, SHIFT, "I", repeated)
    QApplication.sendEvent(canvas, event)


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("is_split", [True, False])
def test_a_held_key_does_not_flicker(viewer, widget, image, qtbot, repeated, is_split):
    """Not every system says that a press is a repetition."""
    viewer.add_image(image, name="cup")
    run(widget, qtbot)
    layer = result_of(viewer, "cup (deblurred)")
    if is_split:
        qtbot.mouseClick(widget._comparison._check, LEFT)
        layer = result_of(viewer, "split")
    seen_states = []
    layer.events.visible.connect(lambda: seen_states.append(layer.visible))
    canvas = canvas_of(viewer)
    canvas.setFocus()
    press(canvas, QEvent.Type.KeyPress, repeated=False)
    for _ in range(8):
        QTest.qWait(15)
        press(canvas, QEvent.Type.KeyRelease, repeated=repeated)
        press(canvas, QEvent.Type.KeyPress, repeated=repeated)
    assert seen_states == [False]
    assert not widget._comparison._line.handle.isVisible()
    press(canvas, QEvent.Type.KeyRelease, repeated=False)
    qtbot.waitUntil(lambda: seen_states == [False, True], timeout=WAIT)
    assert widget._comparison._line.handle.isVisible() == is_split


@pytest.mark.parametrize("is_split", [True, False])
def test_no_other_result_stands_for_the_input(viewer, widget, image, qtbot, is_split):
    """A result of another dock over the input is hidden as long as the input is to be seen."""
    viewer.add_image(image, name="cup")
    other = viewer.add_image(255 - image, name="cup (mixer)", metadata={METADATA: "mixer"})
    mine = viewer.add_image(image, name="mine", translate=(200, 0))
    viewer.layers.selection.active = viewer.layers["cup"]
    run(widget, qtbot)
    canvas = canvas_of(viewer)
    canvas.setFocus()
    if is_split:
        qtbot.mouseClick(widget._comparison._check, LEFT)
    else:
        press(canvas, QEvent.Type.KeyPress, repeated=False)
    assert not other.visible
    assert mine.visible
    assert viewer.layers["cup"].visible
    if is_split:
        qtbot.mouseClick(widget._comparison._check, LEFT)
    else:
        press(canvas, QEvent.Type.KeyRelease, repeated=False)
    qtbot.waitUntil(lambda: other.visible, timeout=WAIT)
    assert result_of(viewer, "cup (deblurred)").visible


def test_a_rectangle_is_compared_where_it_lies(viewer, widget, image, qtbot):
    cup = viewer.add_image(image, name="cup", scale=(2, 2))
    box = np.array([[10, 20], [10, 90], [60, 90], [60, 20]], float)
    shapes = viewer.add_shapes([box], shape_type="rectangle", name="box", scale=(2, 2))
    widget._image.value, widget._scope.value = cup, "rectangle"
    widget._shapes.value = shapes
    comparison = split(widget, qtbot)
    result = result_of(viewer, "cup (deblurred)")
    part = result_of(viewer, "split")
    column = comparison._column(70)
    assert part.data.shape == (50, 70 - column, 3)
    np.testing.assert_allclose(part.translate, (20, 2 * (20 + column)))
    assert comparison._line.handle.isVisible()
    qtbot.mouseClick(comparison._difference, LEFT)
    qtbot.waitUntil(lambda: "cup (difference)" in viewer.layers, timeout=WAIT)
    found = viewer.layers["cup (difference)"]
    wanted = (result.data.astype(float) - image[10:60, 20:90]).mean(axis=-1)
    np.testing.assert_allclose(found.data, wanted, atol=1e-4)
    np.testing.assert_allclose(found.translate, (20, 40))


@pytest.mark.parametrize("rgb", [False, True])
def test_a_single_slice_of_a_stack_is_compared(viewer, widget, image, qtbot, rgb):
    stack = np.stack([image, 255 - image, image[::-1]])
    stack = stack if rgb else stack[..., 0]
    viewer.add_image(stack, name="stack", rgb=rgb)
    viewer.dims.set_current_step(0, 1)
    widget._scope.value = "slice"
    comparison = split(widget, qtbot)
    result, part = result_of(viewer, "stack (deblurred)"), result_of(viewer, "split")
    assert part.data.shape[:2] == (1, 96)
    np.testing.assert_allclose(part.translate, (1, 0, comparison._column(128)))
    assert comparison._line.handle.isVisible()
    viewer.dims.set_current_step(0, 0)  # the result is not there
    assert not comparison._line.handle.isVisible()
    viewer.dims.set_current_step(0, 1)
    assert comparison._line.handle.isVisible()
    qtbot.mouseClick(comparison._difference, LEFT)
    qtbot.waitUntil(lambda: "stack (difference)" in viewer.layers, timeout=WAIT)
    found = viewer.layers["stack (difference)"]
    wanted = result.data.astype(float) - stack[1:2]
    np.testing.assert_allclose(found.data, wanted.mean(axis=-1) if rgb else wanted, atol=1e-4)
    np.testing.assert_allclose(found.translate, (1, 0, 0))
    assert type(found) is Image
    # What is on screen right of the line is the result, left of it the input.
    viewer.layers.remove(found)
    viewer.reset_view()
    with_split = seen(viewer)
    part.visible = False
    assert np.abs(seen(viewer) - with_split)[:, with_split.shape[1] // 2 + 8 :].max() > 0
    assert np.abs(seen(viewer) - with_split)[:, : with_split.shape[1] // 2 - 8].max() == 0


def test_closing_the_dock_or_the_window_while_it_is_split(viewer, docked, tiny_model, image, qtbot):
    viewer.add_image(image, name="cup")
    first = docked(DeblurWidget)
    split(first, qtbot)
    canvas = canvas_of(viewer)
    assert sum(part.isVisible() for part in canvas.findChildren(QWidget)) == 2
    viewer.window.remove_dock_widget(first)
    assert [layer.name for layer in viewer.layers] == ["cup", "cup (deblurred)"]
    assert not any(part.isVisible() for part in canvas.findChildren(QWidget))
    split(docked(DeblurWidget), qtbot)
    viewer.close()
