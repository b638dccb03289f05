"""The Train widget in a real window: runs from the first click to a model in the lists."""

import re
import sys
import time
from contextlib import suppress
from dataclasses import fields, replace

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDockWidget, QFileDialog, QLabel
from safetensors.numpy import load_file
from skimage import data

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.images import read_image, write_image
from napari_kpac.training import PRESETS, TrainOptions, resume, train
from napari_kpac.training.pace import measure_pace
from napari_kpac.training.run_folder import RunFolder
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.train import TrainWidget
from napari_kpac.widgets.train.run import MAX_POINTS, History, Line
from napari_kpac.widgets.train.settings import ELSEWHERE, OWN, PRESET_CHOICES, folded_options
from napari_kpac.widgets.train.widget import PREVIEW
from tests.gui.conftest import WAIT, our_threads, result_of

TINY = {
    "channels": 4, "blocks": 2, "crop_size": 32, "max_radius": "2", "batch_size": 1,
    "validation_crops": 1, "validate_every": 4,
    "save_every": 1000, "warmup": 0,
}  # fmt: skip
"""A network and crops so small that a step takes milliseconds."""


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    image = data.astronaut()
    for number in range(4):
        top = 90 * number
        write_image(folder / f"{number}.png", image[top : top + 80, top : top + 96].copy())
    return folder


@pytest.fixture
def widget(viewer, qtbot, tiny_model, photos, tmp_path):
    """The widget, set up for a run of a few steps on photographs."""
    made = TrainWidget(viewer)
    viewer.window.add_dock_widget(made, name="Train", area="right")
    settings = made._settings
    qtbot.waitUntil(lambda: "tiny" in settings.start.choices, timeout=WAIT)
    settings.preset.value = "default"  # from scratch
    for name, value in TINY.items():
        settings.fields[name].value = value
    settings.fields["steps"].value = 12
    settings.source.root.value = photos
    settings.name.value = "mine"
    settings.run.value = tmp_path / "run"
    yield made
    with suppress(RuntimeError):  # it went with its window
        made.release()


@pytest.fixture
def slow_steps(monkeypatch):
    """Steps that are long enough to press a button in."""
    from napari_kpac.training.loop import Trainer

    step = Trainer.step

    def slow(self, *given):
        time.sleep(0.1)
        return step(self, *given)

    monkeypatch.setattr(Trainer, "step", slow)


