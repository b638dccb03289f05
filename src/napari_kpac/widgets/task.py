"""Long work in a thread, for windows.

The rules of the thread: it touches no widget and no layer, and holds on to none; it speaks
through signals; it stops at the next step after :meth:`Task.cancel`; whatever goes wrong comes
back as a message. It is a thread of its own, not one of Qt's pool: it gives way to the window,
which cannot be taken back, and it ends with the work, whoever still holds on to that.

Not for: the work itself (engine).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal  # type: ignore[attr-defined]

from napari_kpac.core.errors import for_people
from napari_kpac.core.progress import Progress, Steps


def later(owner: QObject, milliseconds: int, action: Callable[[], None]) -> QTimer:
    """Make a timer, stopped and owned by ``owner``; each start calls the action once, so late."""
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(action)
    return timer


NICENESS = 10
_waiting: set[_Ending] = set()


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
    ending = _Ending(action)
    _waiting.add(ending)
    owner.destroyed.connect(ending.run)


class _Ending:
    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self, _: object = None) -> None:
        _waiting.discard(self)
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
        self._held: list[_Work] = []
        # A window that is destroyed takes its tasks along without asking them.
        when_destroyed(self, partial(_stop, self._held))

    @property
    def is_running(self) -> bool:
        """Whether work is under way."""
        return bool(self._held)

    def start(self, make: Callable[[], Steps[Any]]) -> None:
        """Run the steps that ``make`` returns; ``make`` is called in the thread too."""
        self.cancel(forget=True)
        work = _Work(make)
        work.progressed.connect(self._report)
        work.returned.connect(self.succeeded)
        work.failed.connect(self._fail)
        work.paused.connect(self.paused)
        work.resumed.connect(self.resumed)
        work.cancelled.connect(self.cancelled)
        work.ended.connect(self._finish)
        self._held.append(work)
        work.start()

    @property
    def is_paused(self) -> bool:
        """Whether the work waits between two steps."""
        return any(work.is_paused for work in self._held)

    def toggle_pause(self) -> None:
        """Ask the work to wait after its next step, or to go on."""
        for work in self._held:
            work.toggle_pause()

    def cancel(self, *, forget: bool = False) -> None:
        """Ask the work to stop at its next step.

        With ``forget`` nothing more is heard of it: for windows that are going away.
        """
        _stop(self._held)
        if forget:
            for work in self._held:
                work.disconnect_all()
            self._held.clear()

    def _report(self, progress: Progress) -> None:
        if not any(work.is_cancelled for work in self._held):
            self.progressed.emit(progress)

    def _fail(self, error: BaseException) -> None:
        self.failed.emit(for_people(error))

    def _finish(self) -> None:
        self._held.clear()
        self.ended.emit()


class _Work(QObject):
    """One piece of work in one thread."""

    progressed = Signal(object)
    returned = Signal(object)
    failed = Signal(object)
    paused = Signal()
    resumed = Signal()
    cancelled = Signal()
    ended = Signal()

    def __init__(self, make: Callable[[], Steps[Any]]) -> None:
        super().__init__()
        self.is_cancelled = False
        self.is_paused = False
        self._go = threading.Event()
        self._go.set()
        self._thread = threading.Thread(target=self._run, args=(make,), name="napari-kpac work")

    def start(self) -> None:
        """Begin."""
        # A Qt object must not end in another thread, as it would if that had the last hold.
        _begun.difference_update({work for work in _begun if not work._thread.is_alive()})
        _begun.add(self)
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

    def disconnect_all(self) -> None:
        """Tell nobody any more."""
        for signal in (
            self.progressed,
            self.returned,
            self.failed,
            self.paused,
            self.resumed,
            self.cancelled,
            self.ended,
        ):
            with suppress(TypeError, RuntimeError):  # nothing is connected any more
                signal.disconnect()

    def _run(self, make: Callable[[], Steps[Any]]) -> None:
        give_way()
        try:
            self._drive(make())
        except Exception as error:
            self.failed.emit(error)
        finally:
            self.ended.emit()

    def _drive(self, steps: Steps[Any]) -> None:
        try:
            while not self.is_cancelled:
                self.progressed.emit(next(steps))
                self._rest()
            self.cancelled.emit()
        except StopIteration as end:
            self.returned.emit(end.value)
        finally:
            steps.close()

    def _rest(self) -> None:
        """Wait as long as the work is paused."""
        if self._go.is_set():
            return
        self.is_paused = True
        self.paused.emit()
        self._go.wait()
        self.is_paused = False
        if not self.is_cancelled:
            self.resumed.emit()


_begun: set[_Work] = set()


class Latest(QObject):
    """Answers questions in a thread, one at a time; of those that queue only the newest."""

    answered = Signal(object)
    """What a question's function returned."""
    failed = Signal(str)
    """A message for a person."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._wish: Callable[[], Any] | None = None
        self._task = Task(self)
        self._task.succeeded.connect(self.answered)
        self._task.failed.connect(self.failed)
        self._task.ended.connect(self._go_on)

    @property
    def is_busy(self) -> bool:
        """Whether an answer is on its way."""
        return self._task.is_running

    def ask(self, function: Callable[[], Any]) -> None:
        """Call this in the thread, after what is being worked on."""
        self._wish = function
        if not self._task.is_running:
            self._go_on()

    def forget(self) -> None:
        """Want no answer any more."""
        self._wish = None
        self._task.cancel(forget=True)

    def _go_on(self) -> None:
        wish, self._wish = self._wish, None
        if wish is not None:
            self._task.start(single(wish))


def _stop(works: list[_Work]) -> None:
    for work in works:
        work.stop()


def single(function: Callable[[], Any]) -> Callable[[], Steps[Any]]:
    """Make one step of a plain function, so that a :class:`Task` can run it."""

    def steps() -> Steps[Any]:
        yield from ()
        return function()

    return steps
