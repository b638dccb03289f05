"""Runs a batch in this process; reading, computing and writing overlap.

One thread reads the next plane, the caller's computes, one thread writes the one before.
Not for: what is done to a file (files.py), clusters (cluster.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack

from napari_kpac.batch.files import FileAction, FileTask, LoadedPlane, close_tasks, process_file
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import BatchProgress, Outcome, Report
from napari_kpac.core.errors import FileError, require
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.device import using_threads


def run_steps(
    items: Sequence[Item], action: FileAction, options: BatchOptions | None = None
) -> Steps[Report]:
    """Process all items; yields progress, returns a report with the outcome of each.

    Closing the generator stops the work; nothing half-written stays behind.
    """
    options = options or BatchOptions()
    progress = BatchProgress(len(items))
    if options.dry_run:
        yield from _dry_run(items, action, progress)
    elif options.on_cluster:
        require("distributed", "distributed", "work on a cluster")
        from napari_kpac.batch.cluster import cluster_steps

        yield from cluster_steps(items, action, options, progress)
    else:
        several = len(items) > 1 or not all(map(action.is_one_plane, items))
        with using_threads(options.threads):
            if options.overlap and several:
                yield from _overlapped(items, action, progress)
            else:
                for item in items:
                    outcome = yield from process_file(item, action, progress)
                    yield progress.end(outcome)
    return progress.report


def _dry_run(
    items: Sequence[Item], action: FileAction, progress: BatchProgress
) -> Iterator[Progress]:
    for item in items:
        task = FileTask(item, action)
        missing = [path for path in item.files if not path.exists()]
        if missing:
            task.fail(FileError(f"{missing[0]}: there is no such file"))
        else:
            task.check()
        yield progress.end(task.outcome or Outcome(item, "planned", (action.announced(item),)))


def _overlapped(
    items: Sequence[Item], action: FileAction, progress: BatchProgress
) -> Iterator[Progress]:
    """Process files as :func:`process_file` does, with one thread that reads and one that writes.

    To decode and encode a large image takes memory of its own, which no plan counts: nothing
    else is done until it is written, and only then the next is read.
    """
    # At most three are open: one is read, one computed, one written.
    tasks: deque[FileTask] = deque(maxlen=3)

    def load() -> Iterator[LoadedPlane]:
        for item in items:
            tasks.append(FileTask(item, action))
            yield from tasks[-1].load()

    planes = load()
    with ExitStack() as stack:
        # Undone in the opposite order: the threads come to rest first.
        stack.callback(close_tasks, tasks)
        reader = stack.enter_context(ThreadPoolExecutor(1, "napari-kpac-read"))
        writer = stack.enter_context(ThreadPoolExecutor(1, "napari-kpac-write"))
        ahead = reader.submit(next, planes, None)
        behind: Future[Outcome | None] = writer.submit(lambda: None)
        while (plane := ahead.result()) is not None:
            task = plane.task
            if not task.is_large:
                ahead = reader.submit(next, planes, None)
            result = yield from task.compute(plane, progress)
            del plane
            if (outcome := behind.result()) is not None:
                yield progress.end(outcome)
            behind = writer.submit(task.write, result)
            del result
            if task.is_large:
                wait([behind])
                ahead = reader.submit(next, planes, None)
        if (outcome := behind.result()) is not None:
            yield progress.end(outcome)