def click(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def idle(widget):
    return not widget._panel.task.is_running and not widget._installer.is_running


def start(qtbot, widget):
    click(qtbot, widget._start)
    assert not widget._start.isEnabled()


def steps_done(widget):
    return 0 if widget._last is None else widget._last.done


def points(curve):
    """Steps at which a curve is drawn."""
    steps, _ = curve.getData()
    return [] if steps is None else list(steps)


def test_a_run_from_start_to_the_model_in_every_list(viewer, widget, docked, photos, qtbot):
    deblur = docked(DeblurWidget)
    assert "mine" not in deblur._model.choices
    start(qtbot, widget)
    qtbot.waitUntil(lambda: steps_done(widget) > 0, timeout=WAIT)
    assert not widget._settings.isVisible()
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "“mine” is in every list" in widget._message.text()
    qtbot.waitUntil(lambda: "mine" in deblur._model.choices, timeout=WAIT)
    qtbot.waitUntil(lambda: "mine" in widget._settings.start.choices, timeout=WAIT)
    assert deblur._model.value == "tiny"
    card = next(entry.card for entry in kpac.models() if entry.name == "mine")
    assert card.figures["steps"] <= 12

    preview = result_of(viewer, PREVIEW)
    last = read_image(sorted((widget._run / "previews").iterdir())[-1])
    assert np.array_equal(preview.data, last)
    assert preview.data.shape == (32, 96, 3)
    curves = widget._curves
    qtbot.waitUntil(lambda: len(points(curves.curves["loss"])) == 12, timeout=WAIT)
    assert points(curves.curves["mae"]) == [4, 8, 12]
    alphas = [f"block {block} alpha {index}" for block in (1, 2) for index in range(1, 6)]
    assert sorted(curves.curves) == sorted(["loss", "smooth loss", "mae", "input mae", *alphas])
    assert (np.asarray(curves.curves["input mae"].getData()[1]) > 0).all()
    assert curves.plots["block 2"].isVisible()

    # The model that is in the lists works.
    deblur._model.value = "mine"
    viewer.add_image(read_image(photos / "0.png"), name="photo")
    deblur._image.value = result_of(viewer, "photo")
    click(qtbot, deblur._panel.button)
    qtbot.waitUntil(lambda: not deblur._panel.task.is_running, timeout=WAIT)
    assert "photo (deblurred)" in [layer.name for layer in viewer.layers]


def test_pause_lets_nothing_happen_until_it_goes_on(widget, qtbot):
    widget._settings.fields["steps"].value = 100_000
    start(qtbot, widget)
    qtbot.waitUntil(lambda: steps_done(widget) > 0, timeout=WAIT)
    click(qtbot, widget._pause)
    qtbot.waitUntil(lambda: "Paused after step" in widget._message.text(), timeout=WAIT)
    done = steps_done(widget)
    assert widget._pause.text() == "Resume"
    qtbot.wait(400)
    assert steps_done(widget) == done
    widget._pause.setFocus()
    qtbot.keyClick(widget._pause, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: steps_done(widget) > done, timeout=WAIT)
    assert widget._pause.text() == "Pause"
    click(qtbot, widget._pause)
    qtbot.waitUntil(lambda: widget._panel.task.is_paused, timeout=WAIT)
    click(qtbot, widget._stop)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert f"Stopped after {steps_done(widget)} of 100000" in widget._message.text()
    assert (widget._run / "state.safetensors").exists()


def test_a_run_that_was_stopped_and_resumed_is_the_same_run(
    widget, qtbot, tmp_path, monkeypatch, slow_steps
):
    options, run, _ = widget._settings.chosen()
    finish(train(options, tmp_path / "straight"))
    start(qtbot, widget)
    qtbot.waitUntil(lambda: steps_done(widget) >= 2, timeout=WAIT)
    click(qtbot, widget._stop)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert 2 <= steps_done(widget) < 12
    assert "Resume a run" in widget._message.text()
    assert widget._settings.isEnabled()
    # Another set-up: what the run was begun with comes back.
    widget._settings.preset.value = "paper"
    widget._settings.run.value = tmp_path / "other"
    monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(run))
    click(qtbot, widget._resume)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "“mine” is in every list" in widget._message.text()
    # How many processes were fastest is decided once for a run.
    assert widget._settings.chosen()[:2] == (replace(options, devices=1), run)
    steps = widget._history.lines["loss"].steps
    assert steps[-1] == 12
    assert steps == sorted(set(steps))
    for name in ("last.safetensors", "ema.safetensors"):
        expected, found = load_file(tmp_path / "straight" / name), load_file(run / name)
        assert expected.keys() == found.keys()
        assert all(np.array_equal(expected[key], found[key]) for key in expected)


def test_install_the_best_so_far_and_replace_it_at_the_end(widget, qtbot, slow_steps):
    assert not widget._install.isEnabled()
    start(qtbot, widget)
    qtbot.waitUntil(widget._install.isEnabled, timeout=WAIT)
    click(qtbot, widget._pause)
    qtbot.waitUntil(lambda: widget._panel.task.is_paused, timeout=WAIT)
    click(qtbot, widget._install)
    qtbot.waitUntil(lambda: not widget._installer.is_running, timeout=WAIT)
    assert "“mine” is in every list" in widget._message.text()
    assert steps_done(widget) < 12
    click(qtbot, widget._pause)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "“mine” is in every list" in widget._message.text()
    (entry,) = (entry for entry in kpac.models() if entry.name == "mine")
    best = load_file(widget._run / "best.safetensors")
    assert all(np.array_equal(best[key], value) for key, value in load_file(entry.path).items())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: setattr(s.fields["crop_size"], "value", 36), "multiples of 8"),
        (lambda s: setattr(s.fields["learning_rate"], "value", "fast"), "'fast'"),
        (lambda s: setattr(s.fields["learning_rate"], "value", "7"), "learning_rate=7.0"),
        (lambda s: setattr(s.name, "value", "a name"), "letters, digits"),
        (lambda s: setattr(s.fields["steps"], "value", 0), "at least one step"),
        (lambda s: setattr(s.run.line_edit, "value", ""), "choose a run folder"),
        (lambda s: setattr(s.source.root.line_edit, "value", ""), "choose a folder"),
        (lambda s: setattr(s.source.kind, "value", "layers"), "no image layer"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_before_the_start(widget, qtbot, tmp_path, change, words):
    change(widget._settings)
    click(qtbot, widget._start)
    assert words in widget._message.text()
    assert not widget._panel.task.is_running
    assert widget._start.isEnabled()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: setattr(s.source.root, "value", "/no/such/folder"), "/no/such/folder"),
        (lambda s: setattr(s.name, "value", "tiny"), "choose another name"),
        (lambda s: setattr(s.fields["crop_size"], "value", 96), "need"),
        (lambda s: setattr(s.fields["fine_steps"], "value", 5), "VGG"),
        (lambda s: setattr(s.source.kind, "value", "dpdd"), "train_c"),
    ],
)
def test_what_cannot_work_is_said_and_leaves_nothing_behind(
    widget, qtbot, tmp_path, monkeypatch, change, words
):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "no-weights"))
    change(widget._settings)
    start(qtbot, widget)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert words in widget._message.text()
    assert widget._settings.isVisible()
    assert not (tmp_path / "run" / "options.json").exists()
    assert widget._start.isEnabled()


