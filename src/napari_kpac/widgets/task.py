"""Long work in a thread, for windows.

The rules of the thread: it touches no widget and no layer; it speaks through signals; it
stops at the next step after :meth:`Task.cancel`; whatever goes wrong comes back as a message.
(Qt's generator workers swallow every RuntimeError, and torch's errors are RuntimeErrors: so
those are caught inside and raised again as something else.)

Not for: the work itself (engine).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import ReferenceType, ref

from qtpy.QtCore import QObject, Signal  # type: ignore[attr-defined]
from superqt.utils import create_worker

from napari_kpac.errors import KpacError
from napari_kpac.progress import Progress, Steps
from napari_kpac.widgets.background import give_way, when_destroyed


class WorkError(KpacError):
    """Work in a thread failed in a way that nobody foresaw."""


class Task(QObject):
    """At most one piece of work at a time; starting another cancels the one before."""

    progressed = Signal(object)
    """A Progress."""
    succeeded = Signal(object)
    """What the work returned."""
    failed = Signal(str)
    """A message for a person."""
    cancelled = Signal()
    """The work stopped because it was asked to."""
    ended = Signal()
    """The thread is done, whatever became of the work."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._current: Any = None
        self._steps: Steps[Any] | None = None
        # A window that is destroyed takes its tasks along without asking them.
        self._to_quit: list[ReferenceType[Any]] = []
        when_destroyed(self, partial(_quit, self._to_quit))

    @property
    def _worker(self) -> Any:
        return self._current

    @_worker.setter
    def _worker(self, worker: Any) -> None:
        self._current = worker
        self._to_quit[:] = [] if worker is None else [ref(worker)]

    @property
    def is_running(self) -> bool:
        """Whether work is under way."""
        return self._worker is not None

    def start(self, make: Callable[[], Steps[Any]]) -> None:
        """Run the steps that ``make`` returns; ``make`` is called in the thread too."""
        self.cancel(forget=True)
        worker: Any = create_worker(self._drive, make, _start_thread=False, _ignore_errors=True)
        worker.yielded.connect(self._report)
        worker.returned.connect(self.succeeded)
        worker.errored.connect(self._fail)
        worker.aborted.connect(self.cancelled)
        worker.finished.connect(self._finish)
        self._worker = worker
        worker.start()

    def cancel(self, *, forget: bool = False) -> None:
        """Ask the work to stop at its next step.

        With ``forget`` nothing more is heard of it: for windows that are going away.
        """
        worker = self._worker
        if worker is None:
            return
        worker.quit()
        if forget:
            signals = worker.signals
            for name in ("yielded", "returned", "errored", "aborted", "finished"):
                with suppress(TypeError, RuntimeError):  # nothing is connected any more
                    getattr(signals, name).disconnect()
            self._worker = None

    def _drive(self, make: Callable[[], Steps[Any]]) -> Generator[Progress, None, Any]:
        # In a thread of its own that ends with the work: the pool's threads are everybody's,
        # and a lowered priority cannot be raised again.
        with ThreadPoolExecutor(1, "napari-kpac work", give_way) as thread:
            steps = self._steps = thread.submit(make).result()
            try:
                while isinstance(step := thread.submit(_advance, steps).result(), Progress):
                    yield step
                return step.value
            except RuntimeError as error:
                raise WorkError(f"the work failed: {error}") from error
            finally:
                with suppress(RuntimeError):  # Python itself is ending
                    thread.submit(steps.close).result()

    def _report(self, progress: Progress) -> None:
        if self._worker is not None and not self._worker.abort_requested:
            self.progressed.emit(progress)

    def _fail(self, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        if not isinstance(error, KpacError):
            text = f"{type(error).__name__}: {text}"
        self.failed.emit(text)

    def _finish(self) -> None:
        if self._steps is not None:
            self._steps.close()
        self._worker, self._steps = None, None
        self.ended.emit()


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


@dataclass(frozen=True)
class _Returned:
    """What the work returned."""

    value: Any


def _advance(steps: Steps[Any]) -> Progress | _Returned:
    try:
        return next(steps)
    except StopIteration as end:
        return _Returned(end.value)


def _quit(workers: list[ReferenceType[Any]]) -> None:
    for reference in workers:
        if (worker := reference()) is not None:
            worker.quit()


def single(function: Callable[[], Any]) -> Callable[[], Steps[Any]]:
    """Make one step of a plain function, so that a :class:`Task` can run it."""

    def steps() -> Steps[Any]:
        yield from ()
        return function()

    return steps
