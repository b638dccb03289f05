"""Take images of the real window for the documentation: each widget, dark and light, and a film.

Needs a display (make screenshots brings its own, with Xvfb).

usage: python tools/screenshots.py [NAME ...] (names of images without the theme, or film)
"""

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import napari
import numpy as np
import PIL.Image
from qtpy.QtWidgets import QApplication, QWidget
from skimage import data

from napari_kpac import Modulation, deblur
from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.images import write_image
from napari_kpac.widgets.batch import BatchWidget
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.evaluate import EvaluateWidget
from napari_kpac.widgets.inverse_kernels import InverseKernelsWidget
from napari_kpac.widgets.mixer import MixerWidget
from napari_kpac.widgets.train import TrainWidget

TARGET = Path(__file__).parents[1] / "docs" / "images"
TIMEOUT_S = 120.0


def wait(until: Callable[[], object], settle: float = 0.6, timeout: float = TIMEOUT_S) -> None:
    """Process events until a condition is true, and a little longer."""
    end = time.monotonic() + timeout
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("the window did not get there")
        QApplication.processEvents()
        time.sleep(0.01)
    end = time.monotonic() + settle
    while time.monotonic() < end:
        QApplication.processEvents()
        time.sleep(0.01)


def prepare_deblur(_: napari.Viewer, widget: DeblurWidget) -> None:
    """Deblur and show the split."""
    widget.run()
    wait(lambda: not widget._panel.task.is_running)
    widget._comparison._check.setChecked(True)


def prepare_batch(viewer: napari.Viewer, widget: BatchWidget) -> None:
    """Deblur a few files, one of which is no image, and open a result."""
    viewer.layers.clear()
    folder = Path(tempfile.mkdtemp(prefix="napari-kpac-"))
    for number in range(4):
        part = data.coffee()[40 * number : 40 * number + 240, 80 * number : 80 * number + 320]
        write_image(folder / "photos" / f"coffee-{number + 1}.png", part.copy())
    (folder / "photos" / "letter.jpg").write_text("Dear Sir or Madam")
    made = deblur(data.coffee()[:64, :64], modulation=Modulation(gains=[1, 1, 1, 0.5, 0]))
    made.recipe.save(folder / "look.json")
    widget._inputs.add([folder / "photos"])
    widget._recipe.choose(folder / "look.json")
    widget._output.line_edit.value = str(folder / "sharp")
    wait(lambda: widget._recipe.recipe is not None)
    widget.run()
    wait(lambda: not widget._panel.task.is_running)
    said = widget._message.text()
    widget._table.doubleClicked.emit(widget._table.order.index(1, 0))
    wait(lambda: len(viewer.layers) > 0)
    widget._message.setText(said)
    # The image is for everybody: no folder of this machine in it.
    widget._output.line_edit.value = "sharp"
    widget._recipe._soon.blockSignals(True)
    widget._recipe.choose("look.json")


def prepare_mixer(_: napari.Viewer, widget: MixerWidget) -> None:
    """Open, wait for the effects of the strips, lower a gain and mute a dilation."""
    widget.open()
    wait(widget._controls.isEnabled)
    strips = widget._controls.strips
    wait(lambda: all(strip.facts.effect is not None for row in strips for strip in row))
    widget._controls.strips[0][1].gain.number.setValue(0.6)
    widget._controls.strips[0][3].mute.click()
    wanted = widget.state.strength, widget.state.effective()
    wait(lambda: _shown(widget) == wanted, settle=3)


def prepare_blur_map(_: napari.Viewer, widget: BlurMapWidget) -> None:
    """Measure by the attention, as the widget comes."""
    widget.measure()
    wait(lambda: not widget._panel.task.is_running and not widget._deciding.is_running)


def prepare_inverse(viewer: napari.Viewer, widget: InverseKernelsWidget) -> None:
    """Blur and deblur the image."""
    widget._button.click()
    wait(lambda: "dB" in widget._message.text())
    viewer.reset_view()


def prepare_train(viewer: napari.Viewer, widget: TrainWidget) -> None:
    """Train a small network on parts of a photograph, and pause before the end."""
    viewer.layers.clear()
    folder = Path(tempfile.mkdtemp(prefix="napari-kpac-"))
    for number in range(4):
        part = data.coffee()[50 * number : 50 * number + 250, 80 * number : 80 * number + 300]
        write_image(folder / "photos" / f"{number}.png", part.copy())
    settings = widget._settings
    settings.preset.value = "smoke"
    settings.source.root.value, settings.run.value = folder / "photos", folder / "run"
    settings.fields["steps"].value = 100
    settings.fields["validate_every"].value = 10
    wait(lambda: "kpac-3level" in settings.start.choices)
    widget.start()
    wait(lambda: widget._last is not None and widget._last.done >= 90, timeout=900)
    widget._pause.click()
    wait(lambda: widget._panel.task.is_paused)
    viewer.reset_view()


