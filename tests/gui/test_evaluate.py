"""The Evaluate widget in a real window."""

import csv

import numpy as np
import pytest
from qtpy.QtCore import QPoint, Qt

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.images import write_image
from napari_kpac.widgets.evaluate import EvaluateWidget
from tests.gui.conftest import WAIT, result_of


@pytest.fixture
def data(tmp_path):
    """Three pairs in the folders of DPDD."""
    from skimage import data

    for i in range(3):
        part = data.coffee()[70 * i : 70 * i + 64, 100:196]
        write_image(tmp_path / "photos" / f"p{i}.png", part)
    options = SynthesisOptions(val=1, test=0, max_radius=4)
    finish(synthesise([tmp_path / "photos"], tmp_path / "pairs", options))
    return tmp_path / "pairs"


@pytest.fixture
def widget(viewer, qtbot, tiny_model):
    widget = EvaluateWidget(viewer)
    viewer.window.add_dock_widget(widget, name="Evaluate", area="right")
    qtbot.waitUntil(lambda: "tiny" in dict(widget._controls.models.entries).values(), timeout=WAIT)
    widget._controls.models.chosen = ("tiny",)
    yield widget
    widget.release()


def press(widget, qtbot):
    qtbot.mouseClick(widget._panel.button, Qt.MouseButton.LeftButton)


