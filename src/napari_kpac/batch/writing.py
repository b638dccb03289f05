"""Units put together to files, and what became of them.

Not for: in which thread or on which machine they are made (running.py, cluster.py).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from napari_kpac.batch.actions import Action, Frame, Sink
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.report import Outcome
from napari_kpac.core.errors import FileError, KpacError, for_people
from napari_kpac.engine.memory import ADVICE, is_memory_error
from napari_kpac.images import PLAIN, RAW, TIFF


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

    def keep(self, number: int, opened: Any) -> None:
        """Take charge of what was opened for an item; it is closed with the item, or at the end."""
        self._opened[number] = opened

    def has_failed(self, number: int) -> bool:
        """Tell whether an item is past help."""
        return number in self._failed

    def out_for(self, number: int, item: Item, frame: Frame) -> Any:
        """Return where a unit may put its pixels directly."""
        return self._sink(number, item, frame).out

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
            check_there(task.item)
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


def check_there(item: Item) -> None:
    """Raise where a folder of pixels is gone: what was read of it last was taken for empty."""
    for path in item.files:
        if path.suffix.lower() not in PLAIN + TIFF + RAW and not path.exists():
            raise FileError(f"{path}: it was removed while it was being read")


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
    short = is_memory_error(error) and not isinstance(error, KpacError)
    text = f"out of memory; {ADVICE}" if short else for_people(error)
    return text if str(item.first) in text else f"{item.first}: {text}"
