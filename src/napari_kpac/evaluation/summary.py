"""Means over pictures: what the tables show.

Not for: measuring, or how tables are printed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from napari_kpac.evaluation.bins import BINS, GAIN_BINS, column
from napari_kpac.evaluation.ledger import Ledger
from napari_kpac.evaluation.probe import separation

INPUT = "input"


@dataclass(frozen=True)
class Line:
    """One line of a table: a method at one noise."""

    method: str
    noise: float
    pictures: int
    means: Mapping[str, float]
    """Mean of each column over the pictures that have a value there."""
    counts: Mapping[str, int]
    """Number of those pictures."""
    gains: Mapping[str, float]
    """PSNR above that of the input, in all and by bin, in dB."""
    mean_gain: float | None
    """Mean of the gains in the bins from 1 to 8 px."""
    separation: Mapping[str, float]
    """ROC AUC of each measure of blur, larger values taken as more blurred."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def summarise(ledger: Ledger) -> list[Line]:
    """Make one line for each method and noise, in the order of measurement."""
    groups: dict[tuple[str, float], dict[str, list[float]]] = {}
    pictures: dict[tuple[str, float], int] = {}
    for row in ledger.rows:
        key = row.method, row.noise
        pictures[key] = pictures.get(key, 0) + 1
        group = groups.setdefault(key, {})
        for name, value in row.scores.items():
            group.setdefault(name, []).append(value)
    means = {
        key: {name: float(np.mean(values)) for name, values in group.items()}
        for key, group in groups.items()
    }
    lines = []
    for (method, noise), group in groups.items():
        mine, base = means[method, noise], means.get((INPUT, noise), {})
        gains = {
            name: mine[name] - base[name]
            for name in ("psnr", *(column("psnr", where) for where in BINS))
            if name in mine and name in base
        }
        wanted = [column("psnr", where) for where in GAIN_BINS]
        complete = all(name in gains for name in wanted)
        lines.append(
            Line(
                method=method,
                noise=noise,
                pictures=pictures[method, noise],
                means=mine,
                counts={name: len(values) for name, values in group.items()},
                gains=gains,
                mean_gain=float(np.mean([gains[name] for name in wanted])) if complete else None,
                separation=separation(ledger.evidence(method, noise)),
            )
        )
    return lines