def evaluate(widget, data, qtbot, **changes):
    widget._controls.root.value = data  # recognised by what is in it
    widget._controls.methods.chosen = ("unsharp",)
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def test_tables_sort_open_and_export(viewer, widget, data, qtbot, tmp_path):
    evaluate(widget, data, qtbot)
    expected = finish(
        kpac.evaluate(
            kpac.EvaluateOptions(kind="dpdd", root=str(data), model=("tiny",), method=("unsharp",))
        )
    )
    means, images = widget._means, widget._images
    assert means.column_texts(0)[:3] == ["input", "tiny", "unsharp"]
    assert means.column_texts(0)[-1] == "paper, on DPDD: KPAC (dual)"
    assert means.column_texts(1)[:3] == [f"{line.means['psnr']:.2f}" for line in expected.lines]
    assert "25.24" in means.column_texts(1)
    assert images.column_texts(0) == [row.image for row in expected.results.rows]

    # Sort by PSNR, as a person does: a click on the heading.
    widget._tabs.setCurrentWidget(images)
    header = images.horizontalHeader()
    place = QPoint(header.sectionViewportPosition(2) + 10, header.height() // 2)
    qtbot.mouseClick(header.viewport(), Qt.MouseButton.LeftButton, pos=place)
    shown = [float(text) for text in images.column_texts(2)]
    assert len(shown) == 9
    assert shown in (sorted(shown), sorted(shown, reverse=True))

    # The row on top after sorting is opened, not the one that was first.
    index = images.order.index(0, 0)
    row = expected.results.rows[images.row_of(index)]
    images.scrollTo(index)
    middle = images.visualRect(index).center()
    qtbot.mouseClick(images.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    qtbot.mouseDClick(images.viewport(), Qt.MouseButton.LeftButton, pos=middle)
    name = f"{row.image}: result minus sharp"
    qtbot.waitUntil(lambda: name in viewer.layers, timeout=WAIT)
    result = result_of(viewer, f"{row.image}: {row.method}") if row.method != "input" else None
    sharp = result_of(viewer, f"{row.image}: sharp")
    if result is not None:
        difference = result_of(viewer, name).data
        np.testing.assert_allclose(difference, (result.data - sharp.data).mean(axis=2), atol=1e-6)

    widget.export(tmp_path / "out")
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    with (tmp_path / "out" / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(each["psnr"]) for each in rows] == pytest.approx(
        [each.scores["psnr"] for each in expected.results.rows]
    )
    assert (tmp_path / "out" / "report.html").read_text().startswith("<!doctype html>")
    assert "report.html" in widget._message.text()


def test_after_cancel_the_means_so_far_and_the_export_are_there(widget, data, qtbot, tmp_path):
    widget._controls.root.value = data
    widget._controls.methods.chosen = ("ebdb", "richardson-lucy", "wiener")
    press(widget, qtbot)
    assert not widget._export.isEnabled()
    assert widget._tabs.currentWidget() is widget._images  # rows come in there
    # One image and a bit: input, the model and three methods.
    qtbot.waitUntil(lambda: widget._images.content.rowCount() >= 6, timeout=WAIT)
    press(widget, qtbot)
    qtbot.waitUntil(widget._export.isEnabled, timeout=WAIT)
    assert widget._message.text().startswith("Cancelled. The means are over the 1 image that")
    rows = widget._images.content.rowCount()
    assert 6 <= rows < 3 * 5
    assert widget._panel.button.text() == "Evaluate"
    means, images = widget._means, widget._images
    assert widget._tabs.currentWidget() is means
    methods = ["input", "tiny", "ebdb", "wiener", "richardson-lucy"]
    assert means.column_texts(0)[:5] == methods
    assert images.column_texts(1)[:5] == methods
    assert means.column_texts(1)[:5] == images.column_texts(2)[:5]
    assert means.column_texts(len(means.headings) - 1)[:5] == ["1"] * 5

    widget.export(tmp_path / "out")
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert "report.html" in widget._message.text()
    with (tmp_path / "out" / "results.csv").open() as file:
        assert len(list(csv.DictReader(file))) == rows
    # A complete evaluation takes its place.
    widget._controls.methods.chosen = ()
    press(widget, qtbot)

    def counts():
        return means.column_texts(len(means.headings) - 1)[:2]

    qtbot.waitUntil(lambda: counts() == ["3", "3"], timeout=WAIT)
    assert widget._export.isEnabled()


def test_cancel_before_the_first_image_is_complete_leaves_an_empty_table(widget, data, qtbot):
    widget._controls.root.value = data
    widget._controls.methods.chosen = ("ebdb",)
    press(widget, qtbot)
    qtbot.waitUntil(lambda: widget._images.content.rowCount() >= 1, timeout=WAIT)
    press(widget, qtbot)
    qtbot.waitUntil(
        lambda: not widget._panel.task.is_running and not widget._summariser.is_running,
        timeout=WAIT,
    )
    if widget._images.content.rowCount() < 3:
        assert widget._message.text() == "Cancelled."
        assert not widget._export.isEnabled()


def test_pairs_have_two_folders(widget, data, qtbot):
    """As a person has them: blurred images here, sharp ones somewhere else."""
    controls = widget._controls
    assert not controls.sharp.visible
    controls.kind.value = "pairs"
    assert controls.sharp.visible
    assert controls._form._labels[controls.root.native].text() == "blurred folder"
    controls.root.value = data / "val_c" / "source"
    controls.sharp.value = data / "val_c" / "target"
    assert controls.kind.value == "pairs"
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert widget._means.column_texts(0)[:2] == ["input", "tiny"]
    pairs = widget._means.column_texts(1)[:2]
    # The same pairs in the folders of DPDD give the same figures.
    controls.root.value = data
    assert controls.kind.value == "dpdd"
    assert not controls.sharp.visible
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert widget._means.column_texts(1)[:2] == pairs


@pytest.mark.parametrize(
    ("folders", "kind"),
    [
        (("test_c/source", "test_c/target"), "dpdd"),
        (("blurred", "sharp"), "pairs"),
        (("image", "gt"), "cuhk"),
        (("anything",), "synthetic"),
    ],
)
def test_what_a_folder_holds_is_recognised(widget, tmp_path, folders, kind):
    for folder in folders:
        (tmp_path / folder).mkdir(parents=True)
    widget._controls.root.value = tmp_path
    assert widget._controls.kind.value == kind
    assert widget._controls.fields["split"].value == ("test" if kind == "dpdd" else "val")


def test_the_means_come_into_view_when_all_is_done(viewer, widget, data, qtbot):
    viewer.window.resize(1000, 500)
    widget._tabs.setCurrentWidget(widget._images)
    evaluate(widget, data, qtbot)
    assert widget._tabs.currentWidget() is widget._means
    area = widget._scrolling
    place = widget._tabs.mapTo(area.viewport(), QPoint(0, 0)).y()
    assert 0 <= place < area.viewport().height()


def test_mistakes_are_said_before_the_start(widget, qtbot, tmp_path):
    press(widget, qtbot)
    assert "choose the folder" in widget._message.text()
    widget._controls.root.value = tmp_path
    widget._controls.fields["noise"].value = "much"
    press(widget, qtbot)
    assert "noise" in widget._message.text()
    widget._controls.fields["noise"].value = "0"
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert "no photographs" in widget._message.text()


def test_blur_detection_has_its_own_controls_and_columns(viewer, widget, qtbot, tmp_path):
    from tests.detection.conftest import half_blurred_scene

    image, blurred = half_blurred_scene()
    write_image(tmp_path / "image" / "a.png", np.rint(image * 255).astype(np.uint8))
    write_image(tmp_path / "gt" / "a.png", (blurred * 255).astype(np.uint8))
    controls = widget._controls
    assert not controls.blurred.visible
    controls.kind.value = "cuhk"
    assert controls.blurred.visible
    assert not controls.fields["noise"].visible
    controls.root.value = tmp_path
    press(widget, qtbot)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert "local variance" in widget._means.column_texts(0)
    assert "average_precision" in widget._means.headings
    widget._open(widget._images.order.index(0, 0))
    qtbot.waitUntil(lambda: "a: truth" in viewer.layers, timeout=WAIT)
    assert np.array_equal(result_of(viewer, "a: truth").data > 0, blurred)
