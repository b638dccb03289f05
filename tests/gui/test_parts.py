"""The parts that all docks share: the run panel and the layers of results."""

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels
from qtpy.QtCore import Qt

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import Progress
from napari_kpac.widgets.layers import ResultLayers, moved, placement
from napari_kpac.widgets.run_panel import RunPanel, duration
from napari_kpac.widgets.task import Latest
from tests.gui.conftest import WAIT


@pytest.fixture
def panel(qtbot):
    made = RunPanel("Go", "Do it.", cancelled="Cancelled, as you wished.")
    qtbot.addWidget(made)
    made.show()
    return made


def three_steps():
    for number in range(1, 4):
        yield Progress(number, 3, "counting", "short of memory" if number == 2 else "")
    return "three"


def wait_until_idle(panel, qtbot):
    qtbot.waitUntil(lambda: not panel.task.is_running, timeout=WAIT)


def test_a_run_shows_its_steps_and_hands_its_result_over(panel, qtbot):
    texts, results = [], []
    panel.task.progressed.connect(lambda _: texts.append(panel.message.text()))
    panel.wanted.connect(lambda: panel.start(three_steps, "Loading ...", results.append))
    qtbot.mouseClick(panel.button, Qt.MouseButton.LeftButton)
    assert (panel.button.text(), panel.message.text()) == ("Cancel", "Loading ...")
    assert panel.bar.maximum() == 0  # it moves, for nobody knows how long it will take
    wait_until_idle(panel, qtbot)
    assert results == ["three"]
    assert texts[0].startswith("Step 1 of 3 (counting), about ")
    assert texts[1] == "Step 2 of 3 (counting), short of memory"
    assert panel.note == "short of memory"
    assert (panel.button.text(), panel.bar.maximum(), panel.bar.value()) == ("Go", 1, 0)


def test_a_run_is_cancelled_by_the_same_button(panel, qtbot):
    closed, results = [], []

    def endless():
        try:
            while True:
                yield Progress(1, 2, "waiting")
        finally:
            closed.append(True)

    panel.start(endless, "Loading ...", results.append)
    qtbot.waitUntil(lambda: "Step" in panel.message.text(), timeout=WAIT)
    qtbot.mouseClick(panel.button, Qt.MouseButton.LeftButton)
    assert panel.message.text() == "Stopping after this step ..."
    wait_until_idle(panel, qtbot)
    assert panel.message.text() == "Cancelled, as you wished."
    assert (closed, results) == ([True], [])


@pytest.mark.parametrize("kind", [RuntimeError, StopIteration, ConfigError])
def test_whatever_goes_wrong_is_a_message(panel, qtbot, kind):
    """RuntimeErrors too: torch's errors are such, and napari's own workers swallow them."""

    def broken():
        yield Progress(1, 2, "breaking")
        raise kind("the card fell out")

    panel.start(broken, "Loading ...")
    wait_until_idle(panel, qtbot)
    assert panel.message.text().startswith("⚠ ")
    assert "the card fell out" in panel.message.text() or kind is StopIteration
    assert panel.button.text() == "Go"
    with panel.message.showing_errors():
        raise ConfigError("tile=3: too small")
    assert panel.message.text().startswith("⚠ tile=3: too small (see docs/")


def test_work_that_is_forgotten_says_nothing(panel, qtbot):
    results = []
    panel.start(three_steps, "Loading ...", results.append)
    panel.task.cancel(forget=True)
    panel.message.setText("Gone.")
    qtbot.wait(100)
    assert (results, panel.message.text()) == ([], "Gone.")


def test_of_questions_that_wait_the_newest_is_answered(qtbot, qapp):
    asked, answers = Latest(), []
    for number in range(10):
        asked.ask(lambda number=number: number, answers.append)
    qtbot.waitUntil(lambda: not asked.is_running, timeout=WAIT)
    assert answers == [0, 9]


def test_durations():
    assert [duration(each) for each in (3.4, 99, 720, 9000)] == ["3 s", "99 s", "12 min", "2.5 h"]


