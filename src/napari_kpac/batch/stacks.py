"""Files of several planes while a cluster computes these, and where each plane goes.

Not for: giving tasks out (cluster.py), or what a worker does with one (worker.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from napari_kpac.batch.files import FileAction, FileInfo, FileTask, SharedOutput, error_text
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.report import Outcome
from napari_kpac.batch.worker import Call, TaskResult
from napari_kpac.core.errors import KpacError


@dataclass(frozen=True, eq=False)
class Task:
    """Something for a worker to do."""

    call: Call
    stack: OpenStack | None = None
    """Of which it is a plane; None: a whole file."""


class OpenStack(ABC):
    """A file of several planes while these are computed."""

    def __init__(self, item: Item, info: FileInfo) -> None:
        self.item, self.info = item, info
        self.problem = ""
        self.ended = False

    def tasks(self, batch: str) -> Iterator[Task]:
        """Begin the result; iterate over what is to be computed, until something fails."""
        try:
            region = self.begin()
        except Exception as error:
            self.fail(error_text(self.item, error))
            return
        for plane in range(self.info.planes):
            if self.problem:
                return
            if not self.is_done(plane):
                yield Task(Call(batch, self.item, plane, self.info.pixel_range, region), self)

    def fail(self, problem: str) -> None:
        """Note why the file cannot be completed."""
        self.problem = self.problem or problem

    def end(self) -> Outcome | None:
        """Return the outcome, once, when the last plane is there or one failed."""
        if self.ended or not (self.problem or self.share == 1):
            return None
        self.ended = True
        if not self.problem:
            try:
                return self.finish()
            except Exception as error:
                self.fail(error_text(self.item, error))
        self.close()
        return Outcome(self.item, "failed", problem=self.problem + self.kept)

    @property
    def kept(self) -> str:
        """Text for a message: what is not lost where it fails."""
        return ""

    def is_done(self, plane: int) -> bool:  # noqa: ARG002
        """Return True if a plane was computed by an earlier run."""
        return False

    @property
    @abstractmethod
    def share(self) -> float:
        """How much of it is done."""

    @abstractmethod
    def begin(self) -> Any:
        """Begin the result, and return where workers write; None: they send it back."""

    @abstractmethod
    def take(self, plane: int, result: TaskResult) -> None:
        """Take what a worker computed."""

    @abstractmethod
    def finish(self) -> Outcome:
        """Complete the result."""

    @abstractmethod
    def close(self) -> None:
        """End without a result."""


class CollectedStack(OpenStack):
    """Its planes come back and are written here: the result is one file."""

    def __init__(self, item: Item, info: FileInfo, action: FileAction) -> None:
        super().__init__(item, info)
        self.task = FileTask(item, action)
        self.workers: set[str] = set()
        self.seconds = 0.0

    @property
    def share(self) -> float:
        """The planes that are written."""
        return self.task.written / self.info.planes

    def begin(self) -> None:
        """Begin the file."""
        self.task.begin(self.info)

    def take(self, plane: int, result: TaskResult) -> None:  # noqa: ARG002
        """Write a plane."""
        self.workers.add(result.worker)
        self.seconds += result.seconds
        self.task.write(result.value)
        if self.task.error is not None:
            self.fail(error_text(self.item, self.task.error))

    def finish(self) -> Outcome:
        """Return what the last plane led to."""
        assert self.task.outcome is not None  # noqa: S101 - it ended the file
        return say_who(self.task.outcome, self.workers, self.seconds)

    def close(self) -> None:
        """Remove the file."""
        self.task.close()


class SharedStack(OpenStack):
    """Its planes are written by the workers; what is done stays done, whatever comes."""

    def __init__(self, item: Item, info: FileInfo, output: SharedOutput) -> None:
        super().__init__(item, info)
        self.output = output

    @property
    def share(self) -> float:
        """The planes that are recorded."""
        return len(self.output.record.done) / self.info.planes

    @property
    def kept(self) -> str:
        """The planes that are recorded."""
        done = len(self.output.record.done)
        return f"; {done} of {self.info.planes} planes are done and kept" if done else ""

    def is_done(self, plane: int) -> bool:
        """Return True if the record has it."""
        return plane in self.output.record.done

    def begin(self) -> Any:
        """Go on with what is there, or begin."""
        return self.output.begin()

    def take(self, plane: int, result: TaskResult) -> None:
        """Record that a plane is written."""
        self.output.record.add(plane, result.worker, result.seconds, result.value)

    def finish(self) -> Outcome:
        """Let the result appear."""
        outcome = self.output.finish()
        return say_who(outcome, self.output.record.workers, self.output.record.seconds)

    def close(self) -> None:
        """Keep what is done: the same command goes on with it."""
        with suppress(KpacError):
            self.output.record.flush()


def say_who(outcome: Outcome, workers: Iterable[str], seconds: float) -> Outcome:
    """Return an outcome that says who made it, and how long that took them together."""
    about = {"workers": sorted(workers), "seconds": round(seconds, 3)}
    return replace(outcome, record={**outcome.record, **about})
