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

from napari_kpac.batch.actions import Action, Frame, Sink
from napari_kpac.batch.belt import Belt, BeltStopped
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Outcome, Report, Tally
from napari_kpac.engine.allocator import keeping_memory
from napari_kpac.errors import KpacError
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
        for task in _read(items, action):
            done = yield from _done(task, action, writer, tally)
            for number, outcome in writer.accept(done):
                yield tally.end(number, outcome)
    finally:
        writer.close()
    return tally.report


def _overlapping(items: Sequence[Item], action: Action) -> Steps[Report]:
    tally = Tally(len(items))
    ahead: Belt[Any] = Belt()
    behind: Belt[Any] = Belt()
    writer = Writer(action)
    ended: list[tuple[int, Outcome]] = []
    reader = _thread("read", _reading, items, action, ahead)
    writing = _thread("write", _writing, writer, behind, ended)
    try:
        while True:
            task = ahead.take()
            if task is None:
                break
            weight = task.weight if isinstance(task, Task) else 0
            ahead.gone(weight)
            done = yield from _done(task, action, writer, tally)
            del task
            behind.wait_for_room()
            behind.put((done, weight), weight)
            del done
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


def _reading(items: Sequence[Item], action: Action, ahead: Belt[Any]) -> None:
    try:
        for task in _read(items, action, ahead):
            ahead.put(task, task.weight if isinstance(task, Task) else 0)
        ahead.put(None)
    except BeltStopped:
        pass
    except BaseException as error:
        ahead.stop(error)


def _read(
    items: Sequence[Item], action: Action, ahead: Belt[Any] | None = None
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
    try:
        out = writer.out_for(task) if task.opened.frame.streamed else None
        steps = action.steps(task.opened, task.unit, task.loaded, out)
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                made = stop.value
                break
            share = (task.unit + progress.done / max(progress.total, 1)) / task.units
            yield tally.advance(task.number, share, task.item.first.name)
    except GeneratorExit:
        steps.close()
        raise
    except Exception as error:
        problem = explain(task.item, error)
        return Failure(task.number, task.item, problem, task.opened)
    frame = task.opened.frame
    return Written(task.number, task.item, frame, task.units, made, task.opened)


@dataclass(frozen=True, eq=False)
class Written:
    """What a unit gave, on its way to the file."""

    number: int
    item: Item
    frame: Frame
    units: int
    made: Any
    opened: Any = None


@dataclass(frozen=True)
class Failure:
    """Something went wrong with an item."""

    number: int
    item: Item
    problem: str
    opened: Any = None


@dataclass(frozen=True)
class Settled:
    """Nothing is to be done for an item."""

    number: int
    outcome: Outcome


class Writer:
    """Puts units together to files; used by one thread at a time but for :meth:`out_for`."""

    def __init__(self, action: Action) -> None:
        self._action = action
        self._sinks: dict[int, Sink] = {}
        self._counts: dict[int, int] = {}
        self._opened: dict[int, Any] = {}
        self._failed: set[int] = set()
        self._lock = threading.Lock()

    def has_failed(self, number: int) -> bool:
        """Tell whether an item is past help."""
        return number in self._failed

    def out_for(self, task: Task) -> Any:
        """Return where a unit may put its pixels directly."""
        return self._sink(task.number, task.item, task.opened.frame).out

    def count(self, number: int) -> int:
        """Return how many units of an item were written."""
        return self._counts.get(number, 0)

    def accept(self, task: Any) -> list[tuple[int, Outcome]]:
        """Write a unit; returns the item with its outcome where that was the last of it."""
        if isinstance(task, Settled):
            return [(task.number, task.outcome)]
        if task.number in self._failed:
            return []
        if task.opened is not None:
            self._opened[task.number] = task.opened
        if isinstance(task, Failure):
            return self._give_up(task)
        try:
            sink = self._sink(task.number, task.item, task.frame)
            sink.add(task.made)
            self._counts[task.number] = self._counts.get(task.number, 0) + 1
            if self._counts[task.number] < task.units:
                return []
            outcome = sink.finish()
        except Exception as error:
            return self._give_up(Failure(task.number, task.item, explain(task.item, error)))
        del self._sinks[task.number], self._counts[task.number]
        self._close(task.number)
        return [(task.number, outcome)]

    def close(self) -> None:
        """Leave nothing half-written behind."""
        for sink in self._sinks.values():
            sink.discard()
        self._sinks.clear()
        for number in list(self._opened):
            self._close(number)

    def _sink(self, number: int, item: Item, frame: Frame) -> Sink:
        with self._lock:
            if number not in self._sinks:
                self._sinks[number] = self._action.sink(item, frame)
            return self._sinks[number]

    def _give_up(self, failure: Failure) -> list[tuple[int, Outcome]]:
        self._failed.add(failure.number)
        with self._lock:
            sink = self._sinks.pop(failure.number, None)
        if sink is not None:
            sink.discard()
        self._close(failure.number)
        outcome = Outcome(failure.item, "failed", problem=failure.problem)
        return [(failure.number, outcome)]

    def _close(self, number: int) -> None:
        opened = self._opened.pop(number, None)
        if opened is not None:
            opened.close()


def settled(item: Item, action: Action) -> Outcome | None:
    """Return what becomes of an item without any work, None where there is work to do."""
    try:
        if action.is_done(item):
            return Outcome(item, "skipped", (item.target,))
    except Exception as error:
        return Outcome(item, "failed", problem=explain(item, error))
    return None


def explain(item: Item, error: BaseException) -> str:
    """Say what went wrong, and with what."""
    text = str(error) if isinstance(error, KpacError) else f"{type(error).__name__}: {error}"
    return text if str(item.first) in text else f"{item.first}: {text}"


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