@pytest.fixture
def source():
    viewer = ViewerModel()
    layer = viewer.add_image(
        np.zeros((20, 30), np.uint8), name="cup", scale=(0.5, 0.25), translate=(3, 4), rotate=10,
        units="um", affine=[[1, 0, 3], [0, 2, 4], [0, 0, 1]], contrast_limits=(3, 90), gamma=0.5,
    )  # fmt: skip
    return viewer, layer


def test_a_result_lies_beside_its_source_and_looks_like_it(source):
    viewer, layer = source
    above = viewer.add_labels(np.zeros((20, 30), int))
    results = ResultLayers(viewer)
    made = results.put("key", layer.data + 1, placement(layer), name="new", beside=layer)
    assert list(viewer.layers) == [layer, made, above]
    assert set(viewer.layers.selection) == {above}
    for name in ("scale", "translate", "rotate", "shear", "contrast_limits", "gamma"):
        np.testing.assert_allclose(getattr(made, name), getattr(layer, name))
    np.testing.assert_allclose(made.affine.affine_matrix, layer.affine.affine_matrix)
    assert (made.units, made.axis_labels) == (layer.units, layer.axis_labels)
    assert tuple(made.contrast_limits_range) == (0, 255)
    part = results.put("part", layer.data[5:, 8:], moved(layer, (5, 8)), name="part")
    np.testing.assert_allclose(part.data_to_world((0, 0)), layer.data_to_world((5, 8)))


def test_a_result_is_found_again_updated_and_replaced(source):
    viewer, layer = source
    results = ResultLayers(viewer)
    made = results.put("key", layer.data, placement(layer), name="new", record={"a": 1})
    made.metadata = {**made.metadata, "mine": 2}
    layer.translate = (7, 7)
    again = results.put("key", layer.data[:5] + 2, placement(layer), name="new", record={"a": 2})
    assert again is made is results.find("key")
    assert again.metadata == {"napari_kpac": {"a": 2}, "mine": 2}
    assert again.data.shape == (5, 30)
    np.testing.assert_allclose(again.translate, (7, 7))
    assert results.put("key", layer.data, {}, name="new").metadata == {
        "napari_kpac": None,
        "mine": 2,
    }
    colour = results.put("key", np.zeros((20, 30, 3), np.uint8), {}, name="new", rgb=True)
    stack = results.put("key", np.zeros((3, 20, 30), np.uint8), {}, name="new")
    assert [type(each) for each in (colour, stack)] == [Image, Image]
    assert (colour.rgb, stack.rgb, list(viewer.layers)) == (True, False, [layer, stack])
    viewer.layers.remove(stack)
    assert results.find("key") is None
    labels = results.put("key", np.zeros((20, 30), np.uint8), {}, name="new", kind="labels")
    assert (type(labels), viewer.layers.selection.active) == (Labels, labels)
    results.remove("key")
    results.remove("key")
    assert list(viewer.layers) == [layer]


def test_a_renamed_result_is_the_user_s_and_stays(source):
    viewer, layer = source
    results = ResultLayers(viewer)
    first = results.put("key", layer.data, placement(layer), name="new", beside=layer)
    first.name = "look A"
    second = results.put("key", layer.data + 1, placement(layer), name="new", beside=layer)
    assert list(viewer.layers) == [layer, first, second]  # the newest on top
    assert not first.data.any()
    first.name = "new"  # a layer of that name is not taken for ours
    results.put("key", np.zeros((20, 30, 3), np.uint8), {}, name="new", rgb=True)
    results.remove("key")
    assert list(viewer.layers) == [layer, first]


def test_contrast_limits_are_taken_over_again_when_they_changed(source):
    viewer, layer = source
    results = ResultLayers(viewer)
    made = results.put("key", layer.data, placement(layer), name="new", beside=layer)
    made.contrast_limits = (1, 2)  # the user's
    results.put("key", layer.data, placement(layer), name="new", beside=layer)
    assert tuple(made.contrast_limits) == (1, 2)
    layer.data, layer.contrast_limits = np.full((20, 30), 4000, np.uint16), (10, 5000)
    results.put("key", layer.data, placement(layer), name="new", beside=layer)
    assert tuple(made.contrast_limits) == (10, 5000)
