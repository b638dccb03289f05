"""Runs a batch in this process; reading, computing and writing overlap.

One thread reads the next image, the caller's computes, one thread writes the last one.
Whatever goes wrong with a file is that file's affair. Not for: clusters (cluster.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from napari_kpac.batch.actions import Action
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Outcome, Report, Tally
from napari_kpac.batch.writing import Failure, Settled, Writer, Written, explain, settled
from napari_kpac.core.progress import Steps
from napari_kpac.engine.job import LARGE_PLANE_BYTES
from napari_kpac.engine.memory import give_back, keeping_memory

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Task:
    """A unit of an item, ready to be worked off."""

    number: int
    item: Item
    opened: Any
    unit: int
    units: int
    loaded: Any
    weight: int


def run_steps(
    items: Sequence[Item], action: Action, options: BatchOptions | None = None
) -> Steps[Report]:
    """Do an action to all items; yields progress, returns what became of them.

    Closing the generator stops the work; nothing half-written stays behind.
    """
    options = options or BatchOptions()
    if options.dry_run:
        return (yield from _plan(items, action))
    if options.on_cluster:
        from napari_kpac.batch.cluster import cluster_steps

        return (yield from cluster_steps(items, action, options))
    several = len(items) > 1 or not all(map(action.has_one_unit, items))
    with using_threads(options.threads), keeping_memory():
        return (yield from _run(items, action, overlap=options.overlap and several))


def _plan(items: Sequence[Item], action: Action) -> Steps[Report]:
    tally = Tally(len(items))
    for number, item in enumerate(items):
        outcome = settled(item, action)
        missing = [path for path in item.files if not path.exists()]
        if missing:
            problem = f"{missing[0]}: there is no such file"
            outcome = Outcome(item, "failed", problem=problem)
        yield tally.end(number, outcome or Outcome(item, "planned"))
    return tally.report


def _run(items: Sequence[Item], action: Action, *, overlap: bool) -> Steps[Report]:
    """Work all units off, in order; with ``overlap`` two threads read ahead and write behind.

    To decode and encode a large image takes memory of its own, which no plan counts: nothing
    else is done until it is written, and only then the next is read.
    """
    tally, writer = Tally(len(items)), Writer(action)
    tasks = _read(items, action, writer)
    with ExitStack() as stack:
        # Undone in the opposite order: the threads come to rest first.
        stack.callback(writer.close)
        stack.callback(tasks.close)
        reading, writing = (_pool(stack, name, overlap) for name in ("read", "write"))
        ahead = reading.submit(next, tasks, None)
        behind: Future[list[tuple[int, Outcome]]] | None = None
        while (task := ahead.result()) is not None:
            large = isinstance(task, Task) and task.weight > LARGE_PLANE_BYTES
            if not large:
                ahead = reading.submit(next, tasks, None)
            done = yield from _done(task, action, writer, tally)
            del task
            for ended in behind.result() if behind is not None else ():
                yield tally.end(*ended)
            if large:
                give_back()
            behind = writing.submit(writer.accept, done)
            del done
            if large:
                wait([behind])
                ahead = reading.submit(next, tasks, None)
        for ended in behind.result() if behind is not None else ():
            yield tally.end(*ended)
    return tally.report


class _Here:
    """Stands for an executor: what is submitted is done at once, in this thread."""

    def submit(self, function: Callable[..., T], *arguments: Any) -> Future[T]:
        """Call a function; the future has what it returned or raised."""
        future: Future[T] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as error:
            future.set_exception(error)
        return future


def _pool(stack: ExitStack, name: str, overlap: bool) -> ThreadPoolExecutor | _Here:
    if not overlap:
        return _Here()
    return stack.enter_context(ThreadPoolExecutor(1, f"napari-kpac-{name}"))


def _read(
    items: Sequence[Item], action: Action, writer: Writer
) -> Generator[Task | Failure | Settled, None, None]:
    """Open and load everything, one unit at a time."""
    for number, item in enumerate(items):
        outcome = settled(item, action)
        if outcome is not None:
            yield Settled(number, outcome)
            continue
        opened = None
        try:
            opened = action.open(item)
            writer.keep(number, opened)
            for unit in range(opened.units):
                loaded = action.load(opened, unit)
                yield Task(number, item, opened, unit, opened.units, loaded, opened.weight)
        except GeneratorExit:
            raise
        except Exception as error:
            yield Failure(number, item, explain(item, error), opened)


def _done(task: Any, action: Action, writer: Writer, tally: Tally) -> Steps[Any]:
    """Work a unit off; what goes wrong comes back instead, and so does what needs no work."""
    if not isinstance(task, Task) or writer.has_failed(task.number):
        return task
    frame = task.opened.frame
    try:
        out = None
        if frame.streamed:
            out = writer.out_for(task.number, task.item, frame)
        steps = action.steps(task.opened, task.unit, task.loaded, out)
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                made = stop.value
                break
            share = (task.unit + progress.done / max(progress.total, 1)) / task.units
            name = task.item.first.name
            note = f"{name}: {progress.note}" if progress.note else ""
            yield tally.advance(task.number, share, name, note)
    except GeneratorExit:
        steps.close()
        raise
    except Exception as error:
        problem = explain(task.item, error)
        return Failure(task.number, task.item, problem, task.opened)
    return Written(task.number, task.item, frame, task.units, made, task.opened)


@contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Use that many threads of the processor for the network; None: as it is."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
