"""The Batch widget in a real window: real files in, real files out, a table of what was done."""

import numpy as np
import pytest
import tifffile
from PIL import Image
from qtpy.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from qtpy.QtGui import QDragEnterEvent, QDropEvent
from qtpy.QtWidgets import QApplication, QFileDialog

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.images import write_image
from napari_kpac.weights import ModelCard, save_network
from napari_kpac.widgets.batch import BatchWidget
from tests.engine.conftest import tiny_net
from tests.gui.conftest import WAIT
from tests.gui.conftest import choose as choose_entry

LEFT = Qt.MouseButton.LeftButton


@pytest.fixture
def photos(tmp_path, image):
    """Two photographs, one of them in a folder inside, and a file that is none."""
    folder = tmp_path / "photos"
    write_image(folder / "one.png", image)
    write_image(folder / "inside" / "two.png", image[::-1])
    (folder / "letter.jpg").write_bytes(b"Dear Sir or Madam")
    return folder


@pytest.fixture
def widget(docked, tiny_model):
    return docked(BatchWidget)


def press(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, LEFT)


def run(widget, qtbot):
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def rows(widget):
    """Return state and text of the rows by file."""
    columns = [widget._table.column_texts(column) for column in range(3)]
    return {name: (state, what) for name, state, what in zip(*columns, strict=True)}


def double_click(widget, qtbot, name):
    """Double-click the row of a file, as a person does."""
    row = widget._table.column_texts(0).index(name)
    place = widget._table.visualRect(widget._table.order.index(row, 1)).center()
    viewport = widget._table.viewport()
    qtbot.mouseClick(viewport, LEFT, pos=place)
    qtbot.mouseDClick(viewport, LEFT, pos=place)


def choose(widget, photos, out, monkeypatch, qtbot):
    """Choose the folders in dialogs, as a person does."""
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(photos))
    folder = next(each for each in buttons(widget) if each.text() == "Folder ...")
    qtbot.mouseClick(folder, LEFT)
    widget._output.line_edit.value = str(out)


def buttons(widget):
    from qtpy.QtWidgets import QPushButton

    return widget._inputs.findChildren(QPushButton)


def test_a_folder_goes_in_and_a_folder_comes_out(
    viewer, widget, photos, image, tmp_path, monkeypatch, qtbot, capsys
):
    out = tmp_path / "sharp.v2"  # a folder, whatever its name looks like
    choose(widget, photos, out, monkeypatch, qtbot)
    run(widget, qtbot)
    found = rows(widget)
    assert found["one.png"] == ("made", "one.png")
    assert found["two.png"] == ("made", "two.png")
    state, why = found["letter.jpg"]
    assert state == "failed"
    assert "cannot be read as an image" in why
    assert str(photos) + "/letter.jpg: " not in why
    assert "2 made, 1 failed" in widget._message.text()
    assert "--" not in widget._message.text() + why
    made = np.asarray(Image.open(out / "inside" / "two.png"))
    assert np.array_equal(made, kpac.deblur(image[::-1], "tiny").image)
    # What the terminal makes of the same files is the same, so it has nothing left to do.
    assert main(["deblur", str(photos), "-o", str(out), "--model", "tiny"]) == 1
    assert "2 done before, 1 failed" in capsys.readouterr().err
    double_click(widget, qtbot, "two.png")
    qtbot.waitUntil(lambda: len(viewer.layers) == 1, timeout=WAIT)
    assert np.array_equal(viewer.layers["two"].data, made)
    assert viewer.layers["two"].metadata["napari_kpac"]["model"]["name"] == "tiny"
    double_click(widget, qtbot, "letter.jpg")
    assert "letter.jpg: cannot be read" in widget._message.text()
    assert len(viewer.layers) == 1


