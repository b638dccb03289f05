"""Prints how lively the window is: its longest freezes, and what sliders and Cancel take to answer.

From a slider's move to new pixels, and from pressing Cancel to the end of the work.

A real window on a real image (scikit-image's, enlarged to the size); ratios are to a full
run of the same image in the same window. What napari alone needs to add a layer of that
size, or to show new pixels in one, is measured in the same window and printed beside ours:
a result cannot get on screen faster. Needs a display:

    xvfb-run -a -s "-screen 0 1400x900x24" python benchmarks/liveness.py --megapixels 1 12
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import napari
import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication
from skimage import data
from skimage.transform import resize

from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget

TIMEOUT_S = 3600.0
BEAT = 5
"""Milliseconds between two beats of the event loop's pulse."""
TURNS = 3


class Pulse:
    """Beats in the event loop; a long pause between two beats is a freeze."""

    def __init__(self) -> None:
        self.worst = 0.0
        self._last = time.perf_counter()
        self._timer = QTimer()
        self._timer.setInterval(BEAT)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.perf_counter()
        self.worst = max(self.worst, now - self._last)
        self._last = now

    def reset(self) -> None:
        """Forget what was."""
        self.worst, self._last = 0.0, time.perf_counter()


def wait(until: Callable[[], object]) -> float:
    """Process events until a condition is true; returns the seconds that took."""
    start = time.perf_counter()
    while not until():
        if time.perf_counter() - start > TIMEOUT_S:
            raise TimeoutError("the window did not get there")
        QApplication.processEvents()
        time.sleep(0.001)
    return time.perf_counter() - start


def rest(seconds: float) -> None:
    """Process events for some seconds."""
    end = time.perf_counter() + seconds
    wait(lambda: time.perf_counter() > end)


def measure_napari(viewer: napari.Viewer, pulse: Pulse) -> dict[str, float]:
    """Measure the pauses of napari itself, without any plugin."""
    pixels = viewer.layers[0].data
    viewer.layers.remove(viewer.add_image(pixels))  # the first layer of a kind takes longer
    rest(1)
    pulse.reset()
    layer = viewer.add_image(pixels.copy())
    rest(1)
    found = {"napari alone, a new layer of this size": 1000 * pulse.worst}
    pulse.reset()
    for turn in range(4):
        layer.data = pixels + np.uint8(turn)
        rest(0.5)
    found["napari alone, new pixels in a layer"] = 1000 * pulse.worst
    viewer.layers.remove(layer)
    return found


class StepTimes:
    """The longest time between two steps of work as the window hears of them, by stage."""

    def __init__(self) -> None:
        self.longest: dict[str, float] = {}
        self._last: float | None = None
        """None before the first step: until then the model is being loaded."""

    def note(self, progress: Any) -> None:
        """Note a step."""
        now = time.perf_counter()
        if self._last is not None:
            before = self.longest.get(progress.stage, 0.0)
            self.longest[progress.stage] = max(before, now - self._last)
        self._last = now


def measure_run(
    viewer: napari.Viewer, pulse: Pulse
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Run in full; returns the seconds, the pauses, and how long steps and Cancel took."""
    deblur = DeblurWidget(viewer)
    viewer.window.add_dock_widget(deblur, name="Deblur", area="right")
    wait(lambda: "kpac-3level" in deblur._model.choices)
    deblur._panel.button.click()
    wait(lambda: deblur._panel.bar.value() >= 1)
    rest(0.5)
    deblur._panel.button.click()
    answers = {"Cancel, until the work has ended": wait(lambda: not deblur._panel.task.is_running)}
    rest(1)
    times = StepTimes()
    deblur._panel.task.progressed.connect(times.note)
    pulse.reset()
    working = 0.0

    def arrived() -> bool:
        nonlocal working
        if len(viewer.layers) == 1:
            working = pulse.worst
            return False
        return not deblur._panel.task.is_running

    deblur.run()
    full = wait(arrived)
    rest(1)
    viewer.layers.pop()
    viewer.window.remove_dock_widget(deblur)
    deblur.release()
    pauses = {
        "deblurring, until the result is there": 1000 * working,
        "deblurring, as the result becomes a layer": 1000 * pulse.worst,
    }
    steps = {f"longest step ({stage})": seconds for stage, seconds in times.longest.items()}
    return full, pauses, steps | answers


def measure_mixing(
    viewer: napari.Viewer, pulse: Pulse, zoom: float
) -> tuple[dict[str, float], dict[str, float]]:
    """Drag sliders of both blocks; returns seconds and pauses."""
    mixer = MixerWidget(viewer)
    viewer.window.add_dock_widget(mixer, name="Mixer", area="right")
    wait(lambda: "kpac-3level" in mixer._model.choices)
    mixer.open()
    wait(mixer._controls.isEnabled)
    viewer.scene.camera.zoom *= zoom
    rest(2)
    seen: list[str] = []

    def note(result: Any, _: int) -> None:
        seen.append("draft" if result.draft else "all" if result.region is None else "visible")

    mixer._renderer.rendered.connect(note)
    pulse.reset()
    seconds: dict[str, float] = {}
    for turn in range(TURNS):
        for block in (0, 1):
            slider = mixer._controls.strips[block][0].gain.slider
            seen.clear()
            slider.setSliderDown(True)
            slider.setValue(30 + 20 * turn)
            took = {"draft of what is visible": wait(lambda: seen)}
            seen.clear()
            slider.setSliderDown(False)
            first = wait(lambda: seen)
            took["what is visible"] = first
            took["all pixels"] = first + wait(lambda: "all" in seen)
            rest(0.3)
            for what, value in took.items():
                name = f"{what}, gain of block {block + 1}"
                seconds[name] = min(value, seconds.get(name, value))
    mixer.release()
    return seconds, {"mixing": 1000 * pulse.worst}


def measure(megapixels: float, *, mix: bool) -> dict[str, dict[str, float]]:
    """Open a window, run in full, move sliders, and take the times."""
    height = round((megapixels * 1e6 / 1.5) ** 0.5)
    image = resize(data.coffee(), (height, round(1.5 * height)), order=3)
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1280, 800)
    viewer.add_image((image * 255).astype(np.uint8), name="image")
    pulse = Pulse()
    alone = measure_napari(viewer, pulse)
    full, running, answers = measure_run(viewer, pulse)
    seconds: dict[str, float] = {}
    mixing: dict[str, float] = {}
    if mix:
        seconds, mixing = measure_mixing(viewer, pulse, 4 if megapixels > 2 else 1)
    viewer.close()
    return {
        f"{megapixels:g} megapixels": {"full run, seconds": full},
        "until the window answers, seconds": answers,
        "time to see them, share of a full run": {
            name: value / full for name, value in seconds.items()
        },
        "longest pause of the event loop, milliseconds": {**running, **mixing, **alone},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1, 12])
    parser.add_argument("--no-mixing", action="store_true", help="only the Deblur widget")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measure(megapixels, mix=not given.no_mixing) for megapixels in given.megapixels]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        for title, values in row.items():
            print(title)
            for name, value in values.items():
                print(f"  {name:<60}{value:8.2f}")
        print()


if __name__ == "__main__":
    main()