def test_a_folder_with_a_run_is_not_begun_again(widget, qtbot, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "options.json").write_text("{}")
    start(qtbot, widget)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "holds a run already; resume it" in widget._message.text()
    widget.resume(tmp_path / "photos")
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "holds no run" in widget._message.text()


def test_open_layers_as_pairs(viewer, widget, qtbot, tmp_path):
    rng = np.random.default_rng(0)
    sharp = rng.integers(100, 3000, (3, 40, 48)).astype(np.uint16)
    blurred = (sharp // 2 + 500).astype(np.uint16)
    viewer.add_image(sharp, name="sharp")
    viewer.add_image(blurred, name="blurred")
    source = widget._settings.source
    source.kind.value = "layers"
    assert not source.root.visible
    source.blurred_layer.value = result_of(viewer, "blurred")
    click(qtbot, widget._start)
    assert "choose the sharp layer" in widget._message.text()
    source.sharp_layer.value = result_of(viewer, "sharp")
    start(qtbot, widget)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "in every list" in widget._message.text()
    # Both as the network would see the blurred one: its percentiles are black and white.
    low, high = np.percentile(blurred, (0.1, 99.9))
    for name, stack in (("blurred", blurred), ("sharp", sharp)):
        files = sorted((tmp_path / "run" / "data" / name).iterdir())
        assert len(files) == 3
        for path, plane in zip(files, stack, strict=True):
            expected = np.clip((plane - low) / (high - low), 0, 1) * 65535
            written = read_image(path)
            assert written.dtype == np.uint16
            np.testing.assert_allclose(written[..., 1], expected, atol=1)
    saved = RunFolder(tmp_path / "run").options()
    assert (saved.kind, saved.root) == ("pairs", (str(tmp_path / "run" / "data"),))
    # The layers are not needed any more.
    viewer.layers.clear()
    widget.resume(tmp_path / "run")
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "in every list" in widget._message.text()


def test_open_layers_as_photographs(viewer, widget, qtbot, photos, tmp_path):
    for path in sorted(photos.iterdir())[:2]:
        viewer.add_image(read_image(path), name=path.stem)
    viewer.add_image(np.zeros((50, 50)), name="made", metadata={"napari_kpac": {}})
    widget._settings.source.kind.value = "layers"
    widget._settings.fields["crop_size"].value = 96
    start(qtbot, widget)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "need" in widget._message.text()
    assert not (tmp_path / "run" / "data").exists()
    widget._settings.fields["crop_size"].value = 32
    start(qtbot, widget)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert "in every list" in widget._message.text()
    written = sorted((tmp_path / "run" / "data").iterdir())
    assert len(written) == 2
    for path, layer in zip(written, (viewer.layers["0"], viewer.layers["1"]), strict=True):
        assert np.array_equal(read_image(path), layer.data)


@pytest.mark.parametrize("how", ["window", "dock"])
def test_closing_while_it_runs_keeps_the_run(viewer, widget, qtbot, how):
    widget._settings.fields["steps"].value = 100_000
    start(qtbot, widget)
    qtbot.waitUntil(lambda: steps_done(widget) > 1, timeout=WAIT)
    run = widget._run
    if how == "window":
        viewer.close()
    else:
        dock = next(
            each for each in viewer.window._qt_window.findChildren(QDockWidget)
            if each.widget() is widget
        )  # fmt: skip
        click(qtbot, dock.title.close_button)
    qtbot.waitUntil(lambda: not our_threads(), timeout=WAIT)
    assert (run / "state.safetensors").exists()
    resumed = resume(run)
    assert next(resumed).done > 2
    resumed.close()


def test_presets_and_start_models_fill_in_the_rest(widget, qtbot):
    settings = widget._settings
    settings.preset.value = "finetune"
    assert settings.start.value == "default"
    assert settings.fields["steps"].value == 2000
    assert settings.fields["validate_every"].value == 100
    assert settings.fields["channels"].value == 48
    settings.start.value = "tiny"
    config = next(entry.config for entry in kpac.models() if entry.name == "tiny")
    assert settings.fields["channels"].value == config.channels
    assert settings.fields["blocks"].value == config.blocks
    settings.preset.value = "paper"
    assert settings.source.kind.value == "dpdd"
    assert settings.fields["betas"].value == "0.9,0.99"
    assert settings.chosen()[0].betas == (0.9, 0.99)
    settings.name.value = "another"
    assert settings.chosen()[1].name == "run"


def test_it_begins_with_the_default_model_and_the_preset_that_fine_tunes(
    viewer, tiny_model, qtbot, photos, tmp_path
):
    made = TrainWidget(viewer)
    viewer.window.add_dock_widget(made, name="Train", area="right")
    settings = made._settings
    assert (settings.preset.value, settings.start.value) == ("finetune", "default")
    qtbot.waitUntil(lambda: bool(settings._configs), timeout=WAIT)
    settings.source.root.value, settings.run.value = photos, tmp_path / "run"
    options, _, _ = settings.chosen()
    assert (options.start, options.steps, options.learning_rate) == ("default", 2000, 1e-4)
    config = next(entry.config for entry in kpac.models() if entry.is_default)
    assert (options.levels, options.blocks, options.channels) == (
        config.levels, config.blocks, config.channels,
    )  # fmt: skip
    assert {value for _, value in PRESET_CHOICES} == set(PRESETS)
    made.release()


def test_the_expected_time_is_shown_before_the_start(
    widget, qtbot, tmp_path, slow_steps, monkeypatch
):
    measured = []

    def counted(options):
        measured.append(options)
        return measure_pace(options)

    monkeypatch.setattr("napari_kpac.training.pace.measure_pace", counted)
    expected = widget._expected
    assert expected.isVisible()
    widget._settings.fields["steps"].value = 499
    qtbot.waitUntil(lambda: "Expected time: about" in expected.text(), timeout=WAIT)
    assert "measured just now on this computer" in expected.text()
    assert "499 steps" in expected.text()
    assert not widget._panel.task.is_running
    assert not (tmp_path / "run").exists()  # to measure writes nothing
    # What the fixture makes every step take at least is in it.
    (pace,) = expected._paces.values()
    options = widget._settings.chosen()[0]
    assert min(pace.steps) >= 0.1
    assert pace.duration(options) >= 49.9
    # More steps of the same need no other measurement.
    widget._settings.fields["steps"].value = 72_000
    qtbot.waitUntil(lambda: "72000 steps" in expected.text(), timeout=WAIT)
    assert len(measured) == 1
    hours = re.search(r"about ([\d.]+) h", expected.text())
    assert float(hours[1]) >= 2
    # Other crops do.
    widget._settings.fields["crop_size"].value = 40
    qtbot.waitUntil(lambda: len(measured) == 2, timeout=WAIT)
    # Start needs the computer: the measurement stops, and the time left takes its place.
    start(qtbot, widget)
    assert not expected.task.is_running
    assert not expected.isVisible()
    qtbot.waitUntil(lambda: steps_done(widget) > 0, timeout=WAIT)
    click(qtbot, widget._stop)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert expected.isVisible()


def test_the_expected_time_says_early_what_is_wrong_with_the_data(widget, qtbot):
    widget._settings.fields["crop_size"].value = 96
    qtbot.waitUntil(lambda: "not known" in widget._expected.text(), timeout=WAIT)
    assert "at least" in widget._expected.text()
    widget._settings.source.root.line_edit.value = ""
    qtbot.waitUntil(lambda: "data is chosen" in widget._expected.text(), timeout=WAIT)


def test_the_expected_time_of_open_layers(viewer, widget, qtbot, photos, tmp_path):
    stack = np.stack([read_image(path) for path in sorted(photos.iterdir())])
    viewer.add_image(stack, name="stack", rgb=True)
    widget._settings.source.kind.value = "layers"
    qtbot.waitUntil(lambda: "Expected time: about" in widget._expected.text(), timeout=WAIT)
    assert not (tmp_path / "run").exists()


def test_looking_at_the_data_says_which_file_and_stops_at_once(
    widget, qtbot, tmp_path, photos, monkeypatch
):
    pairs, looked = tmp_path / "pairs", []
    for number in range(40):
        for name in ("blurred", "sharp"):
            write_image(pairs / name / f"{number:02d}.png", read_image(photos / "0.png"))

    def slow(pair):
        looked.append(pair.name)
        time.sleep(0.1)
        return ""

    monkeypatch.setattr("napari_kpac.datasets.pairs.misalignment", slow)
    widget._settings.source.root.value = pairs
    assert widget._settings.source.kind.value == "pairs"  # by what is in it
    said = []
    widget._panel.task.progressed.connect(lambda _: said.append(widget._message.text()))
    start(qtbot, widget)
    qtbot.waitUntil(lambda: any("Comparing the images of" in text for text in said), timeout=WAIT)
    assert any(text.startswith("Looking at 00.png (1 of 40)") for text in said)
    assert widget._panel.bar.maximum() == 32
    before = len(looked)
    click(qtbot, widget._stop)
    qtbot.waitUntil(lambda: idle(widget), timeout=WAIT)
    assert len(looked) <= before + 1  # the one under way
    assert widget._message.text() == "Stopped before the first step."
    assert not (tmp_path / "run" / "options.json").exists()
    assert widget._start.isEnabled()


def test_every_option_has_its_place(widget):
    folded = [name for names in folded_options().values() for name in names]
    places = [*OWN, *ELSEWHERE, "steps", *folded]
    assert sorted(places) == sorted(item.name for item in fields(TrainOptions))
    assert set(widget._settings.fields.values) == {"steps", *folded}


def test_the_plots_follow_the_theme(viewer, widget):
    before = widget._curves.backgroundBrush().color().name()
    viewer.theme = "light"
    assert widget._curves.backgroundBrush().color().name() != before


def test_without_pyqtgraph_it_trains_without_curves(viewer, qtbot, monkeypatch, photos, tmp_path):
    monkeypatch.setitem(sys.modules, "pyqtgraph", None)
    monkeypatch.delitem(sys.modules, "napari_kpac.widgets.train.curves", raising=False)
    made = TrainWidget(viewer)
    viewer.window.add_dock_widget(made, name="Train", area="right")
    assert any("pip install" in label.text() for label in made.findChildren(QLabel))
    made._settings.preset.value = "default"
    made._settings.source.root.value = photos
    made._settings.run.value = tmp_path / "run"
    for name, value in TINY.items():
        made._settings.fields[name].value = value
    made._settings.fields["steps"].value = 2
    start(qtbot, made)
    qtbot.waitUntil(lambda: idle(made), timeout=WAIT)
    assert "in every list" in made._message.text()
    made.release()


def test_long_lines_are_thinned_and_stay_true():
    line = Line()
    for step in range(1, 10 * MAX_POINTS + 1):
        line.add(step, float(step))
    assert len(line.steps) < MAX_POINTS
    np.testing.assert_allclose(line.values, line.steps, rtol=0.01, atol=20)
    assert line.steps[-1] > 9.9 * MAX_POINTS
    line.cut(100)
    assert max(line.steps) < 100


def test_a_history_reads_a_table():
    history = History()
    rows = [
        {"step": 10, "loss": 0.3, "block 1 alpha 2": 0.5},
        {"step": 20, "loss": 0.2, "block 1 alpha 2": 0.5, "mae": 0.1, "input mae": 0.4},
    ]
    for row in rows:
        history.add_row(row)
    assert history.lines["loss"].values == [0.3, 0.2]
    assert history.lines["mae"].steps == [20]
    assert history.lines["input mae"].values == [0.4]
    np.testing.assert_allclose(history.lines["block 1 alpha 2"].values, [0.5, 0.5])
    history.cut(20)
    assert history.lines["loss"].steps == [10]


def test_opening_the_widget_does_not_need_torch():
    import subprocess

    code = "import sys, napari_kpac.widgets.train; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
