"""Uses a real window at random for minutes and checks that nothing breaks, leaks or grows.

Cycle after cycle images are opened and removed, sliders moved, work started, cancelled and
started again, docks closed and opened. After each cycle everything is let go and the process
is looked at: threads, layers, widgets, open files, memory. Exceptions count wherever they end:
in a hook, in a thread, in napari's notifications or in a widget's message. Exits with 1 on a
broken promise. The same seed makes the same choices. Needs a display:

    xvfb-run -a -s "-screen 0 1400x900x24" python benchmarks/soak.py --minutes 10
"""

import argparse
import faulthandler
import gc
import json
import os
import random
import sys
import threading
import time
import traceback
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import dask.array as da
import napari
import numpy as np
import psutil
from napari.utils.notifications import notification_manager
from qtpy.QtCore import QEventLoop, QTimer
from qtpy.QtWidgets import QApplication
from skimage import data

from napari_kpac.engine.memory import give_back
from napari_kpac.widgets.blur_map import BlurMapWidget
from napari_kpac.widgets.deblur import DeblurWidget
from napari_kpac.widgets.mixer import MixerWidget

TIMEOUT_S = 120.0
ACTIONS = 12
"""In a cycle."""
WARM_UP = 0.25
"""Share of the cycles in which caches, fonts and libraries may still fill."""
FEWEST = 12
"""Cycles that are needed to judge memory."""
ALLOWED = 0.05
"""Growth of memory."""
WIDGETS = {"deblur": DeblurWidget, "mixer": MixerWidget, "blur": BlurMapWidget}


@dataclass(frozen=True)
class Sample:
    """What is still in use after a cycle."""

    memory: int
    """Bytes that the process wrote itself, after a garbage collection."""
    threads: int
    """Of all kinds."""
    ours: int
    """Threads of ours; none is wanted."""
    layers: int
    widgets: int
    """Widgets of ours that are still alive but in no dock."""
    qt_widgets: int
    files: int


