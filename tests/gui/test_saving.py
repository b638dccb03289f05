"""Saving from the window: results with scale, units and recipe; regions as CSV; endings."""

import csv

import numpy as np
import pytest
import tifffile
from qtpy.QtCore import Qt, QTimer
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QFileDialog, QLineEdit, QMessageBox

import napari_kpac as kpac
from napari_kpac.images import open_image
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.dialogs import ask_save_name, with_ending
from napari_kpac.widgets.files import read_result
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, result_of

LEFT = Qt.MouseButton.LeftButton


def name(monkeypatch, path, kind=""):
    """Answer the next dialogs with this name."""
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_, **__: (str(path), kind))


def deblur(viewer, docked, qtbot):
    widget = docked(DeblurWidget)
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    return widget


@pytest.fixture
def stack(viewer):
    data = np.random.default_rng(0).integers(0, 4000, (3, 40, 48)).astype(np.uint16)
    return viewer.add_image(
        data, name="cells", scale=(2, 0.5, 0.25), units=("s", "um", "um"),
        axis_labels=("t", "y", "x"),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["TIFF (*.tif *.tiff)", "Zarr (*.zarr)"])
def test_the_button_keeps_scale_units_and_recipe(
    viewer, docked, tiny_model, stack, tmp_path, monkeypatch, qtbot, kind
):
    widget = deblur(viewer, docked, qtbot)
    name(monkeypatch, tmp_path / "sharp", kind)  # without an ending
    qtbot.mouseClick(widget._save, LEFT)
    path = tmp_path / ("sharp.tif" if "TIFF" in kind else "sharp.zarr")
    qtbot.waitUntil(lambda: "Saved" in widget._message.text(), timeout=WAIT)
    assert str(path) in widget._message.text()
    layer = result_of(viewer, "cells (deblurred)")
    with open_image(path, whole=True) as found:
        assert np.array_equal(found.array, layer.data)
        assert found.array.dtype == np.uint16
        assert found.metadata.axes == "TYX"
        assert found.metadata.scale == {"T": 2, "Y": 0.5, "X": 0.25}
        assert found.metadata.units == {"T": "s", "Y": "um", "X": "um"}
    recipe = kpac.load_recipe(path)
    assert recipe.model_name == "tiny"
    again = kpac.replay(stack.data, recipe).image
    assert np.abs(again.astype(int) - layer.data).max() <= 1
    pixels, attributes, _ = read_result(path)
    assert attributes["scale"] == [2, 0.5, 0.25]
    assert pixels.shape == layer.data.shape


@pytest.mark.parametrize("ending", [".tif", ".zarr"])
def test_napari_s_own_save_does_the_same_for_colours(
    viewer, docked, tiny_model, image, tmp_path, qtbot, ending
):
    viewer.add_image(image, name="cup", scale=(0.5, 0.25), units=("mm", "mm"))
    deblur(viewer, docked, qtbot)
    layer = result_of(viewer, "cup (deblurred)")
    written = layer.save(str(tmp_path / f"cup{ending}"), plugin="napari-kpac")
    assert written == [str(tmp_path / f"cup{ending}")]
    pixels, attributes, _ = read_result(tmp_path / f"cup{ending}")
    assert np.array_equal(pixels, layer.data)
    assert attributes["rgb"]
    assert attributes["scale"] == [0.5, 0.25]
    assert attributes["units"] == ["mm", "mm"]
    assert attributes["metadata"]["napari_kpac"] == layer.metadata["napari_kpac"]
    if ending == ".tif":
        with tifffile.TiffFile(tmp_path / "cup.tif") as file:
            assert 'PhysicalSizeX="0.25"' in file.ome_metadata


