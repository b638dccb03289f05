"""What a worker of a cluster does: open files, compute planes, and write them where it may.

Loaded by workers and by the process that gives out their tasks (cluster.py). Not for: deciding
what is done next, or keeping the record of it.
"""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from distributed import WorkerPlugin, get_worker

from napari_kpac.batch.files import (
    FileAction,
    FileInfo,
    FileTask,
    OpenFile,
    error_text,
    process_planes,
)
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.report import BatchProgress, Outcome
from napari_kpac.core.errors import CancelledError, KpacError, RemoteError
from napari_kpac.core.progress import Progress, Steps, finish, relay
from napari_kpac.engine.device import using_threads

T = TypeVar("T")
STOP_SECONDS = 60.0
"""So long a batch that is given up waits for its workers; a step takes less."""


@dataclass(frozen=True, eq=False)
class TaskResult:
    """What a task came to, small unless it has to bring pixels back."""

    value: Any
    worker: str
    seconds: float


@dataclass(frozen=True, eq=False)
class Call:
    """What a worker is asked to do: to process a file, or to compute one of its planes.

    Of a file with more than one plane only its :class:`FileInfo` is found.
    """

    batch: str
    item: Item
    plane: int | None = None
    pixel_range: Any = None
    region: Any = None
    """Where the plane is written; None: it is brought back."""


def run(call: Call) -> TaskResult:
    """Do a task of a batch; says who did it, and how long that took."""
    worker = cast("BatchWorker | None", get_worker().plugins.get(call.batch))
    if worker is None:  # a task that was given up before it began
        return TaskResult(PlaneFailure("the batch has ended"), "", 0.0)
    start = time.perf_counter()
    with worker.working():
        value: Any
        if call.plane is None:
            value = worker.process(call.item)
        else:
            value = worker.compute(call.item, call.plane, call.pixel_range, call.region)
    return TaskResult(value, worker.worker, time.perf_counter() - start)


def helps_to_try_again(error: BaseException) -> bool:
    """Return True unless a file or an option is at fault."""
    return isinstance(error, RemoteError) or not isinstance(error, KpacError)


class BatchWorker(WorkerPlugin):
    """The part of a batch that every worker has, those that come later too.

    Tasks name it, so that what is large in an action (maps of a modulation) travels once.
    """

    def __init__(self, action: FileAction, threads: int | None) -> None:
        self.name = f"napari-kpac-{uuid.uuid4().hex}"
        self.action, self.threads = action, threads

    def setup(self, worker: Any) -> None:
        """Begin on a worker."""
        named = str(worker.name) != worker.address
        self.worker = f"{worker.name} {worker.address}" if named else str(worker.address)
        self._lock = threading.Lock()
        self._last: tuple[Item, OpenFile] | None = None
        """What was opened last: the planes of a stack come one after the other."""
        self._running, self._stopped = 0, False

    async def teardown(self, worker: Any) -> None:  # noqa: ARG002
        """End: give up what is at work, at its next step, and close the file."""
        self._stopped = True
        until = time.monotonic() + STOP_SECONDS
        while self._running and time.monotonic() < until:
            await asyncio.sleep(0.01)
        if self._last is not None:
            self._last[1].close()
        self._last = None

    @contextmanager
    def working(self) -> Iterator[None]:
        """Take note that something is at work."""
        with self._lock:
            self._running += 1
        try:
            with using_threads(self.threads):
                yield
        finally:
            with self._lock:
                self._running -= 1

    def _finish(self, steps: Steps[T]) -> T:
        """Run long work to its end, unless the batch ends before."""

        def go_on(progress: Progress) -> Progress:
            if self._stopped:
                raise CancelledError("the batch has ended")
            return progress

        return finish(relay(steps, go_on))

    def process(self, item: Item) -> Outcome | FileInfo:
        """Process a file whole if it has one plane, and write its result."""
        task = FileTask(item, self.action)
        try:
            with self._lock:
                file = self._open(item, None)
                if file.info.planes > 1:
                    return file.info
                self._last = None
        except KpacError as error:
            task.fail(error)
        else:
            planes = task.load_from(file)
            try:
                self._finish(process_planes(task, planes, BatchProgress(1)))
            except CancelledError as error:
                task.fail(error)
        if task.error is not None and helps_to_try_again(task.error):
            raise task.error
        assert task.outcome is not None  # noqa: S101 - the plane, or an error, ended the file
        return task.outcome

    def compute(self, item: Item, plane: int, pixel_range: Any, region: Any) -> Any:
        """Compute one plane; what is wrong with the file is returned, as text."""
        try:
            with self._lock:
                file = self._open(item, pixel_range)
                loaded = self.action.load(file, plane)
            if region is not None:
                return self._finish(self.action.write_plane(file, plane, loaded, region))
            return self._finish(self.action.compute(file, plane, loaded))
        except KpacError as error:
            if helps_to_try_again(error):
                raise
            return PlaneFailure(error_text(item, error))

    def _open(self, item: Item, pixel_range: Any) -> OpenFile:
        if self._last is None or self._last[0] != item:
            # Not closed here: another thread may still be at work on the one before.
            self._last = None
            self._last = item, self.action.open(item, pixel_range)
        return self._last[1]


@dataclass(frozen=True)
class PlaneFailure:
    """Why a plane cannot be computed, whoever tries."""

    problem: str
