"""The Deblur widget in a real window, driven with mouse and keyboard."""

import dask.array as da
import numpy as np
import pytest
from napari.layers import Image
from qtpy.QtCore import Qt

import napari_kpac as kpac
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, choose, result_of


@pytest.fixture
def widget(docked, tiny_model):
    return docked(DeblurWidget)


def click(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def run(qtbot, widget):
    click(qtbot, widget._panel.button)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)


def test_one_button_gives_the_engine_s_result(viewer, widget, image, tiny_model, qtbot):
    layer = viewer.add_image(
        image, name="cup", scale=(0.5, 0.25), translate=(3, 4), rotate=10, units="um",
        metadata={"mine": 1},
    )  # fmt: skip
    run(qtbot, widget)
    result = result_of(viewer, "cup (deblurred)")
    assert np.array_equal(result.data, kpac.deblur(image, "tiny").image)
    assert result.data.dtype == image.dtype
    for name in ("scale", "translate", "rotate", "shear"):
        np.testing.assert_allclose(getattr(result, name), getattr(layer, name))
    assert result.units == layer.units
    assert result.axis_labels == layer.axis_labels
    assert result.metadata["napari_kpac"]["model"]["name"] == "tiny"
    assert viewer.layers.index(result) == viewer.layers.index(layer) + 1
    assert "Done" in widget._message.text()


def test_running_again_updates_the_same_layer(viewer, widget, image, qtbot):
    layer = viewer.add_image(image, name="cup")
    run(qtbot, widget)
    first = result_of(viewer, "cup (deblurred)")
    before = first.data.copy()
    layer.data = 255 - image
    layer.name = "mug"
    run(qtbot, widget)
    assert [type(each) for each in viewer.layers] == [Image, Image]
    assert viewer.layers[1] is first
    assert not np.array_equal(first.data, before)


def test_grey_stacks_keep_contrast_and_slices(viewer, widget, qtbot):
    stack = np.random.default_rng(1).integers(0, 4000, (3, 40, 56)).astype(np.uint16)
    viewer.add_image(da.from_array(stack, chunks=(1, -1, -1)), name="z", contrast_limits=(5, 3000))
    run(qtbot, widget)
    result = result_of(viewer, "z (deblurred)")
    assert result.data.shape == stack.shape
    assert result.data.dtype == np.uint16
    assert tuple(result.contrast_limits) == (5, 3000)
    viewer.dims.set_current_step(0, 2)
    widget._scope.value = "slice"
    run(qtbot, widget)
    alone = viewer.layers[2]  # on top of the other result
    assert alone.data.shape == (1, 40, 56)
    np.testing.assert_allclose(alone.translate, (2, 0, 0))


def test_a_rectangle_is_exactly_that_part(viewer, widget, image, qtbot):
    viewer.add_image(image, name="cup", scale=(2, 2))
    box = np.array([[10, 20], [10, 90], [60, 90], [60, 20]], float)
    viewer.add_shapes([box], shape_type="rectangle", name="box", scale=(2, 2))
    widget._scope.value = "rectangle"
    assert widget._shapes.visible
    run(qtbot, widget)
    assert "rectangle" in widget._message.text()
    widget._shapes.value = result_of(viewer, "box")
    run(qtbot, widget)
    result = result_of(viewer, "cup (deblurred)")
    whole = kpac.deblur(image, "tiny").image
    assert np.abs(result.data.astype(int) - whole[10:60, 20:90]).max() <= 1
    np.testing.assert_allclose(result.translate, (20, 40))


def test_a_rectangle_of_a_large_image_can_be_had_without_encoding_the_rest(
    viewer, widget, image, qtbot, monkeypatch
):
    from napari_kpac.engine import sampling
    from napari_kpac.engine.stages import Stages

    monkeypatch.setattr(sampling, "CROP_PX", 32)
    monkeypatch.setattr(sampling, "MARGIN_PX", 16)
    monkeypatch.setattr(sampling, "SAMPLE_PX", 12 * 32**2)
    large = np.tile(image, (14, 14, 1))
    viewer.add_image(large, name="cup")
    box = np.array([[310, 420], [310, 490], [360, 490], [360, 420]], float)
    viewer.add_shapes([box], shape_type="rectangle", name="box")
    assert not widget._exactness.visible
    widget._scope.value = "rectangle"
    assert widget._exactness.visible
    assert widget._exactness.value == "exact"
    widget._shapes.value = result_of(viewer, "box")
    widget._exactness.value = "sampled"
    with monkeypatch.context() as patch:
        patch.setattr(Stages, "_encode_tile", None)  # what encodes the whole image
        run(qtbot, widget)
    assert "estimated" in widget._message.text()
    near = result_of(viewer, "cup (deblurred)").data.astype(int)
    widget._exactness.value = "exact"
    run(qtbot, widget)
    assert "estimated" not in widget._message.text()
    exact = result_of(viewer, "cup (deblurred)").data.astype(int)
    assert near.shape == exact.shape == (50, 70, 3)
    # The weights are random; the documentation has the differences of real ones.
    assert np.abs(near - exact).mean() < 0.2 * np.abs(exact - large[310:360, 420:490]).mean()


