"""Runs a batch in this process; reading, computing and writing overlap.

One thread reads ahead, the caller's computes, one thread writes; belts between them hold no
more than fits. Whatever goes wrong with a file is that file's affair. Not for: clusters
(cluster.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from napari_kpac.batch.actions import Action
from napari_kpac.batch.belt import Belt, BeltStopped
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Outcome, Report, Tally
from napari_kpac.batch.writing import Failure, Settled, Writer, Written, explain, settled
from napari_kpac.engine.allocator import give_back, keeping_memory
from napari_kpac.engine.work import LARGE
from napari_kpac.progress import Steps


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
    with using_threads(options.threads), keeping_memory():
        if options.overlap:
            return (yield from _overlapping(items, action))
        return (yield from _one_by_one(items, action))


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


def _one_by_one(items: Sequence[Item], action: Action) -> Steps[Report]:
    tally = Tally(len(items))
    writer = Writer(action)
    try:
        for task in _read(items, action, writer):
            done = yield from _done(task, action, writer, tally)
            if isinstance(task, Task) and task.weight > LARGE:
                give_back()
            for number, outcome in writer.accept(done):
                yield tally.end(number, outcome)
    finally:
        writer.close()
    return tally.report


def _overlapping(items: Sequence[Item], action: Action) -> Steps[Report]:
    tally = Tally(len(items))
    ahead: Belt[Any] = Belt(LARGE)
    behind: Belt[Any] = Belt(LARGE)
    writer = Writer(action)
    ended: list[tuple[int, Outcome]] = []
    reader = _thread("read", _reading, items, action, writer, ahead)
    writing = _thread("write", _writing, writer, behind, ended)
    try:
        while True:
            task = ahead.take()
            if task is None:
                break
            weight = task.weight if isinstance(task, Task) else 0
            large = weight > LARGE
            if not large:
                ahead.gone(weight)
            done = yield from _done(task, action, writer, tally)
            del task
            behind.wait_for_room()
            if large:
                give_back()
            behind.put((done, weight), weight)
            del done
            if large:
                # To decode and encode takes memory of its own, which no plan counts: nothing
                # else is done until it is written, and only then the next is read.
                behind.wait_for_room()
                ahead.gone(weight)
            while ended:
                yield tally.end(*ended.pop(0))
        behind.put((None, 0))
        writing.join()
        while ended:
            yield tally.end(*ended.pop(0))
    finally:
        ahead.stop()
        behind.stop()
        reader.join()
        writing.join()
        writer.close()
    return tally.report


def _reading(items: Sequence[Item], action: Action, writer: Writer, ahead: Belt[Any]) -> None:
    try:
        for task in _read(items, action, writer, ahead):
            ahead.put(task, task.weight if isinstance(task, Task) else 0)
        ahead.put(None)
    except BeltStopped:
        pass
    except BaseException as error:
        ahead.stop(error)


def _read(
    items: Sequence[Item], action: Action, writer: Writer, ahead: Belt[Any] | None = None
) -> Iterator[Task | Failure | Settled]:
    """Open and load everything, as far as there is room for it."""
    for number, item in enumerate(items):
        if ahead is not None:
            ahead.wait_for_room()
        outcome = settled(item, action)
        if outcome is not None:
            yield Settled(number, outcome)
            continue
        opened = None
        try:
            opened = action.open(item)
            writer.keep(number, opened)
            for unit in range(opened.units):
                if ahead is not None and unit:
                    ahead.wait_for_room()
                loaded = action.load(opened, unit)
                yield Task(number, item, opened, unit, opened.units, loaded, opened.weight)
        except (BeltStopped, GeneratorExit):
            raise
        except Exception as error:
            yield Failure(number, item, explain(item, error), opened)


def _writing(writer: Writer, behind: Belt[Any], ended: list[tuple[int, Outcome]]) -> None:
    try:
        while True:
            task, weight = behind.take()
            if task is None:
                return
            ended.extend(writer.accept(task))
            del task
            behind.gone(weight)
    except BeltStopped:
        pass
    except BaseException as error:
        behind.stop(error)


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


def _thread(name: str, function: Any, *arguments: Any) -> threading.Thread:
    thread = threading.Thread(
        target=function, args=arguments, name=f"napari-kpac-{name}", daemon=True
    )
    thread.start()
    return thread
