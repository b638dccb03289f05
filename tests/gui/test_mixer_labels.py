"""Painting in the mixer: strength per label, and who reads the labels."""

import threading

import dask
import dask.array as da
import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QScrollArea

import napari_kpac as kpac
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, open_it, result_of
from tests.gui.test_as_a_person import drag, on_canvas

LEFT = Qt.MouseButton.LeftButton


def type_number(box, text):
    box.setFocus()
    box.selectAll()
    QTest.keyClicks(box, text)
    QTest.keyClick(box, Qt.Key.Key_Return)


def test_what_is_painted_at_strength_0_stays_as_it_is(viewer, mixer, image, qtbot, tmp_path):
    """As the tutorial says: New, pull the strength to 0, paint with the mouse."""
    controls = mixer._controls
    viewer.layers["cup"].scale = viewer.layers["cup (mixer)"].scale = (1, 1)
    assert not controls.label.isEnabled()  # there is nothing to act on yet
    qtbot.mouseClick(controls.new_labels, LEFT)
    viewer.reset_view()
    labels = mixer._labels.layer
    labels.brush_size = 20
    assert controls._strength_title.text() == "strength (label 1)"
    slider = controls.strength.slider
    middle = slider.height() // 2
    handle = QPoint(round(slider.width() * slider.value() / slider.maximum()), middle)
    qtbot.mousePress(slider, LEFT, pos=handle)
    qtbot.mouseMove(slider, QPoint(0, middle))
    qtbot.mouseRelease(slider, LEFT, pos=QPoint(0, middle))
    assert controls.strength.value == 0
    assert mixer.state.strength == 1
    drag(viewer, on_canvas(viewer, 40, 40), on_canvas(viewer, 60, 80))
    painted = np.asarray(labels.data) == 1
    assert 200 < painted.sum() < painted.size / 2
    plain = kpac.deblur(image, "tiny").image
    assert np.abs(plain[painted].astype(int) - image[painted]).mean() > 3

    def is_kept():
        found = result_of(viewer, "cup (mixer)").data
        return (
            found.shape == image.shape
            and np.array_equal(found[painted], image[painted])
            and np.abs(found[~painted].astype(int) - plain[~painted]).max() <= 1
        )

    qtbot.waitUntil(is_kept, timeout=WAIT)
    # It is a setting as any other: undo, redo, the recipe.
    qtbot.mouseClick(controls.buttons["Undo"], LEFT)
    assert controls.strength.value == 1
    qtbot.waitUntil(lambda: not is_kept(), timeout=WAIT)
    qtbot.mouseClick(controls.buttons["Redo"], LEFT)
    qtbot.waitUntil(is_kept, timeout=WAIT)
    mixer.save_recipe(tmp_path / "look.json")
    qtbot.waitUntil(lambda: "Saved" in mixer._message.text(), timeout=WAIT)
    again = kpac.replay(image, kpac.load_recipe(tmp_path / "look.json")).image
    assert np.array_equal(again[painted], image[painted])
    qtbot.mouseClick(controls.buttons["Reset"], LEFT)
    qtbot.waitUntil(lambda: not is_kept(), timeout=WAIT)
    mixer.load_recipe(tmp_path / "look.json")
    qtbot.waitUntil(is_kept, timeout=WAIT)
    assert controls.strength.value == 0
    controls.label.setValue(0)
    assert controls._strength_title.text() == "strength"
    assert controls.strength.value == 1
    controls.label.setValue(1)
    mixer._labels.value = ""
    assert (controls.label.isEnabled(), controls.label.value()) == (False, 0)


class Recording:
    """Labels on a disk, so to speak: notes which thread reads which plane."""

    def __init__(self, labels):
        self._labels = labels
        self.shape, self.dtype, self.ndim = labels.shape, labels.dtype, labels.ndim
        self.reads = []

    def __getitem__(self, index):
        planes = np.atleast_1d(np.arange(self.shape[0])[index[0]])
        self.reads += [(threading.current_thread().name, int(plane)) for plane in planes]
        return self._labels[index]


