"""The attention mixer in a real window."""

import json
import subprocess
import sys

import numpy as np
from PIL import Image
from qtpy.QtCore import QPoint, Qt

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.widgets.mixer import MixerWidget
from napari_kpac.widgets.mixer.state import History, MixerState, presets
from tests.gui.conftest import WAIT, open_it, result_of


def save(widget, path, qtbot):
    widget.save_recipe(path)
    qtbot.waitUntil(lambda: "Saved" in widget._message.text(), timeout=WAIT)


def shown(viewer):
    return result_of(viewer, "cup (mixer)").data


def expect(viewer, qtbot, image, modulation):
    """Wait until the image on screen is that of a fresh run, which differs from the plain one."""
    wanted = kpac.deblur(image, "tiny", modulation=modulation).image.astype(int)
    if modulation is not None:
        assert np.abs(kpac.deblur(image, "tiny").image - wanted).max() > 3
    qtbot.waitUntil(lambda: is_shown(viewer, wanted), timeout=WAIT)


def is_shown(viewer, wanted):
    """Return True if the whole image is on show and is this one."""
    found = shown(viewer)
    return found.shape == wanted.shape and np.abs(found - wanted.astype(int)).max() <= 1


def test_opening_shows_the_plain_result_and_all_maps(viewer, mixer, image, qtbot):
    expect(viewer, qtbot, image, None)
    assert len(mixer._controls.strips) == 2
    assert [len(strips) for strips in mixer._controls.strips] == [5, 5]
    qtbot.waitUntil(lambda: not mixer._controls.strips[0][0].thumbnail.icon().isNull())
    assert len(mixer._controls.pages[0].beta.values) == 4


