"""The results of an evaluation, one row for each picture, method and noise.

Not for: means over pictures (summary).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from napari_kpac.evaluation.probe import Evidence

Key = tuple[str, str, float]
"""Picture, method, noise."""


@dataclass(frozen=True)
class Row:
    """Scores of one method on one picture."""

    picture: str
    method: str
    noise: float
    scores: Mapping[str, float]
    """By name of the column; what is not defined is left out."""

    @property
    def key(self) -> Key:
        """What tells rows apart."""
        return self.picture, self.method, self.noise


class Ledger:
    """Rows in the order in which they were measured."""

    def __init__(self) -> None:
        self._rows: dict[Key, Row] = {}
        self._evidence: dict[Key, Evidence] = {}

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return list(self._rows.values())

    def has(self, key: Key) -> bool:
        """Tell whether a row is there already."""
        return key in self._rows

    def add(self, row: Row, evidence: Evidence | None = None) -> None:
        """Append a row, and the pixels by which a measure of blur is judged."""
        self._rows[row.key] = row
        if evidence is not None:
            self._evidence[row.key] = evidence

    def evidence(self, method: str, noise: float) -> list[Evidence]:
        """Give what was collected for a method, picture by picture."""
        return [found for key, found in self._evidence.items() if key[1:] == (method, noise)]
