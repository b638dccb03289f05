"""Runs a batch on dask.distributed (extra ``distributed``): one task per plane.

Workers read the files themselves, so every machine must see them under the same names; what
they compute comes back, and this process writes it. A worker that dies loses nothing: its tasks
go to another. Not for: starting clusters of several machines (dask has tools for that).
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from napari_kpac.batch.files import FileAction, FileInfo, FileTask, OpenFile, close_tasks
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import BatchProgress
from napari_kpac.core.errors import ClusterError, KpacError, require
from napari_kpac.core.progress import Progress, finish
from napari_kpac.engine.device import using_threads
from napari_kpac.engine.memory import allocator_environment

TASKS_PER_THREAD = 2
"""Tasks that are given out at a time: one at work, one waiting."""
CONNECTION_TIMEOUT = "20s"


def cluster_steps(
    items: Sequence[Item], action: FileAction, options: BatchOptions, progress: BatchProgress
) -> Iterator[Progress]:
    """Process all items on a cluster; the same as in one process otherwise."""
    distributed = require("distributed", "distributed", "work on a cluster")
    with _client(distributed, options) as client:
        threads = options.threads
        if threads is None and options.workers:
            threads = max(1, (os.cpu_count() or 1) // options.workers)
        shared = action.for_worker(options.workers) if options.workers else action
        worker = PlaneWorker(uuid.uuid4().hex, shared, threads)
        submit = partial(client.submit, worker.compute, retries=options.retries, pure=False)
        running = distributed.as_completed(loop=client.loop, with_results=True, raise_errors=False)
        tasks: dict[str, FileTask] = {}
        unfinished: set[FileTask] = set()
        planes = _planes(items, action)
        try:
            while True:
                while len(tasks) < _most_tasks(client) and (plane := next(planes, None)):
                    task, index, pixel_range = plane
                    unfinished.add(task)
                    if task.outcome is None:
                        future = submit(task.item, index, pixel_range)
                        tasks[future.key] = task
                        running.add(future)
                    elif (outcome := task.write(None)) is not None:
                        unfinished.discard(task)
                        yield progress.end(outcome)
                if not tasks:
                    return
                future, result = next(running)
                task = tasks.pop(future.key)
                info, computed = _received(task, result)
                future.release()
                del future, result
                if (outcome := task.write(computed, info)) is not None:
                    unfinished.discard(task)
                    yield progress.end(outcome)
                elif task.outcome is None:
                    yield progress.advance(task.item, task.written / task.planes)
        finally:
            running.clear()
            close_tasks(unfinished)


def _planes(items: Sequence[Item], action: FileAction) -> Iterator[tuple[FileTask, int, Any]]:
    """List the planes of all files: (task, index, range of pixel values), at least one each."""
    for item in items:
        task = FileTask(item, action)
        info = None
        # What is surely one plane is not even opened here: the worker will see what is in it.
        if task.check() and not action.is_one_plane(item):
            try:
                file = action.open(item)
                file.close()
                info = file.info
                task.begin(info)
            except Exception as error:
                task.fail(error)
        for index in range(task.planes):
            yield task, index, info and info.pixel_range


def _received(task: FileTask, result: Any) -> tuple[FileInfo | None, Any]:
    """Return what a worker computed; an error ends the file.

    The future's status does not tell the two apart: it is no longer "finished" where the worker
    died after its result had arrived.
    """
    if isinstance(result, tuple) and isinstance(result[0], FileInfo):
        return result[0], result[1]
    # Errors of the cluster come as (type, error, traceback).
    task.fail(result[1] if isinstance(result, tuple) else result)
    return None, None


def _most_tasks(client: Any) -> int:
    threads = int(sum(client.nthreads().values()))
    return TASKS_PER_THREAD * max(1, threads)


_lock = threading.Lock()
_last: dict[str, Any] = {}
"""What this worker opened last: the planes of a stack come one after the other."""


@dataclass(frozen=True, eq=False)
class PlaneWorker:
    """What a worker needs to compute planes of a batch."""

    batch: str
    """Identifies the batch: files of another one are not taken for open."""
    action: FileAction
    threads: int | None

    def compute(self, item: Item, plane: int, pixel_range: Any) -> tuple[FileInfo, Any] | KpacError:
        """Open a file and compute one plane; what is wrong with the file is returned."""
        try:
            with _lock:
                file = self._open(item, pixel_range)
                loaded = self.action.load(file, plane)
            with using_threads(self.threads):
                return file.info, finish(self.action.compute(file, plane, loaded))
        except KpacError as error:
            # To try again would not help.
            return error

    def _open(self, item: Item, pixel_range: Any) -> OpenFile:
        key = (self.batch, item)
        if _last.get("key") != key:
            # Not closed here: another thread may still be at work on the one before.
            _last.clear()
            _last.update(key=key, file=self.action.open(item, pixel_range))
        file: OpenFile = _last["file"]
        return file


@contextmanager
def _worker_environment() -> Iterator[None]:
    """Start workers that keep freed memory, and leave the environment of this process alone."""
    import dask

    key = "distributed.nanny.pre-spawn-environ"
    wanted = {**dask.config.get(key), **allocator_environment()}
    before = {name: os.environ.get(name) for name in (*wanted, "PYTHONHASHSEED")}
    try:
        with dask.config.set({key: wanted}):
            yield
    finally:
        # To hand its variables to the workers, dask sets them here as well.
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextmanager
def _client(distributed: Any, options: BatchOptions) -> Iterator[Any]:
    """Connect to a scheduler, or start processes here for the length of the work."""
    address, timeout = options.scheduler, CONNECTION_TIMEOUT
    if address:
        try:
            client = distributed.Client(address, timeout=timeout, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterError(f"{address}: no scheduler answers ({error})") from error
        with client:
            try:
                if not client.nthreads():
                    client.wait_for_workers(1, timeout=timeout)
            except TimeoutError as error:
                raise ClusterError(f"{address}: this cluster has no workers") from error
            yield client
        return
    with (
        _worker_environment(),
        distributed.LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            processes=True,
            memory_limit=0,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client