def test_cancel_midway_changes_nothing(viewer, widget, qtbot, monkeypatch):
    from napari_kpac.engine.stages import Stages

    viewer.add_image(np.zeros((3, 64, 64), np.uint8), name="stack")
    original = Stages._encode_tile

    def slow(self, tile):
        import time

        time.sleep(0.3)
        return original(self, tile)

    monkeypatch.setattr(Stages, "_encode_tile", slow)
    click(qtbot, widget._panel.button)
    assert widget._panel.button.text() == "Cancel"
    qtbot.waitUntil(lambda: "Step" in widget._message.text(), timeout=WAIT)
    click(qtbot, widget._panel.button)
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert [layer.name for layer in viewer.layers] == ["stack"]
    assert widget._panel.button.text() == "Deblur"
    assert "Cancelled" in widget._message.text()


def test_removing_the_image_while_running_leaves_no_orphan(viewer, widget, image, qtbot):
    viewer.add_image(image, name="cup")
    click(qtbot, widget._panel.button)
    viewer.layers.clear()
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    assert len(viewer.layers) == 0
    assert "removed" in widget._message.text()


def test_closing_the_window_while_running(viewer, widget, image, qtbot):
    viewer.add_image(np.stack([image] * 4), name="stack", rgb=True)
    click(qtbot, widget._panel.button)
    viewer.close()


def test_errors_are_shown_and_the_window_lives(viewer, widget, qtbot, monkeypatch):
    run(qtbot, widget)
    assert "open an image" in widget._message.text()
    viewer.add_image(np.zeros((16, 16), bool), name="mask")
    run(qtbot, widget)
    assert "bool" in widget._message.text()
    assert "docs/troubleshooting.md#image" in widget._message.text()
    from napari_kpac.engine.stages import Stages

    def fail(self, tile):
        raise RuntimeError("the card fell out")

    monkeypatch.setattr(Stages, "_encode_tile", fail)
    viewer.add_image(np.zeros((16, 16), np.uint8), name="grey")
    widget._image.value = result_of(viewer, "grey")
    run(qtbot, widget)
    assert "the card fell out" in widget._message.text()
    assert widget._panel.button.text() == "Deblur"


def test_split_peek_and_difference(viewer, widget, image, qtbot):
    layer = viewer.add_image(image, name="cup")
    run(qtbot, widget)
    result = result_of(viewer, "cup (deblurred)")
    comparison = widget._comparison
    click(qtbot, comparison._check)
    assert not result.visible
    split = result_of(viewer, "split")
    assert split.data.shape[1] == 128 - round(127 / 2)
    comparison._slider.setValue(250)
    qtbot.waitUntil(lambda: split.data.shape[1] == 128 - round(127 / 4), timeout=WAIT)
    np.testing.assert_allclose(split.translate, (0, round(127 / 4)))
    shot = viewer.screenshot(canvas_only=True, flash=False)
    assert shot.std() > 0
    click(qtbot, comparison._check)
    assert result.visible
    assert "split" not in [each.name for each in viewer.layers]
    peek = comparison._peek(viewer)
    next(peek)
    assert not result.visible
    assert list(peek) == []
    qtbot.waitUntil(lambda: result.visible, timeout=WAIT)
    click(qtbot, comparison._difference)
    names = [each.name for each in viewer.layers]
    qtbot.waitUntil(lambda: len(viewer.layers) > len(names), timeout=WAIT)
    difference = result_of(viewer, "cup (difference)")
    expected = (result.data.astype(float) - layer.data).mean(axis=-1)
    np.testing.assert_allclose(difference.data, expected, atol=1e-4)


def test_dragging_the_split_in_the_image(viewer, widget, image, qtbot):
    viewer.add_image(image, name="cup")
    run(qtbot, widget)
    comparison = widget._comparison
    click(qtbot, comparison._check)

    class Event:
        position = (40.0, float(comparison._column(128)))
        type = "mouse_press"

    event = Event()
    drag = comparison._drag(viewer, event)
    next(drag)
    event.type, event.position = "mouse_move", (40.0, 100.0)
    next(drag)
    event.type = "mouse_release"
    assert list(drag) == []
    assert abs(comparison._column(128) - 100) <= 1
    far = Event()
    far.position = (40.0, 5.0)
    assert list(comparison._drag(viewer, far)) == []


