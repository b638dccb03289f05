"""Runs a batch on dask.distributed (extra ``distributed``): one task per file or plane.

Workers read and write the files themselves, so every machine must see them under the same names.
Only the planes of a stack that becomes one file come back, and this process writes them. It keeps
the record, and can be killed and started again; a worker that dies loses nothing: its tasks go to
another. Not for: starting clusters of several machines (dask has tools for that), or what a
worker does (worker.py).
"""

from __future__ import annotations

import os
import time
import uuid
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import distributed

from napari_kpac.batch.client import GO_ON, TaskLimit, open_client, patience_of
from napari_kpac.batch.files import FileAction, FileInfo, FileTask, error_text
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.record import TaskRecord
from napari_kpac.batch.report import BatchProgress, Outcome
from napari_kpac.batch.stacks import CollectedStack, OpenStack, SharedStack, Task, say_who
from napari_kpac.batch.worker import BatchWorker, Call, PlaneFailure, TaskResult, run
from napari_kpac.core.errors import ClusterError, ConfigError
from napari_kpac.core.progress import Progress
from napari_kpac.images import RemotePath

REGISTRATIONS = 3
"""Attempts to reach all workers: one may be going just then."""
WAKE_SECONDS = 0.1
"""Between looks at the clock while nothing comes."""