def test_dragging_a_slider_moves_the_image(viewer, mixer, image, qtbot):
    slider = mixer._controls.strips[1][2].gain.slider
    before = shown(viewer).copy()
    middle = QPoint(slider.width() // 2, slider.height() // 2)
    qtbot.mousePress(slider, Qt.MouseButton.LeftButton, pos=middle)
    qtbot.mouseMove(slider, QPoint(middle.x(), slider.height() - 2))
    qtbot.mouseRelease(
        slider, Qt.MouseButton.LeftButton, pos=QPoint(middle.x(), slider.height() - 2)
    )
    gain = mixer._controls.strips[1][2].gain.value
    assert gain < 1
    rows = np.ones((2, 5))
    rows[1, 2] = gain
    expect(viewer, qtbot, image, kpac.Modulation(gains=rows))
    assert not np.array_equal(shown(viewer), before)
    slider.setFocus()
    qtbot.keyClick(slider, Qt.Key.Key_Up)
    assert mixer._controls.strips[1][2].gain.value > gain


def test_solo_mute_link_presets_strength_undo(viewer, mixer, image, qtbot):
    ones = [1.0] * 5
    qtbot.mouseClick(mixer._controls.strips[0][1].solo, Qt.MouseButton.LeftButton)
    expect(viewer, qtbot, image, kpac.Modulation(gains=[[0, 1, 0, 0, 0], ones]))
    qtbot.mouseClick(mixer._controls.strips[0][1].solo, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(mixer._controls.strips[1][4].mute, Qt.MouseButton.LeftButton)
    expect(viewer, qtbot, image, kpac.Modulation(gains=[ones, [1, 1, 1, 1, 0]]))
    mixer._controls.link.setChecked(True)
    mixer._controls.strips[0][0].gain.number.setValue(0.25)
    both = [[0.25, 1, 1, 1, 1], [0.25, 1, 1, 1, 0]]
    expect(viewer, qtbot, image, kpac.Modulation(gains=both))
    mixer._controls.strength.number.setValue(0.5)
    expect(viewer, qtbot, image, kpac.Modulation(gains=both, strength=0.5))
    mixer.undo()
    mixer.undo()
    expect(viewer, qtbot, image, kpac.Modulation(gains=[ones, [1, 1, 1, 1, 0]]))
    mixer.redo()
    expect(viewer, qtbot, image, kpac.Modulation(gains=both))
    mixer._controls.preset.setCurrentText("only dilation 3")
    mixer._controls.preset.activated.emit(mixer._controls.preset.currentIndex())
    expect(viewer, qtbot, image, kpac.Modulation(gains=[0, 0, 1, 0, 0]))
    mixer.reset()
    expect(viewer, qtbot, image, None)


def test_painting_acts_only_where_it_is(viewer, mixer, image, qtbot):
    plain = shown(viewer).astype(int)
    qtbot.mouseClick(mixer._controls.new_labels, Qt.MouseButton.LeftButton)
    labels = mixer._labels.layer
    assert labels.data.shape == (96, 128)
    np.testing.assert_allclose(labels.scale, (0.5, 0.5))
    assert mixer._controls.label.value() == 1
    for index in range(5):
        mixer._controls.strips[0][index].gain.number.setValue(0)
    labels.brush_size = 24
    labels.paint((80, 110), 1)
    mask = np.asarray(labels.data)
    assert mask.any()
    rows = [[0.0] * 5, [1.0] * 5]
    expect(viewer, qtbot, image, kpac.Modulation(labels=mask, label_gains={1: rows}))
    change = np.abs(shown(viewer) - plain).max(axis=-1)
    assert change[mask == 1].max() > 0
    assert change[mask == 1].max() > change[:24, :24].max()


def test_a_map_as_a_layer_and_a_layer_as_a_map(viewer, mixer, image, qtbot):
    qtbot.mouseClick(mixer._controls.strips[0][2].thumbnail, Qt.MouseButton.LeftButton)
    layer = result_of(viewer, "α3 of block 1")
    assert layer.data.shape == (12, 16)
    np.testing.assert_allclose(layer.scale, (4, 4))
    np.testing.assert_allclose(layer.translate, (1.75, 1.75))
    assert tuple(layer.contrast_limits) == (0, 1)
    own = np.zeros((96, 128), np.float32)
    own[:, 64:] = 1
    viewer.add_image(own, name="mine")
    mixer.replace_map(0, 1, result_of(viewer, "mine"))
    expect(viewer, qtbot, image, kpac.Modulation(override={(1, 2): own}))
    mixer.replace_map(0, 1, None)
    expect(viewer, qtbot, image, None)
    viewer.add_image(np.zeros((5, 5)), name="small")
    mixer.replace_map(0, 1, result_of(viewer, "small"))
    assert "same size" in mixer._message.text()


def test_a_saved_recipe_replays_in_the_terminal(viewer, mixer, image, qtbot, tmp_path):
    mixer._controls.strips[0][0].gain.number.setValue(0.5)
    mixer._controls.strips[1][3].gain.number.setValue(1.5)
    mixer._controls.strength.number.setValue(0.8)
    rows = [[0.5, 1, 1, 1, 1], [1, 1, 1, 1.5, 1]]
    expect(viewer, qtbot, image, kpac.Modulation(gains=rows, strength=0.8))
    save(mixer, tmp_path / "look.json", qtbot)
    Image.fromarray(image).save(tmp_path / "cup.png")
    call = ["deblur", str(tmp_path / "cup.png"), "-o", str(tmp_path / "out.png")]
    assert main([*call, "--recipe", str(tmp_path / "look.json")]) == 0
    again = np.asarray(Image.open(tmp_path / "out.png"))
    # The mixer adds the same numbers in another order: at most one grey level.
    assert np.abs(again.astype(int) - shown(viewer)).max() <= 1
    assert (again == shown(viewer)).mean() > 0.999
    mixer.reset()
    mixer.load_recipe(tmp_path / "look.json")
    expect(viewer, qtbot, image, kpac.Modulation(gains=rows, strength=0.8))
    (tmp_path / "bad.json").write_text("{}")
    with mixer._message.showing_errors():
        mixer.load_recipe(tmp_path / "bad.json")
    assert "bad.json" in mixer._message.text()


def test_a_recipe_of_an_earlier_bundled_model_is_loaded_with_a_notice(mixer, qtbot, tmp_path):
    gain = mixer._controls.strips[0][0].gain
    gain.number.setValue(0.5)
    save(mixer, tmp_path / "look.json", qtbot)
    record = json.loads((tmp_path / "look.json").read_text())
    record["options"]["model"] = "default"
    record["model"] = {"name": "kpac-3level", "version": "0.9", "sha256": "0" * 64}
    (tmp_path / "look.json").write_text(json.dumps(record))
    mixer.reset()
    mixer.load_recipe(tmp_path / "look.json")
    assert gain.number.value() == 0.5
    now = kpac.load("default").card.version
    assert f"made with version 0.9 of the model 'kpac-3level', this release has version {now}" in (
        mixer._message.text()
    )


def test_what_was_tuned_here_runs_on_a_folder_and_comes_back(viewer, mixer, image, qtbot, tmp_path):
    mixer._controls.strips[0][2].gain.number.setValue(0.25)
    mixer._controls.strength.number.setValue(1.2)
    wanted = kpac.Modulation(gains=[[1, 1, 0.25, 1, 1], [1] * 5], strength=1.2)
    expect(viewer, qtbot, image, wanted)
    save(mixer, tmp_path / "look.json", qtbot)
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    images = {"cup": image, "part": image[3:40, :50], "other": image[::-1].copy()}
    for name, pixels in images.items():
        Image.fromarray(pixels).save(photos / f"{name}.png")
    call = ["deblur", str(photos), "-o", str(out), "--recipe", str(tmp_path / "look.json")]
    assert main(call) == 0
    recipe = kpac.load_recipe(tmp_path / "look.json")
    for name, pixels in images.items():
        made = np.asarray(Image.open(out / f"{name}.png"))
        assert np.array_equal(made, kpac.replay(pixels, recipe).image), name
    made = np.asarray(Image.open(out / "cup.png"))
    qtbot.waitUntil(lambda: is_shown(viewer, made), timeout=WAIT)
    # Every result carries its recipe, so the window takes the settings from a result too.
    mixer.reset()
    expect(viewer, qtbot, image, None)
    mixer.load_recipe(out / "other.png")
    expect(viewer, qtbot, image, wanted)


def test_slices_new_data_and_removal(viewer, mixer, qtbot):
    stack = np.random.default_rng(3).integers(0, 256, (3, 48, 64), dtype=np.uint8)
    layer = viewer.add_image(stack, name="stack")
    mixer._image.value = layer
    qtbot.mouseClick(mixer._open, Qt.MouseButton.LeftButton)
    open_it(mixer, qtbot)
    wanted = kpac.deblur(stack, "tiny").image

    def slice_is_shown(index):
        data = result_of(viewer, "stack (mixer)").data
        return data.shape == (1, 48, 64) and np.abs(data[0].astype(int) - wanted[index]).max() <= 1

    first = mixer._opened.index[0]
    qtbot.waitUntil(lambda: slice_is_shown(first), timeout=WAIT)
    viewer.dims.set_current_step(0, 2)
    qtbot.waitUntil(lambda: mixer._opened.index == (2,) and slice_is_shown(2), timeout=WAIT)
    viewer.layers.remove(layer)
    assert mixer._renderer is None
    assert "removed" in mixer._message.text()


def test_another_model_is_opened_by_itself(viewer, mixer, image, own_models, qtbot):
    from napari_kpac.weights import ModelCard, save_network
    from tests.engine.conftest import tiny_net

    other = tiny_net(2, double=False, dilations=(1, 3), blocks=1)
    save_network(other, own_models / "other.safetensors", ModelCard(name="other"))
    mixer._filler.refresh()
    qtbot.waitUntil(lambda: "other" in mixer._model.choices, timeout=WAIT)
    first, plain = result_of(viewer, "cup (mixer)"), shown(viewer).copy()
    mixer._model.value = "other"
    wanted = kpac.deblur(image, "other").image.astype(int)
    qtbot.waitUntil(lambda: len(viewer.layers) == 3, timeout=WAIT)
    second = viewer.layers[2]  # on top of the first model's, which stays for comparison
    qtbot.waitUntil(lambda: np.abs(second.data - wanted).max() <= 1, timeout=WAIT)
    assert np.array_equal(first.data, plain)
    assert mixer._controls.shape == (1, 2)
    mixer._model.value = "tiny"
    qtbot.waitUntil(lambda: viewer.layers[2] is first, timeout=WAIT)
    assert len(viewer.layers) == 3


def test_a_second_image_gets_its_own_layer(viewer, mixer, image, qtbot):
    first, plain = result_of(viewer, "cup (mixer)"), shown(viewer).copy()
    grey = np.random.default_rng(5).integers(0, 4000, (96, 128)).astype(np.uint16)
    sky = viewer.add_image(grey, name="sky", scale=(3, 3), units="mm", contrast_limits=(7, 3000))
    qtbot.mouseClick(mixer._open, Qt.MouseButton.LeftButton)
    mixer._image.value = sky
    open_it(mixer, qtbot)
    second = result_of(viewer, "sky (mixer)")
    assert np.array_equal(first.data, plain)
    np.testing.assert_allclose(first.scale, (0.5, 0.5))
    np.testing.assert_allclose(second.scale, (3, 3))
    assert (second.units, tuple(second.contrast_limits)) == (sky.units, (7, 3000))
    assert second.data.dtype == np.uint16


def test_a_renamed_result_stays_as_it_is(viewer, mixer, image, qtbot):
    kept, plain = result_of(viewer, "cup (mixer)"), shown(viewer).copy()
    kept.name = "look A"
    mixer._controls.strips[0][0].gain.number.setValue(0)
    qtbot.waitUntil(lambda: len(viewer.layers) == 3, timeout=WAIT)
    expect(viewer, qtbot, image, kpac.Modulation(gains=[[0, 1, 1, 1, 1], [1] * 5]))
    assert np.array_equal(kept.data, plain)
    assert viewer.layers[2].name == "cup (mixer)"


def test_mute_and_solo_act_inside_the_label(viewer, mixer, image, qtbot):
    qtbot.mouseClick(mixer._controls.new_labels, Qt.MouseButton.LeftButton)
    labels = mixer._labels.layer
    labels.data[60:] = 1
    labels.refresh()
    strip = mixer._controls.strips[0][1]
    qtbot.mouseClick(strip.solo, Qt.MouseButton.LeftButton)
    ones, mask = [1.0] * 5, np.asarray(labels.data)
    alone = [[0, 1, 0, 0, 0], ones]
    expect(viewer, qtbot, image, kpac.Modulation(labels=mask, label_gains={1: alone}))
    qtbot.mouseClick(strip.solo, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(strip.mute, Qt.MouseButton.LeftButton)
    muted = [[1, 0, 1, 1, 1], ones]
    expect(viewer, qtbot, image, kpac.Modulation(labels=mask, label_gains={1: muted}))
    mixer._controls.label.setValue(0)
    assert not strip.mute.isChecked()
    mixer._controls.label.setValue(1)
    assert strip.mute.isChecked()


def test_the_preset_box_follows_reset_and_moves(viewer, mixer, qtbot):
    controls = mixer._controls
    assert controls.preset.currentText() == "all (as trained)"
    controls.preset.setCurrentText("only dilation 3")
    controls.preset.activated.emit(controls.preset.currentIndex())
    assert controls.preset.currentText() == "only dilation 3"
    controls.strips[0][0].gain.number.setValue(0.5)
    assert controls.preset.currentIndex() == -1
    qtbot.mouseClick(controls.buttons["Undo"], Qt.MouseButton.LeftButton)
    assert controls.preset.currentText() == "only dilation 3"
    controls.tabs.setCurrentIndex(1)
    assert controls.preset.currentText() == "all (as trained)"
    controls.tabs.setCurrentIndex(0)
    qtbot.mouseClick(controls.buttons["Reset"], Qt.MouseButton.LeftButton)
    assert controls.preset.currentText() == "all (as trained)"


def test_closing_the_window_while_opening(viewer, docked, tiny_model, image, qtbot):
    viewer.add_image(image, name="cup")
    widget = docked(MixerWidget)
    qtbot.mouseClick(widget._open, Qt.MouseButton.LeftButton)
    renderer = widget._renderer
    viewer.close()
    qtbot.waitUntil(lambda: not renderer.is_alive, timeout=WAIT)


def test_without_a_image_it_says_what_to_do(viewer, docked, tiny_model, qtbot):
    widget = docked(MixerWidget)
    qtbot.mouseClick(widget._open, Qt.MouseButton.LeftButton)
    assert "open an image" in widget._message.text()


def test_states():
    state = MixerState.neutral(2, 3)
    muted = state.with_flag("muted", 0, 0, 1, True)
    assert muted.effective() == ((1, 0, 1), (1, 1, 1))
    soloed = state.with_flag("soloed", 0, None, 2, True)
    assert soloed.effective() == ((0, 0, 1), (0, 0, 1))
    assert state.with_gain(0, 1, 0, 7).gains == ((1, 1, 1), (2, 1, 1))
    assert state.with_gain(4, 0, 0, 0.5).gains_of(4) == ((0.5, 1, 1), (1, 1, 1))
    history = History(state)
    history.push(muted)
    history.push(muted)
    assert history.undo() is state
    assert not history.can_undo
    assert history.redo() is muted
    history.undo()
    history.push(soloed)
    assert not history.can_redo
    rows = presets((1, 2, 3, 4, 5))
    assert rows["all (as trained)"] == (1, 1, 1, 1, 1)
    assert rows["only dilation 4"] == (0, 0, 0, 1, 0)
    assert rows["small blur"] == (1, 1, 0, 0, 0)
    assert rows["medium blur"] == (0, 0, 1, 0, 0)
    assert rows["large blur"] == (0, 0, 0, 1, 1)
    assert all(len(row) == 1 for row in presets((1,)).values())


UNFINISHED = """
import threading, torch
from qtpy.QtCore import QCoreApplication
from napari_kpac.core.errors import CancelledError
from napari_kpac.widgets.mixer.renderer import LiveRenderer

class Busy:
    begun, cancelled = threading.Event(), False
    config, card, size = None, None, (8, 8)
    def render(self, *_, **__):
        self.begun.set()
        while not self.cancelled:
            torch.nn.functional.conv2d(torch.rand(1, 48, 256, 256), torch.rand(48, 48, 3, 3))
        raise CancelledError("newer work came")
    def cancel(self):
        self.cancelled = True
    def close(self):
        print("closed")

app = QCoreApplication([])
busy = Busy()
renderer = LiveRenderer(lambda: busy)
assert busy.begun.wait(60)
"""


def test_the_program_ends_cleanly_while_the_mixer_renders():
    done = subprocess.run([sys.executable, "-c", UNFINISHED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_saved_recipe_says_how_and_not_what(viewer, mixer, qtbot, tmp_path):
    """Tuned on 16-bit grey, replayed on an 8-bit photograph and on numbers in 0..1."""
    rng = np.random.default_rng(5)
    qtbot.mouseClick(mixer._open, Qt.MouseButton.LeftButton)  # closes the other image
    cells = viewer.add_image(rng.integers(300, 4000, (48, 64)).astype(np.uint16), name="cells")
    mixer._image.value = cells
    open_it(mixer, qtbot)
    mixer._controls.strength.number.setValue(0.8)
    qtbot.waitUntil(lambda: "cells (mixer)" in viewer.layers, timeout=WAIT)
    save(mixer, tmp_path / "look.json", qtbot)
    recipe = kpac.load_recipe(tmp_path / "look.json")
    assert recipe.options.range == "auto"
    assert recipe.options.rgb is None
    assert recipe.environment["range"]["rule"] == "percentile"
    photo = rng.integers(0, 256, (48, 64, 3)).astype(np.uint8)
    for pixels in (photo, photo.astype(np.float32) / 255):
        again = kpac.replay(pixels, recipe).image
        expected = kpac.deblur(pixels, "tiny", modulation=kpac.Modulation(strength=0.8)).image
        np.testing.assert_allclose(again.astype(float), expected.astype(float), atol=1e-5)