def test_what_is_done_is_skipped_and_other_settings_are_refused(widget, photos, tmp_path, qtbot):
    (photos / "letter.jpg").unlink()
    widget._inputs.add([photos])
    widget._output.line_edit.value = str(tmp_path / "out")
    run(widget, qtbot)
    run(widget, qtbot)
    assert {state for state, _ in rows(widget).values()} == {"done before"}
    recipe = kpac.deblur(
        np.zeros((8, 8), np.uint8), "tiny", modulation=kpac.Modulation(strength=0.5)
    ).recipe
    recipe.save(tmp_path / "half.json")
    widget._recipe.choose(tmp_path / "half.json")
    qtbot.waitUntil(lambda: widget._recipe.recipe is not None, timeout=WAIT)
    assert not widget._model.visible  # the recipe has one
    assert "strength 0.5" in widget._recipe._summary.text()
    # No row is squeezed for the summary, so that buttons would lie over the list.
    wanted = widget._inputs.minimumSizeHint().height()
    qtbot.waitUntil(lambda: widget._inputs.height() >= wanted, timeout=WAIT)
    run(widget, qtbot)
    state, why = rows(widget)["one.png"]
    assert state == "failed"
    assert "the option overwrite" in why
    assert " --" not in why
    widget._overwrite.native.click()
    run(widget, qtbot)
    assert {state for state, _ in rows(widget).values()} == {"made"}
    made = np.asarray(Image.open(tmp_path / "out" / "one.png"))
    wanted = kpac.replay(np.asarray(Image.open(photos / "one.png")), recipe).image
    assert np.abs(made.astype(int) - wanted).max() <= 1


def test_progress_by_file_cancel_and_going_on(widget, photos, tmp_path, qtbot, monkeypatch):
    from napari_kpac.engine.stages import Stages

    (photos / "letter.jpg").unlink()
    encode, asked = Stages._encode_tile, []

    def slow(self, tile):
        import time

        asked.append(tile)
        time.sleep(0.2)
        return encode(self, tile)

    monkeypatch.setattr(Stages, "_encode_tile", slow)
    widget._inputs.add([photos / "one.png", photos / "inside"])
    widget._output.line_edit.value = str(tmp_path / "out")
    states = []
    widget._panel.task.progressed.connect(lambda _: states.append(rows(widget)))
    press(widget, qtbot)
    assert widget._panel.button.text() == "Cancel"
    qtbot.waitUntil(lambda: any("%" in s for r in states for s, _ in r.values()), timeout=WAIT)
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert "Cancelled" in widget._message.text()
    assert "stopped" in [state for state, _ in rows(widget).values()]
    assert not list((tmp_path / "out").rglob(".*"))  # nothing half-written
    run(widget, qtbot)
    assert {state for state, _ in rows(widget).values()} <= {"made", "done before"}
    assert len(rows(widget)) == 2


def test_files_are_dropped_and_what_is_missing_is_said(widget, photos, tmp_path, qtbot):
    run(widget, qtbot)
    assert "add files or a folder" in widget._message.text()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(photos / "one.png")), QUrl("https://example.org/x.png")])
    where = widget._inputs._list.viewport()
    about = Qt.DropAction.CopyAction, data, LEFT, Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(where, QDragEnterEvent(QPoint(5, 5), *about))
    QApplication.sendEvent(where, QDropEvent(QPointF(5, 5), *about))
    assert widget._inputs.paths == [photos / "one.png"]
    run(widget, qtbot)
    assert "folder for the results" in widget._message.text()
    widget._output.line_edit.value = str(photos)
    run(widget, qtbot)
    assert "write over the input" in widget._message.text()
    widget._output.line_edit.value = str(photos / "one.png")
    run(widget, qtbot)
    assert "cannot write" in widget._message.text()
    widget._output.line_edit.value = str(tmp_path / "out")
    widget._recipe.choose(tmp_path / "none.json")
    qtbot.waitUntil(lambda: "none.json" in widget._recipe._summary.text(), timeout=WAIT)
    run(widget, qtbot)
    assert "none.json" in widget._message.text()
    assert not (tmp_path / "out").exists()