def test_dual_pixel_boxes_appear_for_dual_models(viewer, docked, own_models, qtbot, tiny_model):
    from napari_kpac.weights import ModelCard, save_network
    from tests.engine.conftest import tiny_net

    net = tiny_net(3, double=False, views=2)
    save_network(net, own_models / "pair.safetensors", ModelCard(name="pair"))
    widget = docked(DeblurWidget)
    rng = np.random.default_rng(0)
    centre, left, right = rng.integers(0, 256, (3, 32, 40, 3), dtype=np.uint8)
    for name, data in (("centre", centre), ("left", left), ("right", right)):
        viewer.add_image(data, name=name)
    widget._image.value = result_of(viewer, "centre")
    assert not widget._left.visible
    widget._model.value = "pair"
    assert widget._left.visible
    widget._left.value = result_of(viewer, "left")
    widget._right.value = result_of(viewer, "right")
    run(qtbot, widget)
    expected = kpac.deblur(centre, "pair", views=(left, right)).image
    assert np.array_equal(result_of(viewer, "centre (deblurred)").data, expected)


def test_a_dual_pixel_model_is_offered_where_both_views_can_be_given(docked, tiny_model):
    deblur, mixer = docked(DeblurWidget), docked(MixerWidget)
    assert "kpac-dual" in deblur._model.choices
    assert "kpac-dual" not in mixer._model.choices


def test_an_image_of_nothing_but_nan_is_refused(viewer, widget, qtbot):
    viewer.add_image(np.full((40, 56), np.nan, np.float32), name="empty", contrast_limits=(0, 1))
    run(qtbot, widget)
    assert "no finite value" in widget._message.text()
    assert "Done" not in widget._message.text()
    assert [layer.name for layer in viewer.layers] == ["empty"]


def test_the_record_says_auto_where_it_was_automatic(viewer, widget, image, qtbot):
    viewer.add_image(image, name="cup")
    run(qtbot, widget)
    options = result_of(viewer, "cup (deblurred)").metadata["napari_kpac"]["options"]
    assert options["range"] == "auto"
    assert options["rgb"] is None


def test_deconvolution_with_the_map_of_a_layer(viewer, widget, qtbot):
    from skimage import data

    blurred = kpac.defocus(data.camera()[100:180, 150:250], 3, "gaussian").image
    sigma = np.full(blurred.shape, 1.5, np.float32)
    viewer.add_image(blurred, name="cup")
    widget._method.value = "map"
    run(qtbot, widget)
    assert "choose the layer of the defocus map" in widget._message.text()
    own = viewer.add_image(sigma, name="sigma")
    choose(widget._image, "cup")
    widget._sigma.value = own
    assert widget._sigma.visible
    assert not widget._model.visible
    run(qtbot, widget)
    expected = kpac.deblur(blurred, method="map", sigma=sigma).image
    assert np.array_equal(result_of(viewer, "cup (deblurred)").data, expected)
    assert "cup (defocus map)" not in [each.name for each in viewer.layers]
    widget._method.value = "jnb"
    assert not widget._sigma.visible
    assert not widget._sigma_file.visible
    assert "texture" in widget._about.text()
    run(qtbot, widget)
    found = result_of(viewer, "cup (defocus map)").data
    np.testing.assert_allclose(found, kpac.deblur(blurred, method="jnb").sigma, atol=1e-6)


def test_deconvolution_with_the_map_of_a_file_and_the_settings_of_the_literature(
    viewer, widget, qtbot, tmp_path
):
    from skimage import data

    blurred = kpac.defocus(data.camera()[100:180, 150:250], 3, "gaussian").image
    sigma = np.full(blurred.shape, 1.5, np.float32)
    np.save(tmp_path / "sigma.npy", sigma)
    viewer.add_image(blurred, name="cup")
    assert not widget._deconvolution.visible
    widget._method.value = "map"
    assert widget._sigma_file.visible
    assert widget._deconvolution.visible
    widget._sigma_file.line_edit.value = str(tmp_path / "nothing.npy")
    run(qtbot, widget)
    assert "cannot be read" in widget._message.text()
    widget._sigma_file.line_edit.value = str(tmp_path / "sigma.npy")
    for name in ("default", "paper"):
        widget._deconvolution.value = name
        run(qtbot, widget)
        expected = kpac.deblur(blurred, method="map", sigma=sigma, deconvolution=name).image
        result = result_of(viewer, "cup (deblurred)")
        assert np.array_equal(result.data, expected)
        assert result.metadata["napari_kpac"]["options"]["deconvolution"] == name
    # A layer that is chosen comes before the file.
    own = viewer.add_image(np.zeros_like(sigma), name="nothing to remove")
    choose(widget._image, "cup")
    widget._sigma.value = own
    run(qtbot, widget)
    assert np.array_equal(result_of(viewer, "cup (deblurred)").data, blurred)
