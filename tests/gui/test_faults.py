"""Things that go wrong behind a window: it lives on and says what happened."""

import dask.array as da
import numpy as np
import pytest
import tifffile

import napari_kpac as kpac
from napari_kpac.engine.stages import Stages
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget
from tests.gui.conftest import WAIT, result_of


def run(widget, qtbot):
    widget._panel.button.click()
    qtbot.waitUntil(lambda: not widget._panel.task.is_running, timeout=WAIT)
    return widget._message.text()


def fail_above(side, monkeypatch, method="_encode_tile"):
    """Let memory run short wherever tiles are larger than this."""
    original = getattr(Stages, method)

    def limited(self, *args):
        if self.plan.tile > side:
            raise MemoryError
        return original(self, *args)

    monkeypatch.setattr(Stages, method, limited)


def test_deblurring_with_too_little_memory(viewer, docked, tiny_model, image, qtbot, monkeypatch):
    widget = docked(DeblurWidget)
    image = np.tile(image, (2, 2, 1))
    expected = kpac.deblur(image, "tiny").image.astype(int)
    viewer.add_image(image, name="cup")
    with monkeypatch.context() as patched:
        fail_above(-1, patched)
        assert "out of memory" in run(widget, qtbot)
        assert len(viewer.layers) == 1
    with monkeypatch.context() as patched:
        fail_above(128, patched)
        said = run(widget, qtbot)
    assert "Done" in said
    assert "memory ran short; going on with tiles of 128 pixels" in said
    assert np.abs(result_of(viewer, "cup (deblurred)").data - expected).max() <= 1
    assert "short" not in run(widget, qtbot)


def test_an_allocation_that_no_smaller_tile_helps(viewer, docked, tiny_model, qtbot, monkeypatch):
    def refuse(*args, **options):
        raise MemoryError

    widget = docked(DeblurWidget)
    viewer.add_image(np.zeros((32, 32), np.uint8), name="grey")
    monkeypatch.setattr("napari_kpac.engine.job.read_plane", refuse)
    assert "out of memory: there is too little for the image; close" in run(widget, qtbot)


def test_mixing_with_too_little_memory(viewer, docked, tiny_model, image, qtbot, monkeypatch):
    image = np.tile(image, (2, 2, 1))
    viewer.add_image(image, name="cup")
    mixer = docked(MixerWidget)
    with monkeypatch.context() as patched:
        fail_above(128, patched)
        mixer._open.click()
        qtbot.waitUntil(lambda: "memory ran short" in mixer._message.text(), timeout=WAIT)
        assert mixer._controls.isEnabled()
    # A render that fails for good is told of, and the next one works.
    with monkeypatch.context() as patched:
        fail_above(-1, patched, "decode")
        mixer._controls.strips[0][0].gain.number.setValue(0.5)
        qtbot.waitUntil(lambda: "out of memory" in mixer._message.text(), timeout=WAIT)
    assert mixer._renderer.is_alive
    mixer._controls.strips[0][0].gain.number.setValue(0.25)
    rows = np.ones((2, 5))
    rows[0, 0] = 0.25
    wanted = kpac.deblur(image, "tiny", modulation=kpac.Modulation(gains=rows)).image.astype(int)
    shown = result_of(viewer, "cup (mixer)")
    qtbot.waitUntil(
        lambda: shown.data.shape == wanted.shape and np.abs(shown.data - wanted).max() <= 1,
        timeout=WAIT,
    )


def test_opening_the_mixer_without_memory(viewer, docked, tiny_model, image, qtbot, monkeypatch):
    viewer.add_image(image, name="cup")
    mixer = docked(MixerWidget)
    fail_above(-1, monkeypatch)
    mixer._open.click()
    qtbot.waitUntil(lambda: "out of memory" in mixer._message.text(), timeout=WAIT)
    qtbot.waitUntil(lambda: mixer._open.text() == "Open", timeout=WAIT)


def test_saving_where_nothing_can_be_saved(viewer, docked, tiny_model, image, qtbot, tmp_path):
    (tmp_path / "file").write_text("mine")
    viewer.add_image(image, name="cup")
    blur = docked(BlurMapWidget)
    blur._kind.value = "variance"
    run(blur, qtbot)
    qtbot.waitUntil(lambda: blur._result is not None, timeout=WAIT)
    blur.save_map(tmp_path / "file" / "map.png")
    qtbot.waitUntil(lambda: "cannot write" in blur._message.text(), timeout=WAIT)
    mixer = docked(MixerWidget)
    mixer._open.click()
    qtbot.waitUntil(mixer._controls.isEnabled, timeout=WAIT)
    with mixer._message.showing_errors():
        mixer.save_recipe(tmp_path / "file" / "recipe.json")
    qtbot.waitUntil(lambda: "cannot write" in mixer._message.text(), timeout=WAIT)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("kind", [DeblurWidget, BlurMapWidget])
def test_an_input_that_vanishes(viewer, docked, tiny_model, qtbot, tmp_path, kind):
    """A lazy layer whose file is gone when its pixels are wanted."""
    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((2, 32, 40), np.uint8))
    lazy = da.stack([
        da.from_delayed(_read(path, number), (32, 40), np.uint8) for number in range(2)
    ])  # fmt: skip
    viewer.add_image(lazy, name="lazy", contrast_limits=(0, 255))
    widget = docked(kind)
    viewer.layers["lazy"].visible = False
    path.unlink()
    assert "a.tif" in run(widget, qtbot)
    viewer.add_image(np.zeros((32, 40), np.uint8), name="there")
    widget._image.value = viewer.layers["there"]
    assert "⚠" not in run(widget, qtbot)


def _read(path, number):
    import dask

    return dask.delayed(lambda: tifffile.imread(path)[number])()


def test_the_sliders_work_on_what_was_measured(viewer, docked, tiny_model, image, qtbot):
    """Not on what is being measured: that may have other axes."""
    viewer.add_image(image, name="flat")
    blur = docked(BlurMapWidget)
    blur._kind.value = "variance"
    run(blur, qtbot)
    qtbot.waitUntil(lambda: blur._result is not None, timeout=WAIT)
    stack = viewer.add_image(np.stack([image[..., 0]] * 3), name="stack")
    blur._image.value = stack
    blur._panel.button.click()
    blur._smoothing.value = 3
    blur._decide()
    qtbot.waitUntil(
        lambda: not blur._panel.task.is_running and not blur._deciding.is_running, timeout=WAIT
    )
    assert result_of(viewer, "flat (blur)").ndim == 2
    assert result_of(viewer, "stack (blur)").data.shape == (3, 96, 128)


def test_the_split_follows_to_a_image_of_another_kind(viewer, docked, tiny_model, image, qtbot):
    widget = docked(DeblurWidget)
    viewer.add_image(image, name="colour")
    run(widget, qtbot)
    widget._comparison._check.click()
    for name, pixels in (("grey", image[..., 0]), ("stack", np.stack([image[..., 1]] * 2))):
        widget._image.value = viewer.add_image(pixels, name=name)
        run(widget, qtbot)
        split = result_of(viewer, "split")
        assert (split.rgb, split.ndim) == (False, pixels.ndim)
        assert split.data.shape[:-1] == pixels.shape[:-1]