def test_napari_s_own_dialog_offers_it_and_adds_an_ending(
    viewer, docked, tiny_model, stack, tmp_path, monkeypatch, qtbot
):
    deblur(viewer, docked, qtbot)
    viewer.layers.selection.active = result_of(viewer, "cells (deblurred)")
    offered = []

    def answer(*_, filter, **__):
        offered.extend(filter.split(";;"))
        chosen = next(each for each in offered if "scale, units and recipe" in each)
        return str(tmp_path / "by-napari"), chosen

    monkeypatch.setattr(QFileDialog, "getSaveFileName", answer)
    viewer.window._qt_viewer._save_layers_dialog(selected=True)
    assert any(each.startswith("KPAC defocus deblurring result with") for each in offered)
    assert kpac.load_recipe(tmp_path / "by-napari.tif").model_name == "tiny"


def test_the_palette_saves_the_selected_layer(
    viewer, docked, tiny_model, stack, tmp_path, monkeypatch, qtbot
):
    from napari._app_model import get_app_model

    widget = deblur(viewer, docked, qtbot)
    command = get_app_model().commands
    viewer.layers.selection.active = result_of(viewer, "cells (deblurred)")
    name(monkeypatch, tmp_path / "palette")
    command.execute_command("napari-kpac.write_result").result()
    assert kpac.load_recipe(tmp_path / "palette.tif").model_name == "tiny"
    qtbot.mouseClick(widget._comparison._check, LEFT)
    viewer.layers.selection.active = result_of(viewer, "split")
    with pytest.raises(kpac.KpacError, match="select the layer of a result"):
        command.execute_command("napari-kpac.write_result").result()


def test_without_a_result_it_says_so(viewer, docked, tiny_model, stack, qtbot):
    widget = docked(DeblurWidget)
    qtbot.mouseClick(widget._save, LEFT)
    assert "no result to save" in widget._message.text()


