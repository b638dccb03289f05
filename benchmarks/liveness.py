"""Prints how lively the mixer is: from a slider's move to new pixels, and the longest freeze.

A real window on a real picture (scikit-image's, enlarged to the size); ratios are to a full
run of the same picture in the same window. Needs a display:

    xvfb-run -a -s "-screen 0 1400x900x24" python benchmarks/liveness.py --megapixels 1 12
"""

import argparse
import json
import time
from collections.abc import Callable

import napari
import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QApplication
from skimage import data
from skimage.transform import resize

from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget

PATIENCE = 600.0
BEAT = 5
"""Milliseconds between two beats of the event loop's pulse."""


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
    """Let the window live until something is true; returns the seconds that took."""
    start = time.perf_counter()
    while not until():
        if time.perf_counter() - start > PATIENCE:
            raise TimeoutError("the window did not get there")
        QApplication.processEvents()
        time.sleep(0.001)
    return time.perf_counter() - start


def rest(seconds: float) -> None:
    """Let the window live for a while."""
    end = time.perf_counter() + seconds
    wait(lambda: time.perf_counter() > end)


def measure(megapixels: float) -> dict[str, float]:
    """Open a window, run in full, move sliders, and take the times."""
    height = round((megapixels * 1e6 / 1.5) ** 0.5)
    picture = resize(data.coffee(), (height, round(1.5 * height)), order=3)
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1280, 800)
    viewer.add_image((picture * 255).astype(np.uint8), name="picture")
    pulse = Pulse()
    deblur = DeblurWidget(viewer)
    viewer.window.add_dock_widget(deblur, name="Deblur", area="right")
    wait(lambda: "kpac-3level" in deblur._model.choices)
    rest(1)
    pulse.reset()
    deblur.run()
    full = wait(lambda: not deblur._task.is_running)
    worst = pulse.worst
    viewer.layers.pop()
    viewer.window.remove_dock_widget("all")
    mixer = MixerWidget(viewer)
    viewer.window.add_dock_widget(mixer, name="Mixer", area="right")
    wait(lambda: "kpac-3level" in mixer._model.choices)
    mixer.open()
    wait(mixer._desk.isEnabled)
    viewer.scene.camera.zoom *= 4 if megapixels > 2 else 1
    rest(2)
    times: dict[str, list[float]] = {"first 1": [], "all 1": [], "first 2": [], "all 2": []}
    seen: list[bool] = []
    mixer._renderer.rendered.connect(lambda result, _: seen.append(result.region is None))
    pulse.reset()
    for turn in range(3):
        for block, name in ((0, "1"), (1, "2")):
            seen.clear()
            mixer._desk.strips[block][0].number.setValue(0.3 + 0.2 * turn)
            times[f"first {name}"].append(wait(lambda: seen))
            times[f"all {name}"].append(times[f"first {name}"][-1] + wait(lambda: any(seen)))
            rest(0.3)
    found = {
        "megapixels": megapixels,
        "full run, seconds": full,
        **{
            f"{what} pixels after a gain of block {block}, share of a full run": min(
                times[f"{what} {block}"]
            )
            / full
            for block in "12"
            for what in ("first", "all")
        },
        "longest pause of the event loop while running, ms": 1000 * worst,
        "longest pause of the event loop while mixing, ms": 1000 * pulse.worst,
    }
    mixer.release()
    deblur.release()
    viewer.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megapixels", type=float, nargs="+", default=[1, 12])
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    rows = [measure(megapixels) for megapixels in given.megapixels]
    if given.json:
        print(json.dumps(rows, indent=2))
        return
    for row in rows:
        for name, value in row.items():
            print(f"{name:<62}{value:8.2f}")
        print()


if __name__ == "__main__":
    main()
