"""Long work in a thread, for windows.

The rules of the thread: it touches no widget and no layer; it speaks through signals; it
stops at the next step after :meth:`Task.cancel`; whatever goes wrong comes back as a message.
(Qt's generator workers swallow every RuntimeError, and torch's errors are RuntimeErrors: so
those are caught inside and raised again as something else.)

Not for: the work itself (engine).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any

from qtpy.QtCore import QObject, QThreadPool, Signal  # type: ignore[attr-defined]
from superqt.utils import GeneratorWorker, create_worker

from napari_kpac.errors import KpacError
from napari_kpac.progress import Progress, Steps


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
        self._held: dict[str, Any] = {}
        # A window that is destroyed takes its tasks along without asking them.
        self.destroyed.connect(partial(_quit, self._held))

    @property
    def _worker(self) -> Any:
        return self._held.get("worker")

    @_worker.setter
    def _worker(self, worker: Any) -> None:
        self._held["worker"] = worker

    @property
    def is_running(self) -> bool:
        """Whether work is under way."""
        return self._worker is not None

    def start(self, make: Callable[[], Steps[Any]]) -> None:
        """Run the steps that ``make`` returns; ``make`` is called in the thread too."""
        self.cancel(forget=True)
        worker: Any = create_worker(
            self._drive, make, _start_thread=False, _ignore_errors=True, _worker_class=_Worker
        )
        worker.yielded.connect(self._report)
        worker.returned.connect(self.succeeded)
        worker.errored.connect(self._fail)
        worker.paused.connect(self.paused)
        worker.resumed.connect(self.resumed)
        worker.aborted.connect(self.cancelled)
        worker.finished.connect(self._finish)
        self._worker = worker
        worker.start()

    @property
    def is_paused(self) -> bool:
        """Whether the work waits between two steps."""
        return self._worker is not None and bool(self._worker.is_paused)

    def toggle_pause(self) -> None:
        """Ask the work to wait after its next step, or to go on."""
        if self._worker is not None:
            self._worker.toggle_pause()

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
            for name in (
                "yielded", "returned", "errored", "paused", "resumed", "aborted", "finished",
            ):  # fmt: skip
                with suppress(TypeError, RuntimeError):  # nothing is connected any more
                    getattr(signals, name).disconnect()
            self._worker = None

    def _drive(self, make: Callable[[], Steps[Any]]) -> Generator[Progress, None, Any]:
        steps = make()
        try:
            return (yield from steps)
        except RuntimeError as error:
            raise WorkError(f"the work failed: {error}") from error
        finally:
            steps.close()

    def _report(self, progress: Progress) -> None:
        if self._worker is not None and not self._worker.abort_requested:
            self.progressed.emit(progress)

    def _fail(self, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        if not isinstance(error, KpacError):
            text = f"{type(error).__name__}: {text}"
        self.failed.emit(text)

    def _finish(self) -> None:
        self._worker = None
        self.ended.emit()


class _Worker(GeneratorWorker[Any, Any, Any]):
    """A worker that ends its generator itself, so that what is kept is kept before it is done."""

    def work(self) -> Any:
        """Run, or stop, or fail; and close the generator in the same thread."""
        # Work of hours, or a pause, must not keep a place in the pool from others.
        pool: Any = QThreadPool.globalInstance()
        pool.releaseThread()
        try:
            return super().work()
        finally:
            try:
                self._gen.close()
            finally:
                pool.reserveThread()


def _quit(held: dict[str, Any], _: object = None) -> None:
    if held.get("worker") is not None:
        held["worker"].quit()


def single(function: Callable[[], Any]) -> Callable[[], Steps[Any]]:
    """Make one step of a plain function, so that a :class:`Task` can run it."""

    def steps() -> Steps[Any]:
        yield from ()
        return function()

    return steps
