"""What a batch needs to know of an action on images, to run it anywhere.

An item is one file (or pair); it is worked off in units, usually its planes. An action can be
pickled; what it opens cannot. Not for: any one action.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from napari_kpac.batch.inputs import Item
from napari_kpac.batch.report import Outcome
from napari_kpac.core.progress import Steps
from napari_kpac.images import Metadata


@dataclass(frozen=True, eq=False)
class Frame:
    """What the result of an item will look like; known once the item was opened."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    metadata: Metadata
    streamed: bool = False
    """Whether its pixels must not be collected in memory."""


class Opened(Protocol):
    """An item that was opened and looked at."""

    frame: Frame
    units: int
    known: Any
    """What another process need not find out again; can be pickled."""

    @property
    def weight(self) -> int:
        """Bytes that a loaded unit takes."""

    def close(self) -> None:
        """Close its files."""


class Sink(Protocol):
    """The result of an item while it is being written."""

    out: Any
    """Takes pixels directly; None where units hand over what they made."""

    def add(self, made: Any) -> None:
        """Write what a unit gave."""

    def finish(self) -> Outcome:
        """Complete the files and let them appear under their names."""

    def discard(self) -> None:
        """Leave nothing behind."""


class Action(Protocol):
    """Something that is done to many files."""

    def sharing(self, processes: int) -> Action:
        """Return the same for one of several processes that share the memory of a machine."""

    def is_done(self, item: Item) -> bool:
        """Tell whether the result is there already; raise where something else is there."""

    def has_one_unit(self, item: Item) -> bool:
        """Tell, without opening it, whether an item is surely a single unit."""

    def open(self, item: Item, known: Any = None) -> Opened:
        """Open an item and look at it."""

    def load(self, opened: Any, unit: int) -> Any:
        """Read what a unit needs; done ahead, in another thread."""

    def steps(self, opened: Any, unit: int, loaded: Any, out: Any = None) -> Steps[Any]:
        """Work a unit off; returns what the sink is to write. Large ones go into ``out``."""

    def sink(self, item: Item, frame: Frame) -> Sink:
        """Begin a result."""
