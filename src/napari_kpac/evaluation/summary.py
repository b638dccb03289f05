"""Means over images: what the tables show.

Not for: measuring, or how tables are printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from napari_kpac.evaluation.bins import BINS, GAIN_BINS, column
from napari_kpac.evaluation.muting import EVERYTHING, bin_place, cost_column
from napari_kpac.evaluation.probe import separation
from napari_kpac.evaluation.results import Ledger, Row

INPUT = "input"
ALL_PIXELS = "all pixels"
ONE_TO_EIGHT_PX = "1-8 px"


@dataclass(frozen=True)
class Line:
    """One line of a table: a method at one noise."""

    method: str
    noise: float
    images: int
    means: Mapping[str, float]
    """Mean of each column over the images that have a value there."""
    counts: Mapping[str, int]
    """Number of those images."""
    gains: Mapping[str, float]
    """PSNR above that of the input, in all and by bin, in dB."""
    mean_gain: float | None
    """Mean of the gains in the bins from 1 to 8 px."""
    worst_gain: float | None
    """Smallest gain of an image over all its pixels."""
    muted_gains: Mapping[str, float]
    """Gain with every alpha muted: of all pixels, and in the mean of the bins from 1 to 8 px."""
    share_through_alpha: Mapping[str, float]
    """Cost of muting everything over the gain, likewise; left out where nothing is gained."""
    separation: Mapping[str, float]
    """ROC AUC of each measure of blur, larger values taken as more blurred."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def summarise(ledger: Ledger) -> list[Line]:
    """Make one line for each method and noise, in the order of measurement."""
    rows: dict[tuple[str, float], list[Row]] = {}
    for row in ledger.rows:
        rows.setdefault((row.method, row.noise), []).append(row)
    groups = {key: _columns(each) for key, each in rows.items()}
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
        mean_gain = _mean_of(gains, [column("psnr", where) for where in GAIN_BINS])
        places = [cost_column(EVERYTHING, bin_place(where)) for where in GAIN_BINS]
        through = {
            ALL_PIXELS: (gains.get("psnr"), mine.get(cost_column(EVERYTHING))),
            ONE_TO_EIGHT_PX: (mean_gain, _mean_of(mine, places)),
        }
        lines.append(
            Line(
                method=method,
                noise=noise,
                images=len(rows[method, noise]),
                means=mine,
                counts={name: len(values) for name, values in group.items()},
                gains=gains,
                mean_gain=mean_gain,
                worst_gain=_worst_gain(rows[method, noise], ledger),
                muted_gains={
                    where: gain - cost
                    for where, (gain, cost) in through.items()
                    if gain is not None and cost is not None
                },
                share_through_alpha={
                    where: cost / gain
                    for where, (gain, cost) in through.items()
                    if gain is not None and cost is not None and gain > 0
                },
                separation=separation(ledger.evidence(method, noise)),
            )
        )
    return lines


def _columns(rows: Sequence[Row]) -> dict[str, list[float]]:
    """Return the values of every column that has any."""
    columns: dict[str, list[float]] = {}
    for row in rows:
        for name, value in row.scores.items():
            columns.setdefault(name, []).append(value)
    return columns


def _mean_of(values: Mapping[str, float], names: Sequence[str]) -> float | None:
    """Return the mean of some values, if all of them are there."""
    found = [values[name] for name in names if name in values]
    return float(np.mean(found)) if len(found) == len(names) else None


def _worst_gain(rows: Sequence[Row], ledger: Ledger) -> float | None:
    """Return the smallest gain of an image; None where there is no input to compare with."""
    gains = []
    for row in rows:
        before = ledger.find((row.image, INPUT, row.noise))
        if before is not None and "psnr" in row.scores:
            gains.append(row.scores["psnr"] - before.scores["psnr"])
    finite = [gain for gain in gains if np.isfinite(gain)]
    return min(finite, default=None)