class Problems:
    """Collects every exception, wherever it ends up."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._hooks = (sys.excepthook, threading.excepthook, sys.unraisablehook)

    def __enter__(self) -> "Problems":
        sys.excepthook = lambda kind, value, _: self.note("exception", kind, value)
        threading.excepthook = lambda each: self.note("thread", each.exc_type, each.exc_value)
        sys.unraisablehook = lambda each: self.note("unraisable", each.exc_type, each.exc_value)
        notification_manager.notification_ready.connect(self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        sys.excepthook, threading.excepthook, sys.unraisablehook = self._hooks
        notification_manager.notification_ready.disconnect(self._hear)

    def note(self, where: str, kind: Any, value: Any) -> None:
        """Keep a problem, with the way that led to it."""
        text = f"{where}: {getattr(kind, '__name__', kind)}: {value}"
        if isinstance(value, BaseException):
            text += "\n" + "".join(traceback.format_exception(value))
        self.found.append(text)

    def _hear(self, event: Any) -> None:
        if str(event.severity) in ("error", "warning"):
            wrong = getattr(event, "exception", None)
            self.note("notification", event.severity, wrong or event.message)


class Soak:
    """One window that is used at random."""

    def __init__(self, viewer: napari.Viewer, seed: int = 0, model: str = "kpac-3level") -> None:
        self.viewer, self.model = viewer, model
        self.random = random.Random(seed)
        self.docks: dict[str, Any] = {}
        self.made: list[weakref.ref[Any]] = []
        self.done: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self.problems = Problems()
        coffee = data.coffee()
        grey = coffee[..., 1]
        stack = np.stack([grey[:80, :100], grey[100:180, 100:200], grey[200:280, 300:400]])
        self.images: list[tuple[Any, dict[str, Any]]] = [
            (coffee[60:180, 100:260], {}),
            (grey[:100, :132].astype(np.uint16) * 200, {"gamma": 0.8}),
            (stack.astype(np.float32) / 255, {}),
            (da.from_array(stack, chunks=(1, 40, 50)), {}),
        ]

        # One layer of each kind stays. napari by itself, without any plugin, can crash in Mesa's
        # renderers when the last of a kind is removed and one of another kind is added at once.
        self.staying = [
            viewer.add_image(coffee[:64, :64], name="colour"),
            viewer.add_image(grey[:64, :64], name="grey"),
            viewer.add_labels(grey[:64, :64].astype(int) // 64, name="labels"),
        ]

    @property
    def _passing(self) -> list[Any]:
        """The layers that do not stay."""
        return [layer for layer in self.viewer.layers if layer not in self.staying]

    def cycle(self) -> Sample:
        """Act at random, let everything go, and look at what is left."""
        with self.problems:
            if not self.docks or self.random.random() < 0.2:
                self._act(self._reopen_docks)
            self._act(self._open_image)
            chances = [
                (self._open_image, 1), (self._remove_image, 1), (self._deblur, 3),
                (self._cancel_deblur, 2), (self._open_mixer, 2), (self._move_sliders, 6),
                (self._undo, 1), (self._measure, 2), (self._move_threshold, 2),
                (self._look_elsewhere, 2), (self._split, 1),
            ]  # fmt: skip
            actions, weights = zip(*chances, strict=True)
            for action in self.random.choices(actions, weights, k=ACTIONS):
                self._act(action)
            self._settle()
            self._look_for_messages()
            self.samples.append(self._sample())
        return self.samples[-1]

    def close(self) -> None:
        """Close the docks and the window."""
        with self.problems:
            self._close_docks()
            self.viewer.close()
            wait(lambda: not our_threads())

    # -- what a person does -------------------------------------------------------------------

    def _act(self, action: Callable[[], None]) -> None:
        self.done[action.__name__.lstrip("_").replace("_", " ")] += 1
        action()
        self._look_for_messages()
        rest(self.random.choice((0.0, 0.02, 0.1, 0.3)))

    def _reopen_docks(self) -> None:
        self._close_docks()
        for name, kind in WIDGETS.items():
            widget = kind(self.viewer)
            self.made.append(weakref.ref(widget))
            self.viewer.window.add_dock_widget(widget, name=name, area="right", tabify=True)
            self.docks[name] = widget
        wait(lambda: all(self.model in each._model.choices for each in self.docks.values()))
        for widget in self.docks.values():
            widget._model.value = self.model

    def _close_docks(self) -> None:
        while self.docks:
            _, widget = self.docks.popitem()
            self.viewer.window.remove_dock_widget(widget)

    def _open_image(self) -> None:
        pixels, options = self.random.choice(self.images)
        layer = self.viewer.add_image(pixels, **options)
        box = self.random.choice(list(self.docks.values()))._image
        box.value = layer

    def _remove_image(self) -> None:
        if self._passing:
            self.viewer.layers.remove(self.random.choice(self._passing))

    def _deblur(self) -> None:
        widget = self.docks["deblur"]
        widget._method.value = "kpac"
        widget._scope.value = self.random.choice(("all", "slice"))
        if not widget._panel.task.is_running:
            widget._panel.button.click()

    def _cancel_deblur(self) -> None:
        self._deblur()
        rest(self.random.random() * 0.3)
        if self.docks["deblur"]._panel.task.is_running:
            self.docks["deblur"]._panel.button.click()
        if self.random.random() < 0.5:
            wait(lambda: not self.docks["deblur"]._panel.task.is_running)
            self._deblur()

    def _open_mixer(self) -> None:
        self.docks["mixer"]._open.click()
        if self.random.random() < 0.5:
            wait(lambda: self._mixer_is_ready() or self.docks["mixer"]._renderer is None)

    def _mixer_is_ready(self) -> bool:
        mixer = self.docks["mixer"]
        return mixer._renderer is not None and mixer._controls.isEnabled()

    def _move_sliders(self) -> None:
        if not self._mixer_is_ready():
            return
        controls = self.docks["mixer"]._controls
        strip = self.random.choice(self.random.choice(controls.strips))
        strip.gain.slider.setSliderDown(True)
        for _ in range(self.random.randint(1, 6)):
            strip.gain.slider.setValue(self.random.randint(0, strip.gain.slider.maximum()))
            rest(self.random.random() * 0.05)
        strip.gain.slider.setSliderDown(False)
        if self.random.random() < 0.3:
            self.random.choice((strip.mute, strip.solo)).click()

    def _undo(self) -> None:
        if self._mixer_is_ready():
            mixer = self.docks["mixer"]
            self.random.choice((mixer.undo, mixer.redo, mixer.reset))()

    def _measure(self) -> None:
        widget = self.docks["blur"]
        widget._enlarge.value = 1
        widget._kind.value = self.random.choice(("alpha1", "alpha2", "variance"))
        widget._panel.button.click()

    def _move_threshold(self) -> None:
        slider = self.docks["blur"]._slider
        for _ in range(5):
            slider.setValue(self.random.randint(0, slider.maximum()))
            rest(0.02)

    def _look_elsewhere(self) -> None:
        camera = self.viewer.scene.camera
        camera.zoom *= self.random.choice((0.5, 0.8, 1.25, 2.0))
        camera.center = tuple(c + self.random.uniform(-20, 20) for c in camera.center)
        if self.viewer.dims.ndim > 2:
            self.viewer.dims.set_current_step(0, self.random.randint(0, 2))
        if self.random.random() < 0.3:
            self.viewer.reset_view()

    def _split(self) -> None:
        self.docks["deblur"]._comparison._check.click()

    # -- what is left -------------------------------------------------------------------------

    def _settle(self) -> None:
        """Close everything that is open."""
        deblur, mixer, blur = (self.docks[name] for name in WIDGETS)
        wait(lambda: not deblur._panel.task.is_running and not blur._panel.task.is_running)
        mixer.close_session("Closed.")
        # Not before all is quiet: an answer that is still on its way may bring a layer.
        wait(lambda: not our_threads())
        rest(0.2)
        wait(lambda: not our_threads())
        self._look_for_messages()
        while self._passing:  # one may take others along
            self.viewer.layers.remove(self._passing[-1])
        self.viewer.reset_view()
        rest(0.2)

    def _look_for_messages(self) -> None:
        for name, widget in self.docks.items():
            text = widget._message.text()
            if text.startswith("⚠"):
                self.problems.note(name, "message", text)
                widget._message.setText("")

    def _sample(self) -> Sample:
        process = psutil.Process()
        for _ in range(3):  # what Qt deletes later may let go of more
            gc.collect()
            rest(0.02)
        give_back()
        docked = set(map(id, self.docks.values()))
        alive = [each() for each in self.made]
        return Sample(
            memory=own_memory(process),
            threads=process.num_threads(),
            ours=len(our_threads()),
            layers=len(self._passing),
            widgets=sum(each is not None and id(each) not in docked for each in alive),
            qt_widgets=len(QApplication.allWidgets()),
            files=process.num_fds() if hasattr(process, "num_fds") else 0,
        )


def own_memory(process: psutil.Process) -> int:
    """Return the bytes that a process has written, in memory or swapped out.

    Not the pages of libraries: the system drops and reads those again as it likes, which makes
    resident and unique set sizes go up and down by hundreds of megabytes.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return int(process.memory_full_info().uss)
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return 1024 * sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem", "VmSwap"))


