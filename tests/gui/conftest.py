"""Real windows: a viewer that is shown, and a tiny model in the list."""

import threading
from contextlib import suppress

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest

import napari_kpac as kpac
from napari_kpac.weights import ModelCard, save_network
from napari_kpac.widgets.mixer import MixerWidget
from tests.engine.conftest import tiny_net

WAIT = 30_000


@pytest.fixture
def tiny_model(own_models):
    """A model called ``tiny``: fast, with five dilations as in the paper."""
    net = tiny_net(3, double=False, dilations=(1, 2, 3, 4, 5))
    save_network(net, own_models / "tiny.safetensors", ModelCard(name="tiny"))
    return net


@pytest.fixture
def viewer(make_napari_viewer):
    """A napari window on screen; the fixture checks that nothing survives it."""
    shown = make_napari_viewer(show=True)
    shown.window.resize(1280, 800)
    return shown


@pytest.fixture
def image():
    return np.random.default_rng(0).integers(0, 256, (96, 128, 3), dtype=np.uint8)


@pytest.fixture
def docked(viewer, qtbot):
    """Put a widget into a dock of the window; released at the end."""
    widgets = []

    def dock(kind):
        widget = kind(viewer)
        viewer.window.add_dock_widget(widget, name=kind.__name__, area="right")
        widgets.append(widget)
        qtbot.waitUntil(lambda: "tiny" in widget._model.choices, timeout=WAIT)
        widget._model.value = "tiny"
        return widget

    yield dock
    for widget in widgets:
        with suppress(RuntimeError):  # it went with its window
            widget.release()


@pytest.fixture
def mixer(viewer, docked, tiny_model, image, qtbot):
    """The mixer, open on an image called ``cup``."""
    viewer.add_image(image, name="cup", scale=(0.5, 0.5), units="um")
    widget = docked(MixerWidget)
    open_it(widget, qtbot)
    yield widget
    renderer = widget._renderer
    widget.release()
    if renderer is not None:
        renderer.close()
        renderer.join(10)
        assert not renderer.is_alive


def choose(box, name):
    """Choose an entry of a combo box with the keyboard."""
    box.native.setFocus()
    steps = box.native.findText(name) - box.native.currentIndex()
    for _ in range(abs(steps)):
        QTest.keyClick(box.native, Qt.Key.Key_Down if steps > 0 else Qt.Key.Key_Up)
    assert box.native.currentText() == name


def open_it(widget, qtbot):
    qtbot.mouseClick(widget._open, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(widget._controls.isEnabled, timeout=WAIT)


@pytest.fixture(autouse=True)
def no_thread_survives():
    """Our threads end by themselves once nobody wants their work any more."""
    yield
    for thread in our_threads():
        thread.join(WAIT / 1000)
    assert our_threads() == []


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("napari-kpac")]


def result_of(viewer, name):
    return next(layer for layer in viewer.layers if layer.name == name)


__all__ = ["WAIT", "choose", "kpac", "open_it", "our_threads", "result_of"]