def prepare_evaluate(_: napari.Viewer, widget: EvaluateWidget) -> None:
    """Compare two models with unsharp masking on a few made-up pairs."""
    folder = Path(tempfile.mkdtemp())
    for i in range(3):
        part = data.astronaut()[90 * i : 90 * i + 320]
        write_image(folder / "photos" / f"astronaut-{i}.png", part)
    options = SynthesisOptions(val=1, test=0, max_radius=8)
    finish(synthesise([folder / "photos"], folder / "pairs", options))
    controls = widget._controls
    wait(lambda: {"kpac-3level", "kpac-2level"} <= {value for _, value in controls.models.entries})
    controls.models.chosen = ("kpac-2level", "kpac-3level")
    controls.kind.value = "dpdd"
    controls.root.value = folder / "pairs"
    controls.methods.chosen = ("unsharp",)
    widget.run()
    wait(lambda: not widget._panel.task.is_running)
    # The image is for everybody: no folder of this machine in it.
    controls.root.line_edit.value = "pairs"


def move_strength(_: napari.Viewer, widget: MixerWidget) -> Iterator[None]:
    """Pull the strength down to 0 and up again, then one gain; a frame at every stop."""
    widget.open()
    wait(widget._controls.isEnabled)
    strength = widget._controls.strength.slider
    gain = widget._controls.strips[0][0].gain.number
    ways = (
        (strength.setValue, np.linspace(strength.value(), 0, 10).astype(int)),
        (strength.setValue, np.linspace(0, strength.value(), 10).astype(int)),
        (gain.setValue, np.linspace(1, 0, 6)),
        (gain.setValue, np.linspace(0, 1, 6)),
    )
    for move, stops in ways:
        for stop in stops.tolist():
            move(stop)
            wanted = widget.state.strength, widget.state.effective()
            wait(lambda wanted=wanted: _shown(widget) == wanted, settle=0.1)
            yield


def _shown(widget: MixerWidget) -> object:
    """Return the strength and gains of the image on display."""
    made = widget._shown.whole.recipe.modulation
    gains = np.broadcast_to(1.0 if made.gains is None else made.gains, (2, 5))
    return made.strength, tuple(map(tuple, gains.tolist()))


SHOTS = (
    ("first-open", "Deblur", lambda *_: None),
    ("deblur", "Deblur", prepare_deblur),
    ("batch", "Batch", prepare_batch),
    ("mixer", "Attention mixer", prepare_mixer),
    ("blur-map", "Blur map", prepare_blur_map),
    ("inverse-kernels", "Inverse kernels", prepare_inverse),
    ("train", "Train", prepare_train),
    ("evaluate", "Evaluate", prepare_evaluate),
)
ON_SCENE = ("Deblur", "Attention mixer", "Blur map")
FILM = "film"


@contextmanager
def opened(widget_name: str) -> Iterator[tuple[napari.Viewer, QWidget]]:
    """Open a window with a sample and one widget, as the menus do."""
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1280, 800)
    viewer.open_sample("napari-kpac", "scene" if widget_name in ON_SCENE else "coffee")
    _, widget = viewer.window.add_plugin_dock_widget("napari-kpac", widget_name)
    model = getattr(widget, "_model", None)
    wait(lambda: model is None or "kpac-3level" in model.choices)
    try:
        yield viewer, widget
    finally:
        widget.release()
        viewer.close()
        wait(lambda: True, 1)


def shoot(name: str, widget_name: str, prepare: Callable[..., None]) -> None:
    """Photograph a widget in both themes."""
    with opened(widget_name) as (viewer, widget):
        prepare(viewer, widget)
        for theme in ("dark", "light"):
            viewer.theme = theme
            wait(lambda: True)
            path = TARGET / f"{name}-{theme}.png"
            viewer.screenshot(str(path), canvas_only=False, flash=False)
            print(f"wrote docs/images/{path.name}")


def film() -> None:
    """Film the mixer while a slider is moved."""
    frames = []
    with opened("Attention mixer") as (viewer, widget):
        for _ in move_strength(viewer, widget):
            pixels = viewer.screenshot(canvas_only=False, flash=False)
            frame = PIL.Image.fromarray(pixels).convert("RGB")
            frames.append(frame.resize((960, 600), PIL.Image.Resampling.LANCZOS))
    path = TARGET / "mixer.webp"
    frames[0].save(
        path, save_all=True, append_images=frames[1:], duration=120, loop=0, quality=78, method=6
    )
    print(
        f"wrote docs/images/{path.name}: {len(frames)} frames, {path.stat().st_size / 1e6:.2f} MB"
    )


def main() -> None:
    """Take all images, or those that are named; 'film' is the moving one."""
    TARGET.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[1:] or [FILM, *(shot[0] for shot in SHOTS)]
    if FILM in wanted:
        film()
    for shot in SHOTS:
        if shot[0] in wanted:
            shoot(*shot)


if __name__ == "__main__":
    main()
