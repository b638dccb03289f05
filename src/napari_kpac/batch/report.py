"""The outcome of every file of a batch, and how far the batch is.

Not for: printing it (cli).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from napari_kpac.batch.inputs import Item
from napari_kpac.core.progress import Progress
from napari_kpac.engine.recipe import Recipe
from napari_kpac.images import Location

State = Literal["made", "skipped", "failed", "planned"]
STEPS_PER_FILE = 100
WORDS: Mapping[State, str] = {
    "made": "made",
    "skipped": "done before",
    "planned": "to do",
    "failed": "failed",
}
"""What people read for each state."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one item."""

    item: Item
    state: State
    written: tuple[Location, ...] = ()
    """The files; of those that are planned or were made before, what is known of their names."""
    problem: str = ""
    """Why it failed."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the result, as plain values."""
    recipe: Recipe | None = None
    """How it was deblurred."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        about: dict[str, Any] = {"input": str(self.item.first), "state": self.state}
        if self.item.views is not None:
            about["views"] = [str(path) for path in self.item.views]
        if self.state == "failed":
            return {**about, "problem": self.problem}
        if self.recipe is not None:
            about["recipe"] = self.recipe.to_dict()
        return {**about, "output": str(next(iter(self.written), self.item.target)), **self.record}

    def summary(self) -> dict[str, Any]:
        """Return the values of a line in a record of tasks: no recipe."""
        about: dict[str, Any] = {"input": str(self.item.first), "state": self.state}
        if self.state == "failed":
            return {**about, "problem": self.problem}
        about["output"] = [str(path) for path in self.written]
        return about | {
            key: self.record[key] for key in ("workers", "seconds") if key in self.record
        }


@dataclass(frozen=True)
class Report:
    """The outcomes of all items, in the order in which they were finished."""

    outcomes: list[Outcome] = field(default_factory=list)

    def of(self, state: State) -> list[Outcome]:
        """Return the outcomes in a state."""
        return [outcome for outcome in self.outcomes if outcome.state == state]

    @property
    def failed(self) -> list[Outcome]:
        """The items that failed."""
        return self.of("failed")

    def lines(self) -> Iterator[str]:
        """Return lines to print: a count, and every problem."""
        counts = {word: len(self.of(state)) for state, word in WORDS.items()}
        yield ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        for outcome in self.failed:
            yield f"  {outcome.problem}"


@dataclass(frozen=True)
class FileProgress(Progress):
    """A step of a batch, and the file that it was of."""

    item: Item | None = None
    share: float = 0.0
    """How much of the file is done, 0 to 1."""
    outcome: Outcome | None = None
    """What became of the file, once it has ended."""


class BatchProgress:
    """How far a batch is; collects its report."""

    def __init__(self, items: int) -> None:
        self.report = Report()
        self._items = items
        self._shares: dict[Item, float] = {}
        self._recipes: dict[str, Recipe] = {}

    def advance(self, item: Item, share: float, note: str = "") -> FileProgress:
        """Return the progress when a share of an item is done."""
        self._shares[item] = max(min(share, 1.0), self._shares.get(item, 0.0))
        return self._progress(item, f"{item.first.name}: {note}" if note else "")

    def end(self, outcome: Outcome) -> FileProgress:
        """Return the progress when an item has ended."""
        self._shares.pop(outcome.item, None)
        if outcome.recipe is not None:
            # A million images are made by a few recipes: equal ones are kept once.
            key = json.dumps(outcome.recipe.to_dict())
            outcome = replace(outcome, recipe=self._recipes.setdefault(key, outcome.recipe))
        self.report.outcomes.append(outcome)
        note = ""
        if outcome.state == "failed":
            note = f"failed: {outcome.problem}"
        elif outcome.state in ("made", "planned"):
            first, *others = outcome.written
            more = f" and {len(others)} more" if others else ""
            note = f"{outcome.item.first} -> {first}{more}"
        return self._progress(outcome.item, note, outcome)

    def _progress(self, item: Item, note: str, outcome: Outcome | None = None) -> FileProgress:
        done = len(self.report.outcomes) + sum(self._shares.values())
        return FileProgress(
            int(done * STEPS_PER_FILE),
            self._items * STEPS_PER_FILE,
            item.first.name,
            note,
            item,
            1.0 if outcome is not None else self._shares.get(item, 0.0),
            outcome,
        )
