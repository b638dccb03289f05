"""Two docks beside each other in a window of 1000x700: an image between, and nothing cut off."""

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QAbstractButton, QAbstractSpinBox, QComboBox, QLineEdit, QScrollArea

from tests.gui.conftest import WAIT

MIN_CANVAS_PX = 100


def beside(viewer, qtbot, first, second):
    """Open two docks as the menus do, and put them beside each other as a person would."""
    window = viewer.window._qt_window
    window.resize(1000, 700)
    (one, left), (other, right) = (
        viewer.window.add_plugin_dock_widget("napari-kpac", name) for name in (first, second)
    )
    window.splitDockWidget(one, other, Qt.Orientation.Horizontal)
    qtbot.waitUntil(lambda: left.y() == right.y() and one.x() != other.x(), timeout=WAIT)
    qtbot.wait(200)
    return left, right


@pytest.mark.parametrize(
    ("first", "second"),
    [("Deblur", "Attention mixer"), ("Blur map", "Evaluate"), ("Train", "Evaluate")],
)
def test_two_docks_leave_room_for_the_image(viewer, tiny_model, image, qtbot, first, second):
    viewer.add_image(image)
    docks = beside(viewer, qtbot, first, second)
    window = viewer.window._qt_window
    assert (window.width(), window.height()) == (1000, 700)
    assert viewer.window._qt_viewer.canvas.native.width() >= MIN_CANVAS_PX
    for widget in docks:
        (area, *_) = widget.findChildren(QScrollArea)
        assert area.viewport().width() >= 200
        page = area.widget()
        for control in page.findChildren((QComboBox, QAbstractButton, QAbstractSpinBox, QLineEdit)):
            inner = isinstance(control.parent(), QAbstractSpinBox)
            if control.isVisibleTo(page) and not inner:
                # Wide enough for what it needs, and on the page, which scrolls.
                assert control.width() >= min(control.minimumSizeHint().width(), 60), control
                right = control.mapTo(page, control.rect().topRight()).x()
                assert 0 <= right < page.width(), control
        widget.release()


@pytest.mark.parametrize("name", ["Deblur", "Blur map", "Train", "Evaluate"])
def test_a_narrow_dock_needs_no_scrolling_sideways(viewer, tiny_model, qtbot, name):
    _, widget = beside(viewer, qtbot, "Attention mixer", name)
    (area, *_) = widget.findChildren(QScrollArea)
    assert area.horizontalScrollBar().maximum() == 0
    widget.release()


def test_a_dock_alone_is_as_wide_as_it_likes(viewer, tiny_model, qtbot):
    _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", "Evaluate")
    qtbot.wait(200)
    assert widget.width() >= widget.preferred_width
    labels = widget._controls._form._labels
    kind, below = widget._controls.kind.native, widget._controls.root.native
    assert labels[kind].y() < kind.y() + kind.height()  # beside its control, not above
    assert labels[kind].x() + labels[kind].width() <= kind.x()
    assert kind.y() < below.y()
    widget.release()
