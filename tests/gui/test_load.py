"""Two windows at once, docks that are closed, and a short soak."""

import gc
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QWidget

import napari_kpac as kpac
from benchmarks.soak import Sample, Soak, judge
from napari_kpac.core.progress import Progress
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from napari_kpac.widgets.task import Task
from tests.gui.conftest import WAIT, our_threads, result_of

KINDS = (DeblurWidget, MixerWidget, BlurMapWidget)


def dock(viewer, kind, qtbot):
    widget = kind(viewer)
    viewer.window.add_dock_widget(widget, name=kind.__name__, area="right")
    qtbot.waitUntil(lambda: "tiny" in widget._model.choices, timeout=WAIT)
    widget._model.value = "tiny"
    return widget


def is_shown(layer, wanted):
    """Return True if a layer shows all of an image, to one grey level."""
    return layer.data.shape == wanted.shape and np.abs(layer.data - wanted).max() <= 1


def close(viewer):
    """Close a window while another is open.

    napari deletes the textures of the layers by number in whichever OpenGL context is current; that
    of another window then loses its own (vispy/vispy#880, with two plain viewers too).
    """
    viewer.window._qt_viewer.canvas.native.makeCurrent()
    viewer.close()


def test_two_viewers_do_not_disturb_each_other(make_napari_viewer, tiny_model, image, qtbot):
    images = [image, np.ascontiguousarray(image[::-1, ::-1])]
    viewers = [make_napari_viewer(show=True) for _ in images]
    docks = []
    for viewer, pixels in zip(viewers, images, strict=True):
        viewer.add_image(pixels, name="cup")
        docks.append([dock(viewer, kind, qtbot) for kind in KINDS])
    for deblur, mixer, blur in docks:  # everything at once
        deblur._panel.button.click()
        mixer._open.click()
        blur._kind.value = "variance"
        blur._panel.button.click()
    for deblur, mixer, blur in docks:
        qtbot.waitUntil(
            lambda deblur=deblur, blur=blur: (
                not deblur._panel.task.is_running and not blur._panel.task.is_running
            ),
            timeout=WAIT,
        )
        qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    # The sliders of each move its own image.
    wanted = []
    for number, (_, mixer, _) in enumerate(docks):
        mixer._controls.strips[number][0].gain.number.setValue(0.25)
        rows = np.ones((2, 5))
        rows[number, 0] = 0.25
        steered = kpac.Modulation(gains=rows)
        wanted.append(kpac.deblur(images[number], "tiny", modulation=steered).image.astype(int))
    for viewer, pixels, mixed in zip(viewers, images, wanted, strict=True):
        shown = result_of(viewer, "cup (mixer)")
        qtbot.waitUntil(lambda shown=shown, mixed=mixed: is_shown(shown, mixed), timeout=WAIT)
        plain = kpac.deblur(pixels, "tiny").image
        assert np.array_equal(result_of(viewer, "cup (deblurred)").data, plain)
        qtbot.waitUntil(lambda viewer=viewer: len(viewer.layers) == 5, timeout=WAIT)
        assert result_of(viewer, "cup (blur)").data.shape == image.shape[:2]
    # What one window does ends with it; the other goes on.
    docks[0][0]._panel.button.click()
    close(viewers[0])
    before = result_of(viewers[1], "cup (deblurred)")
    before.data = np.zeros_like(before.data)
    docks[1][0]._panel.button.click()
    qtbot.waitUntil(lambda: before.data.any(), timeout=WAIT)
    assert np.array_equal(before.data, kpac.deblur(images[1], "tiny").image)
    qtbot.waitUntil(lambda: "Done" in docks[1][0]._message.text(), timeout=WAIT)


@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_dock_ends_in_the_windows_thread(viewer, tiny_model, kind, qtbot):
    """Wherever the garbage collector runs: a widget that ends in another thread crashes Qt."""
    widget = dock(viewer, kind, qtbot)
    ended = []
    widget.destroyed.connect(
        lambda: ended.append(threading.current_thread()), Qt.ConnectionType.DirectConnection
    )
    viewer.window.remove_dock_widget(widget)
    del widget
    collector = threading.Thread(target=gc.collect)
    collector.start()
    collector.join()
    qtbot.waitUntil(lambda: bool(ended), timeout=WAIT)
    assert ended == [threading.main_thread()]


def test_a_task_that_is_collected_stops_its_work(qapp):
    """Nobody asks a task before the garbage collector takes it and its window."""
    begun, steps = threading.Event(), []

    def work():
        for number in range(1000):
            steps.append(number)
            begun.set()
            yield Progress(number, 1000, "working")
            time.sleep(0.01)

    window = QWidget()
    window.itself = window
    Task(window).start(work)
    begun.wait(WAIT / 1000)
    del window
    gc.collect()
    for thread in our_threads():
        thread.join(WAIT / 1000)
    assert 0 < len(steps) < 1000


@pytest.mark.long
def test_a_short_soak(viewer, tiny_model):
    """A few cycles of benchmarks/soak.py, which runs for minutes and looks at memory too."""
    soak = Soak(viewer, seed=1, model="tiny")
    for _ in range(6):
        soak.cycle()
    soak.close()
    _, broken = judge(soak.samples, soak.problems.found)
    assert broken == []
    assert our_threads() == []


CALM = Sample(
    memory=500_000_000, threads=15, ours=0, layers=0, widgets=0, qt_widgets=1000, files=20
)


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda n: {"memory": 500_000_000 + n % 3 * 40_000_000}, []),
        (lambda n: {"memory": 500_000_000 + n * 1_000_000}, ["memory grew"]),
        (lambda n: {"threads": 15 + n // 7 % 2}, []),
        (lambda n: {"threads": 15 + n // 15}, ["there are more and more threads"]),
        (lambda n: {"files": 20 + n // 15}, ["there are more and more open files"]),
        (lambda n: {"layers": int(n == 30)}, ["a thread or a layer was left over"]),
        (lambda n: {"widgets": int(n > 50)}, ["a closed widget was never freed"]),
    ],
)
def test_the_soak_notices_what_grows_and_what_is_left(change, wanted):
    samples = [replace(CALM, **change(n)) for n in range(60)]
    assert judge(samples, [])[1] == wanted
    assert judge(samples, ["an exception"])[1] == ["an exception", *wanted]
