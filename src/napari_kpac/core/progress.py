"""Progress of long work, and the signal that the list of models changed.

Not for: showing either (cli, widgets).
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from psygnal import Signal

T = TypeVar("T")
Event = TypeVar("Event")


@dataclass(frozen=True)
class Progress:
    """One step of long work is done."""

    done: int
    """Number of steps done so far."""
    total: int
    """Number of steps in all; may grow when work has to be repeated in smaller pieces."""
    stage: str
    """What is being done, in a word or two."""
    note: str = ""
    """A message, for example that memory ran short."""


Steps = Generator[Progress, None, T]
"""A generator that yields progress and returns its result; closing it cancels the work."""


def finish(steps: Generator[Any, None, T]) -> T:
    """Run long work to its end and return its result."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            result: T = stop.value
            return result


def relay(steps: Generator[Event, None, T], change: Callable[[Event], Progress | None]) -> Steps[T]:
    """Take the steps of other work and yield a progress for each, or none where that is None.

    Returns the result of that work.
    """
    with closing(steps):
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            changed = change(progress)
            if changed is not None:
                yield changed


class StepCounter:
    """Counts the steps of work whose number is known, and tells how far it is.

    Parameters
    ----------
    total
        Number of steps in all.
    done
        Number of steps that were done before.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self._total, self._done = total, done

    def report(self, stage: str, counted: bool = True) -> Progress:
        """Return the progress after a step, or within one (``counted`` is False then)."""
        self._done += counted
        return Progress(self._done, self._total, stage)


def of_all(number: int, parts: int, step: Progress) -> Progress:
    """Return the progress in equal parts of work from that in one of them, counted from 0."""
    return replace(step, done=number * step.total + step.done, total=parts * step.total)


class Catalogue:
    """The list of models."""

    changed = Signal()
    """A model was installed or removed; sent in the thread that did it."""


catalogue = Catalogue()