def test_regions_are_a_csv_file_and_napari_s_features_table(
    viewer, docked, tiny_model, tmp_path, monkeypatch, qtbot
):
    from scipy.ndimage import gaussian_filter

    half = np.random.default_rng(0).integers(0, 256, (64, 96)).astype(np.uint8)
    half[:, 48:] = gaussian_filter(half[:, 48:].astype(float), 3).astype(np.uint8)
    viewer.add_image(half, name="half", scale=(0.5, 0.5), units="um")
    widget = docked(BlurMapWidget)
    asked = (widget._deciding, widget._scoring, widget._extras)
    widget._kind.value = "variance"
    assert not widget._save_regions.isEnabled()
    qtbot.mouseClick(widget._panel.button, LEFT)
    qtbot.waitUntil(lambda: widget._result is not None, timeout=WAIT)
    name(monkeypatch, tmp_path / "regions")
    qtbot.mouseClick(widget._regions, LEFT)
    qtbot.waitUntil(lambda: "half (blurred regions)" in viewer.layers, timeout=WAIT)
    qtbot.mouseClick(widget._save_regions, LEFT)
    qtbot.waitUntil(lambda: (tmp_path / "regions.csv").exists(), timeout=WAIT)
    qtbot.waitUntil(lambda: not any(each.is_running for each in asked), timeout=WAIT)
    with (tmp_path / "regions.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    layer = viewer.layers["half (blurred regions)"]
    assert len(lines) == layer.data.max()
    for line, label in zip(lines, layer.features["index"][1:], strict=True):
        pixels = int((layer.data == label).sum())
        assert int(line["index"]) == label
        assert int(line["area_px"]) == pixels
        assert float(line["area"]) == pytest.approx(pixels / 4)
        assert line["area_unit"] == "um^2"
    viewer.layers.selection.active = layer
    _, table = viewer.window.add_plugin_dock_widget("napari", "Features table widget")
    shown = table.table.model()
    headings = [shown.headerData(n, Qt.Orientation.Horizontal) for n in range(shown.columnCount())]
    assert {"index", "area", "area_unit", "mean"} <= set(map(str, headings))
    assert shown.rowCount() == len(lines) + 1  # the background
    table.table.selectRow(1)  # a row of the table chooses the label that it is about
    assert layer.selected_label == layer.features["index"][1] == 1
    assert layer.features["area_px"][1] == (layer.data == 1).sum()


def test_every_dialog_of_ours_gives_an_ending(
    viewer, docked, tiny_model, image, tmp_path, monkeypatch, qtbot
):
    viewer.add_image(image, name="cup")
    mixer, blur = docked(MixerWidget), docked(BlurMapWidget)
    qtbot.mouseClick(mixer._open, LEFT)
    qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    name(monkeypatch, tmp_path / "look")
    qtbot.mouseClick(mixer._controls.buttons["Save"], LEFT)
    qtbot.waitUntil((tmp_path / "look.json").exists, timeout=WAIT)
    assert kpac.load_recipe(tmp_path / "look.json").model_name == "tiny"
    blur._kind.value = "variance"
    qtbot.mouseClick(blur._panel.button, LEFT)
    qtbot.waitUntil(lambda: blur._result is not None, timeout=WAIT)
    for kind, written in (("Map, 32 bits (*.tif)", "map.tif"), ("NumPy (*.npy)", "map.npy")):
        name(monkeypatch, tmp_path / "map", kind)
        qtbot.mouseClick(blur._save, LEFT)
        qtbot.waitUntil(lambda file=tmp_path / written: file.exists(), timeout=WAIT)
    qtbot.waitUntil(lambda: not blur._extras.is_running, timeout=WAIT)


def test_a_name_is_typed_into_the_real_dialog(qtbot, tmp_path):
    """The dialog itself, with the keyboard; what is there is not replaced unasked."""
    monkey = []

    def type_name():
        dialog = QApplication.activeModalWidget()
        edit = dialog.findChild(QLineEdit)
        edit.setText(str(tmp_path / "note"))
        QTest.keyClick(edit, Qt.Key.Key_Return)

    def refuse():
        box = QApplication.activeModalWidget()
        assert isinstance(box, QMessageBox)
        monkey.append(box.text())
        QTest.mouseClick(box.button(QMessageBox.StandardButton.No), LEFT)

    QTimer.singleShot(500, type_name)
    assert ask_save_name(None, "Save", str(tmp_path / "x.csv"), "Table (*.csv)") == (
        tmp_path / "note.csv", "Table (*.csv)",
    )  # fmt: skip
    (tmp_path / "note.csv").write_text("mine")
    QTimer.singleShot(500, type_name)
    QTimer.singleShot(1500, refuse)
    assert ask_save_name(None, "Save", str(tmp_path / "x.csv"), "Table (*.csv)") is None
    assert "note.csv is there already" in monkey[0]


def test_an_ending_of_another_kind_is_taken_at_its_word(tmp_path, monkeypatch):
    kinds = "Map (*.png);;Values (*.tif *.tiff)"
    name(monkeypatch, tmp_path / "a.tiff", "Map (*.png)")
    assert ask_save_name(None, "Save", "a", kinds) == (tmp_path / "a.tiff", "Values (*.tif *.tiff)")
    name(monkeypatch, tmp_path / "a", "Values (*.tif *.tiff)")
    assert ask_save_name(None, "Save", "a", kinds) == (tmp_path / "a.tif", "Values (*.tif *.tiff)")
    name(monkeypatch, "")
    assert ask_save_name(None, "Save", "a", kinds) is None


def test_endings_that_are_there_stay(tmp_path):
    kind = "TIFF (*.tif *.tiff)"
    for given, wanted in (
        ("a", "a.tif"), ("a.TIFF", "a.TIFF"), ("a.v2", "a.v2.tif"), ("a.ome.tif", "a.ome.tif"),
    ):  # fmt: skip
        assert with_ending(tmp_path / given, kind) == tmp_path / wanted
    assert with_ending(tmp_path / "a", "All files (*)") == tmp_path / "a"