def our_threads() -> list[threading.Thread]:
    """List the threads that the plugin started."""
    return [each for each in threading.enumerate() if each.name.startswith("napari-kpac")]


def wait(until: Callable[[], object]) -> None:
    """Process events until a condition is true."""
    end = time.monotonic() + TIMEOUT_S
    while not until():
        if time.monotonic() > end:
            raise TimeoutError("the window did not get there")
        # A loop of its own, not processEvents(): only that deletes what is to be deleted later.
        loop = QEventLoop()
        QTimer.singleShot(2, loop.quit)
        loop.exec()


def rest(seconds: float) -> None:
    """Process events for some seconds."""
    end = time.monotonic() + seconds
    wait(lambda: time.monotonic() >= end)


def judge(samples: list[Sample], problems: list[str]) -> tuple[dict[str, float], list[str]]:
    """Return figures, and the promises that were broken.

    The first third after the warm-up is compared with the last. Memory is judged by medians, so
    that what a single cycle happens to leave in caches plays no part; what can be counted by its
    most, for pools let idle threads go and start them again.
    """
    steady = samples[round(WARM_UP * len(samples)) :]
    third = max(1, len(steady) // 3)
    first, last = steady[:third], steady[-third:]

    def growth(name: str, typical: Callable[[Iterable[int]], float] = max) -> float:
        before, after = ([getattr(each, name) for each in part] for part in (first, last))
        return typical(after) - typical(before)

    memory = median(each.memory for each in first)
    grown = growth("memory", median)
    figures = {
        "cycles": len(samples),
        "problems": len(problems),
        "memory after warm-up, MB": memory / 1e6,
        "memory at the end, MB": (memory + grown) / 1e6,
        "growth of memory, percent": 100 * grown / memory,
        "slope of memory, kB a cycle": _slope([each.memory for each in steady]) / 1e3,
        "growth of threads": growth("threads"),
        "growth of Qt widgets": growth("qt_widgets"),
        "growth of open files": growth("files"),
        "most layers left": max(each.layers for each in samples),
        "most threads of ours left": max(each.ours for each in samples),
        "most closed widgets still alive": max(each.widgets for each in samples),
    }
    broken = list(dict.fromkeys(problems))
    if figures["most layers left"] or figures["most threads of ours left"]:
        broken.append("a thread or a layer was left over")
    if figures["most closed widgets still alive"]:
        broken.append("a closed widget was never freed")
    if len(samples) >= FEWEST:
        if figures["growth of memory, percent"] > 100 * ALLOWED:
            broken.append("memory grew")
        broken += [
            f"there are more and more {what}"
            for what in ("threads", "Qt widgets", "open files")
            if figures[f"growth of {what}"] > 0
        ]
    return figures, broken


def _slope(values: list[int]) -> float:
    return float(np.polyfit(range(len(values)), values, 1)[0]) if len(values) > 1 else 0.0


def main() -> int:
    """Soak, print the figures, and say whether every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--samples", help="write every sample into this JSON file")
    given = parser.parse_args()
    faulthandler.enable()  # a crash is to say where
    # torch's oneDNN keeps up to 1024 compiled convolutions, one for every shape that it meets; with
    # fewer that store is full after the warm-up and does not look like a leak.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    viewer = napari.Viewer(show=True)
    viewer.window.resize(1280, 800)
    soak = Soak(viewer, given.seed)
    end = time.monotonic() + 60 * given.minutes
    while time.monotonic() < end or len(soak.samples) < FEWEST:
        soak.cycle()
    soak.close()
    if given.samples:
        samples = [asdict(each) for each in soak.samples]
        Path(given.samples).write_text(json.dumps(samples, indent=1))
    figures, broken = judge(soak.samples, soak.problems.found)
    if given.json:
        print(json.dumps({"actions": soak.done, "figures": figures, "broken": broken}, indent=2))
    else:
        print(f"{given.minutes:g} minutes, seed {given.seed}: {sum(soak.done.values())} actions")
        for name, count in soak.done.most_common():
            print(f"  {name:<36}{count:10d}")
        for name, value in figures.items():
            print(f"  {name:<36}{value:10.2f}")
        print("every promise kept" if not broken else "\n".join(["BROKEN:", *broken]))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