@pytest.fixture
def painted_stack(viewer, docked, tiny_model, qtbot):
    """A mixer on the second slice of a stack, with labels of every slice read by dask."""
    rng = np.random.default_rng(2)
    stack = rng.integers(0, 256, (4, 48, 64), dtype=np.uint8)
    labels = np.zeros(stack.shape, np.uint8)
    for number, plane in enumerate(labels):
        plane[8 * number : 8 * number + 12, 10:50] = 1
    recording = Recording(labels)
    # In the thread that asks, not in one of dask's own.
    with dask.config.set(scheduler="synchronous"):
        viewer.add_image(stack, name="stack")
        viewer.add_labels(da.from_array(recording, (1, 48, 64), name=False), name="regions")
        viewer.dims.set_current_step(0, 1)
        widget = docked(MixerWidget)
        widget._image.value = viewer.layers["stack"]
        open_it(widget, qtbot)
        widget._labels.value = viewer.layers["regions"]
        widget._controls.label.setValue(1)
        QTest.qWait(100)
        yield widget, stack, labels, recording


def slice_is(viewer, wanted):
    data = result_of(viewer, "stack (mixer)").data
    return data.shape == (1, *wanted.shape) and np.abs(data[0] - wanted.astype(int)).max() <= 1


def test_only_the_shown_plane_is_read_and_not_by_the_window(viewer, painted_stack, qtbot, tmp_path):
    mixer, stack, labels, recording = painted_stack

    def wanted(plane, gain):
        look = kpac.Modulation(labels=labels[plane], label_gains={1: [[gain, 1, 1, 1, 1], [1] * 5]})
        return kpac.deblur(stack, "tiny", modulation=look).image[plane]

    recording.reads.clear()
    type_number(mixer._controls.strips[0][0].gain.number, "0")
    qtbot.waitUntil(lambda: slice_is(viewer, wanted(1, 0)), timeout=WAIT)
    assert recording.reads == [("napari-kpac mixer", 1)]
    # Once is enough: nothing can have been painted.
    type_number(mixer._controls.strips[0][0].gain.number, "0.5")
    qtbot.waitUntil(lambda: slice_is(viewer, wanted(1, 0.5)), timeout=WAIT)
    mixer.save_recipe(tmp_path / "look.json")
    qtbot.waitUntil(lambda: "Saved" in mixer._message.text(), timeout=WAIT)
    assert np.array_equal(kpac.load_recipe(tmp_path / "look.json").modulation.labels, labels[1])
    assert recording.reads == [("napari-kpac mixer", 1)]
    recording.reads.clear()
    viewer.dims.set_current_step(0, 3)
    qtbot.waitUntil(lambda: slice_is(viewer, wanted(3, 0.5)), timeout=WAIT)
    # napari itself reads a slice that it shows, in the window's thread.
    assert {plane for _, plane in recording.reads} == {3}
    assert [name for name, _ in recording.reads].count("napari-kpac mixer") == 1


def test_a_mix_with_labels_of_every_slice_is_applied_to_the_stack(viewer, painted_stack, qtbot):
    mixer, stack, labels, recording = painted_stack
    type_number(mixer._controls.strength.number, "0")
    recording.reads.clear()
    qtbot.mouseClick(mixer._stack.button, LEFT)
    qtbot.waitUntil(lambda: "Done" in mixer._stack.message.text(), timeout=WAIT)
    made = result_of(viewer, "stack (mixer, all slices)").data
    plain = kpac.deblur(stack, "tiny").image
    assert np.array_equal(made[labels == 1], stack[labels == 1])
    assert np.array_equal(made[labels == 0], plain[labels == 0])
    names = {name for name, _ in recording.reads}
    assert names <= {"napari-kpac work", "napari-kpac mixer"}
    assert {plane for name, plane in recording.reads if name == "napari-kpac work"} == {0, 1, 2, 3}


def test_a_long_name_and_another_theme_need_no_scrolling_sideways(viewer, mixer, qtbot):
    (area, *_) = mixer.findChildren(QScrollArea)
    viewer.add_labels(
        np.zeros((8, 8), int), name="a layer with a name that is longer than the dock"
    )
    for theme in ("light", "dark"):
        viewer.theme = theme
        qtbot.wait(200)
        assert area.horizontalScrollBar().maximum() == 0