def cluster_steps(
    items: Sequence[Item], action: FileAction, options: BatchOptions, progress: BatchProgress
) -> Iterator[Progress]:
    """Process all items on a cluster; the same as in one process otherwise."""
    _check_visible(items)
    path = None if options.record is None else Path(options.record)
    with TaskRecord(path) as record, open_client(options) as client:
        threads = options.threads
        if threads is None and options.workers:
            threads = max(1, (os.cpu_count() or 1) // options.workers)
        shared = action.for_worker(options.workers) if options.workers else action
        worker = BatchWorker(shared, threads)
        _register(client, worker)
        try:
            whole = ClusterRun(items, action, worker.name, record, progress)
            yield from whole.steps(client, options.retries, patience_of(options))
        finally:
            # Not where the scheduler is gone: dask would wait for another one first.
            if client.status == "running":
                with suppress(Exception):
                    client.unregister_worker_plugin(worker.name)


def _register(client: Any, worker: BatchWorker) -> None:
    """Give every worker its part of the batch, those that come later too."""
    for left in reversed(range(REGISTRATIONS)):
        try:
            client.register_plugin(worker)
            return
        except Exception as error:  # what a worker raised, or that it is gone
            if not left:
                raise ClusterError(
                    f"a worker cannot take part ({error}); do all have the same napari-kpac?"
                ) from error
            time.sleep(1)


def _check_visible(items: Sequence[Item]) -> None:
    for item in items:
        for path in (*item.files, item.target):
            if isinstance(path, RemotePath) and path.protocol == "memory":
                raise ConfigError(f"{path}: memory:// is seen by this process alone, not by others")


class ClusterRun:
    """A batch while it is given out, task by task, and its results are taken.

    At no time are there more than a few tasks for every thread of the cluster.
    """

    def __init__(
        self,
        items: Iterable[Item],
        action: FileAction,
        batch: str,
        record: TaskRecord,
        progress: BatchProgress,
    ) -> None:
        self.action, self.batch, self.record, self.progress = action, batch, record, progress
        self._planes: deque[Iterator[Task]] = deque()
        self._stacks: set[OpenStack] = set()
        self._files = self._new_files(items)

    def steps(self, client: Any, retries: int, patience: float) -> Iterator[Progress]:
        """Give out tasks and take results until nothing is left.

        Raises :class:`ClusterError` where there is no worker for longer than ``patience`` seconds.
        """
        running = distributed.as_completed(loop=client.loop, with_results=True, raise_errors=False)
        tasks: dict[str, Task] = {}
        limit = TaskLimit(client, patience)
        try:
            while True:
                # Together, since a message to the scheduler costs more than a task.
                new: dict[str, Task] = {}
                while len(tasks) + len(new) < limit.now() and (found := self._next()) is not None:
                    if isinstance(found, Outcome):
                        yield self._ended(found)
                    else:
                        new[f"napari-kpac-{uuid.uuid4().hex}"] = found
                if new:
                    calls = [task.call for task in new.values()]
                    futures = client.map(run, calls, key=list(new), retries=retries, pure=False)
                    tasks |= new
                    running.update(futures)
                    del futures
                if not tasks:
                    return
                for future, result in _next_results(running, limit):
                    task = tasks.pop(future.key)
                    future.release()
                    yield from self._take(task, result)
                    del future, result  # which may be pixels
        finally:
            running.clear()
            for stack in self._stacks:
                stack.close()

    def _next(self) -> Task | Outcome | None:
        """Return what is to be done next: planes of stacks that are open, then further files."""
        while self._planes:
            task = next(self._planes[0], None)
            if task is not None:
                return task
            self._planes.popleft()
        return next(self._files, None)

    def _new_files(self, items: Iterable[Item]) -> Iterator[Task | Outcome]:
        for item in items:
            task = FileTask(item, self.action)
            # Not even opened here: the worker will see what is in it.
            if task.check():
                yield Task(Call(self.batch, item))
            elif task.outcome is not None:
                yield task.outcome

    def _take(self, task: Task, result: Any) -> Iterator[Progress]:
        """Take what came of a task: a file, what is in a stack, a plane, or an error."""
        item = task.call.item
        problem = _problem(item, result)
        if task.stack is not None and task.call.plane is not None:
            yield from self._take_plane(task.stack, task.call.plane, result, problem)
        elif problem is not None:
            yield self._ended(Outcome(item, "failed", problem=problem))
        elif isinstance(result.value, FileInfo):
            self._open_stack(item, result.value)
        elif result.value.state == "made":
            yield self._ended(say_who(result.value, [result.worker], result.seconds))
        else:
            yield self._ended(result.value)

    def _take_plane(
        self, stack: OpenStack, plane: int, result: Any, problem: str | None
    ) -> Iterator[Progress]:
        about: dict[str, Any] = {
            "state": "made" if problem is None else "failed",
            "problem": problem,
        }
        if isinstance(result, TaskResult):
            about |= {"worker": result.worker, "seconds": round(result.seconds, 3)}
        self.record.add(input=str(stack.item.first), plane=plane, **about)
        if problem is not None:
            stack.fail(problem)
        elif not stack.problem:
            try:
                stack.take(plane, result)
            except Exception as error:
                stack.fail(error_text(stack.item, error))
        ended = stack.end()
        if ended is not None:
            self._stacks.discard(stack)
            yield self._ended(ended)
        elif not stack.ended:
            yield self.progress.advance(stack.item, stack.share)

    def _open_stack(self, item: Item, info: FileInfo) -> None:
        """Add the planes of a file to what is to be done."""
        shared = self.action.shared_output(item, info)
        stack: OpenStack = (
            CollectedStack(item, info, self.action)
            if shared is None
            else SharedStack(item, info, shared)
        )
        self._stacks.add(stack)
        self._planes.append(self._tasks_of(stack))

    def _tasks_of(self, stack: OpenStack) -> Iterator[Any]:
        found = False
        for task in stack.tasks(self.batch):
            found = True
            yield task
        # All were done before, or it could not even be begun: no result will end it.
        if not found and (ended := stack.end()) is not None:
            self._stacks.discard(stack)
            yield ended

    def _ended(self, outcome: Outcome) -> Progress:
        self.record.add(**outcome.summary())
        return self.progress.end(outcome)


def _problem(item: Item, result: Any) -> str | None:
    """Return why a task failed; None where it did not.

    The future's status does not tell: it is no longer "finished" where the worker died after its
    result had arrived.
    """
    if isinstance(result, TaskResult):
        return result.value.problem if isinstance(result.value, PlaneFailure) else None
    if isinstance(result, CancelledError):  # nobody but dask cancels tasks here
        raise ClusterError(f"the connection to the scheduler broke; {GO_ON}") from result
    # Errors of the cluster come as (type, error, traceback).
    return error_text(item, result[1] if isinstance(result, tuple) else result)


def _next_results(running: Any, limit: TaskLimit) -> list[tuple[Any, Any]]:
    """Wait for results, and for no longer than there is somebody who could bring them."""
    while not running.has_ready():
        limit.now()
        with running.thread_condition:
            running.thread_condition.wait(WAKE_SECONDS)
    found: list[tuple[Any, Any]] = running.next_batch()
    return found