def test_scale_and_units_come_with_an_opened_result(viewer, widget, tmp_path, qtbot):
    stack = np.random.default_rng(0).integers(0, 60000, (3, 40, 48)).astype(np.uint16)
    about = {"axes": "TYX", "PhysicalSizeX": 0.25, "PhysicalSizeXUnit": "µm",
             "PhysicalSizeY": 0.5, "PhysicalSizeYUnit": "µm",
             "TimeIncrement": 2.0, "TimeIncrementUnit": "s"}  # fmt: skip
    tifffile.imwrite(tmp_path / "cells.ome.tif", stack, ome=True, metadata=about)
    widget._inputs.add([tmp_path / "cells.ome.tif"])
    widget._output.line_edit.value = str(tmp_path / "out")
    widget._format.value = ".zarr"
    run(widget, qtbot)
    double_click(widget, qtbot, "cells.ome.tif")
    qtbot.waitUntil(lambda: len(viewer.layers) == 1, timeout=WAIT)
    (layer,) = viewer.layers
    np.testing.assert_allclose(layer.scale, (2, 0.5, 0.25))
    assert [str(unit) for unit in layer.units] == ["second", "micrometer", "micrometer"]
    assert layer.data.dtype == np.uint16
    assert layer.data.shape == stack.shape


def test_the_palette_and_the_menu_open_it(viewer, tiny_model):
    from napari._app_model import get_app_model
    from npe2 import PluginManager

    menus = PluginManager.instance().get_manifest("napari-kpac").contributions.menus
    assert "napari-kpac.batch" in [item.command for item in menus["napari/layers/filter"]]
    get_app_model().commands.execute_command("napari-kpac.batch").result()
    docks = [name for name in viewer.window.dock_widgets if "Batch" in name]
    assert docks
    widget = viewer.window.dock_widgets[docks[0]]
    assert isinstance(widget, BatchWidget)
    widget.release()


def test_the_reason_of_a_failure_names_no_file_of_the_documentation(
    widget, photos, tmp_path, monkeypatch, qtbot
):
    choose(widget, photos, tmp_path / "out", monkeypatch, qtbot)
    run(widget, qtbot)
    state, what = rows(widget)["letter.jpg"]
    assert state == "failed"
    assert what
    assert "docs/" not in what
    double_click(widget, qtbot, "letter.jpg")
    assert "docs/troubleshooting.md" in widget._message.text()  # shown as a link


def test_a_folder_of_dual_pixel_views(viewer, docked, tiny_model, own_models, tmp_path, qtbot):
    net = tiny_net(3, double=False, dilations=(1, 2, 3, 4, 5), views=2)
    save_network(net, own_models / "pairs.safetensors", ModelCard(name="pairs"))
    rng = np.random.default_rng(0)
    left, right = rng.integers(0, 256, (2, 64, 72, 3), dtype=np.uint8)
    write_image(tmp_path / "left" / "a.png", left)
    write_image(tmp_path / "right" / "a.png", right)
    widget = docked(BatchWidget)
    assert not widget._left.visible
    choose_entry(widget._model, next(t for t in texts(widget._model) if t.startswith("pairs")))
    assert widget._left.visible
    widget._output.line_edit.value = str(tmp_path / "sharp")
    press(widget, qtbot)
    assert "left and the right views" in widget._message.text()
    widget._left.line_edit.value = str(tmp_path / "left")
    widget._right.line_edit.value = str(tmp_path / "right")
    run(widget, qtbot)
    assert rows(widget)["a.png"] == ("made", "a.png")
    wanted = kpac.deblur(None, "pairs", views=(left, right)).image
    assert np.array_equal(np.asarray(Image.open(tmp_path / "sharp" / "a.png")), wanted)


def texts(box):
    return [box.native.itemText(n) for n in range(box.native.count())]
