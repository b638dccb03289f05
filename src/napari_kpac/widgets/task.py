"""Long work in a thread of its own, for windows.

The rules of the thread: it touches no widget and no layer, and holds on to none; it reports
through signals; it stops at the next step after :meth:`Task.cancel`; whatever goes wrong comes
back as a message. It is a thread of its own, not one of Qt's pool (as napari's workers are): it
lowers its priority, which cannot be taken back, and it ends with the work, whoever still holds on
to that. napari's GeneratorWorker also swallows every RuntimeError, and torch's errors are such.

Not for: the work itself (engine), or showing it (run_panel.py).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from qtpy.QtCore import (  # type: ignore[attr-defined]
    QCoreApplication,
    QEventLoop,
    QObject,
    QTimer,
    Signal,
)

from napari_kpac.core.errors import KpacError, for_people
from napari_kpac.core.progress import Steps

NICENESS = 10
_callbacks: set[_DestroyedCallback] = set()


def later(owner: QObject, milliseconds: int, action: Callable[[], None]) -> QTimer:
    """Make a timer, stopped and owned by ``owner``; each start calls the action once, so late."""
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(action)
    return timer


def give_way() -> None:
    """Lower the priority of this thread and of all that it starts, torch's helpers included.

    Only Linux has priorities of threads that a program may lower like this; elsewhere the
    system's scheduler prefers the window by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it: then all are equal
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def when_destroyed(owner: QObject, action: Callable[[], None]) -> None:
    """Call this when a Qt object is destroyed; it must not hold on to that object.

    The garbage collector destroys Qt objects too. By then it has emptied every function that
    only they knew, and to call an emptied one crashes: so the action is kept here meanwhile.
    """
    callback = _DestroyedCallback(action)
    _callbacks.add(callback)
    owner.destroyed.connect(callback.run)


class _DestroyedCallback:
    """An object with a method: PyQt never calls a plain function for a collected sender."""

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self, _: object = None) -> None:
        """Call the action, once."""
        _callbacks.discard(self)
        self._action()


class Task(QObject):
    """At most one piece of work at a time; starting another cancels the one before."""

    progressed = Signal(object)
    """A Progress."""
    succeeded = Signal(object)
    """What the work returned."""
    failed = Signal(str)
    """A message for a person."""
    paused = Signal()
    """The work waits between two steps."""
    resumed = Signal()
    """The work goes on."""
    cancelled = Signal()
    """The work stops because it was asked to; what it keeps is kept when it has ended."""
    ended = Signal()
    """The thread is done, whatever became of the work."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._works: list[_Work] = []
        """The work under way, if any; a list, for what stops it must not hold on to the task."""
        self._then: Callable[[Any], None] | None = None
        # A window that is destroyed takes its tasks along without asking them.
        when_destroyed(self, partial(_stop, self._works))

    @property
    def is_running(self) -> bool:
        """Whether work is under way."""
        return bool(self._works)

    @property
    def is_paused(self) -> bool:
        """Whether the work waits between two steps."""
        return any(work.is_paused for work in self._works)

    def start(
        self, make: Callable[[], Steps[Any]], then: Callable[[Any], None] | None = None
    ) -> None:
        """Run the steps that ``make`` returns; ``make`` is called in the thread too.

        ``then`` gets the result, in the window's thread.
        """
        self.cancel(forget=True)
        self._then = then
        work = _Work(make)
        work.reported.connect(self._report)
        self._works.append(work)
        work.start()

    def toggle_pause(self) -> None:
        """Ask the work to wait after its next step, or to go on."""
        for work in self._works:
            work.toggle_pause()

    def cancel(self, *, forget: bool = False) -> None:
        """Ask the work to stop at its next step.

        With ``forget`` nothing more is heard of it: for windows that are going away.
        """
        _stop(self._works)
        if forget:
            self._works.clear()
            self._then = None

    def _report(self, work: _Work, event: str, values: tuple[Any, ...]) -> None:
        """Emit the signal of an event, unless the work was forgotten meanwhile."""
        if work not in self._works or (event == "progressed" and work.is_cancelled):
            return
        if event == "succeeded" and self._then is not None:
            self._then(*values)
        if event == "ended":
            self._works.clear()
            self._then = None  # it may hold on to a layer
        getattr(self, event).emit(*values)


class _Work(QObject):
    """One piece of work in one thread."""

    reported = Signal(object, str, object)
    """This work, the name of a signal of Task, and its values."""

    def __init__(self, make: Callable[[], Steps[Any]]) -> None:
        super().__init__()
        self.is_cancelled = False
        self.is_paused = False
        self._go = threading.Event()
        self._go.set()
        self._thread = threading.Thread(target=self._run, args=(make,), name="napari-kpac work")

    def start(self) -> None:
        """Start the thread."""
        # A Qt object must not end in another thread, as it would if that had the last hold.
        _started.difference_update({work for work in _started if not work._thread.is_alive()})
        _started.add(self)
        self._thread.start()

    def stop(self) -> None:
        """Ask to stop at the next step, or now where the work is paused."""
        self.is_cancelled = True
        self._go.set()

    def toggle_pause(self) -> None:
        """Ask to wait after the next step, or to go on."""
        if self._go.is_set():
            self._go.clear()
        else:
            self._go.set()

    def _run(self, make: Callable[[], Steps[Any]]) -> None:
        give_way()
        try:
            self._drive(make())
        except Exception as error:
            self._emit("failed", for_people(error))
        finally:
            self._emit("ended")

    def _drive(self, steps: Steps[Any]) -> None:
        try:
            while not self.is_cancelled:
                self._emit("progressed", next(steps))
                self._wait_if_paused()
            self._emit("cancelled")
        except StopIteration as end:
            self._emit("succeeded", end.value)
        finally:
            steps.close()

    def _wait_if_paused(self) -> None:
        if self._go.is_set():
            return
        self.is_paused = True
        self._emit("paused")
        self._go.wait()
        self.is_paused = False
        if not self.is_cancelled:
            self._emit("resumed")

    def _emit(self, event: str, *values: Any) -> None:
        self.reported.emit(self, event, values)


_started: set[_Work] = set()


def _stop(works: list[_Work]) -> None:
    for work in works:
        work.stop()


def run_in_worker(function: Callable[[], Any]) -> Any:
    """Call a function in a worker as windows have them, wait for it and return what it returned.

    For measurements; starts Qt where it does not run yet.
    """
    application = QCoreApplication.instance() or QCoreApplication([])
    task, loop = Task(), QEventLoop(application)
    found: list[Any] = []
    errors: list[str] = []
    task.failed.connect(errors.append)
    task.ended.connect(loop.quit)
    task.start(single(function), found.append)
    loop.exec()
    if errors:
        raise KpacError(errors[0])
    return found[0]


class Latest(Task):
    """Calls functions one after the other; of those that wait only the newest."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: tuple[Callable[[], Steps[Any]], Callable[[Any], None]] | None = None
        self.ended.connect(self._go_on)

    def ask(self, function: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Call a function in the thread, and ``then`` with its answer in the window's."""
        self._waiting = single(function), then
        if not self.is_running:
            self._go_on()

    def cancel(self, *, forget: bool = False) -> None:
        """Drop what waits, too."""
        self._waiting = None
        super().cancel(forget=forget)

    def _go_on(self) -> None:
        if self._waiting is not None:
            self.start(*self._waiting)


def single(function: Callable[[], Any]) -> Callable[[], Steps[Any]]:
    """Make one step of a plain function, so that a :class:`Task` can run it."""

    def steps() -> Steps[Any]:
        yield from ()
        return function()

    return steps
