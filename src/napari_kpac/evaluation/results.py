"""The results of an evaluation, one row for each image, method and noise, and their means.

In a folder, each row is appended to ``results.csv`` as soon as it is measured, so that a run
that was killed goes on where it stopped and ends with the same file. Not for: measuring (study),
or how tables are written (tables).
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import append, read_record, replacing, write_record
from napari_kpac.evaluation.attention import (
    EVERYTHING,
    TRUTH,
    Samples,
    bin_place,
    cost_column,
    separation,
)
from napari_kpac.evaluation.methods import INPUT
from napari_kpac.evaluation.metrics import BINS, GAIN_BINS, column
from napari_kpac.evaluation.options import EvaluateOptions

RESULTS = "results.csv"
SETTINGS = "settings.json"
SAMPLES = "evidence"
"""Folder of the pixels by which measures of blur are judged."""
NAMES = ("image", "method", "noise")
OLD_NAMES = ("picture", "method", "noise")
OLD_IMAGES, IMAGES = "pictures", "images"
"""Key of the names of the images in the settings: as it was, and as it is."""

Key = tuple[str, str, float]
"""Image, method, noise."""


@dataclass(frozen=True)
class Row:
    """Scores of one method on one image."""

    image: str
    method: str
    noise: float
    scores: Mapping[str, float]
    """By name of the column; what is not defined is left out."""
    samples: Samples | None = field(default=None, compare=False, repr=False)
    """Pixels by which a measure of blur is judged; None as well where they are in a file."""

    @property
    def key(self) -> Key:
        """What tells rows apart."""
        return self.image, self.method, self.noise


class Results:
    """Rows in the order in which they were measured.

    Parameters
    ----------
    columns
        Names of all scores that a row may have.
    folder
        Where the rows are written; what is there already is taken up. None: memory alone.
    settings
        What decides the scores, as plain values; a folder made with others is refused.
    """

    def __init__(
        self,
        columns: Sequence[str],
        folder: Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.folder = folder
        self._rows: dict[Key, Row] = {}
        if folder is not None:
            self._check_settings(folder / SETTINGS, settings or {})
            self._take_up(folder / RESULTS)

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return list(self._rows.values())

    def find(self, key: Key) -> Row | None:
        """Return a row, if it is there."""
        return self._rows.get(key)

    def add(self, row: Row) -> None:
        """Append a row."""
        if self.folder is not None:
            # First, so that a row that is there is complete.
            if row.samples is not None:
                with replacing(self._samples_file(row.key)) as temporary:
                    arrays: dict[str, Any] = dict(row.samples)
                    np.savez_compressed(temporary, **arrays)
                row = replace(row, samples=None)
            cells = [repr(row.scores[name]) if name in row.scores else "" for name in self.columns]
            line = _csv_line([row.image, row.method, repr(row.noise), *cells])
            append(self.folder / RESULTS, line)
        self._rows[row.key] = row

    def samples(self, row: Row) -> Samples | None:
        """Return the pixels by which a measure of blur is judged on an image, if there are any."""
        if self.folder is None:
            return row.samples
        path = self._samples_file(row.key)
        return _read_samples(path) if path.exists() else None

    def gain(self, row: Row) -> float | None:
        """Return the PSNR of a row above that of the input, where both are there and finite."""
        before = self.find((row.image, INPUT.name, row.noise))
        if before is None or "psnr" not in row.scores:
            return None
        gain = row.scores["psnr"] - before.scores["psnr"]
        return gain if np.isfinite(gain) else None

    def _check_settings(self, path: Path, settings: Mapping[str, Any]) -> None:
        record = json.loads(json.dumps({"settings": settings, "columns": self.columns}))
        if not path.exists():
            write_record(path, record)
            return
        before = read_record(path)
        old = before.get("settings", {})
        if OLD_IMAGES in old:
            old[IMAGES] = old.pop(OLD_IMAGES)
        if "options" in old:
            # Those that did not exist then were as they are by default.
            old["options"] = _defaults() | old["options"]
        if before != record:
            raise ConfigError(
                f"{path.parent} holds an evaluation with other settings; use the same again, "
                "or choose another folder"
            )

    def _take_up(self, path: Path) -> None:
        """Read the rows that are there; a last line that was cut short is dropped."""
        header, old_header = (_csv_line([*names, *self.columns]) for names in (NAMES, OLD_NAMES))
        try:
            written = path.read_bytes() if path.exists() else b""
            complete = written[: written.rfind(b"\n") + 1]
            if not complete or complete.startswith(old_header):
                complete = header + complete.removeprefix(old_header)
                with replacing(path) as temporary:
                    temporary.write_bytes(complete)
            elif len(complete) < len(written):
                os.truncate(path, len(complete))
        except OSError as error:
            raise FileError(f"cannot use {path}: {error.strerror or error}") from error
        try:
            if not complete.startswith(header):
                raise ValueError("its columns are others")
            for cells in csv.reader(io.StringIO(complete[len(header) :].decode())):
                named = zip(self.columns, cells[3:], strict=True)
                scores = {name: float(cell) for name, cell in named if cell}
                row = Row(cells[0], cells[1], float(cells[2]), scores)
                self._rows[row.key] = row
        except (ValueError, IndexError) as error:
            raise FileError(f"{path} is damaged: {error}; choose another folder") from error

    def _samples_file(self, key: Key) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return (self.folder or Path()) / SAMPLES / f"{digest}.npz"


def _defaults() -> dict[str, Any]:
    """Return the default values of the options that later versions added."""
    return {name: getattr(EvaluateOptions, name) for name in ("blur", "sliders")}


def _csv_line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _read_samples(path: Path) -> Samples:
    try:
        with np.load(path, allow_pickle=False) as file:
            samples = {name: file[name] for name in file.files}
            return {TRUTH: samples.pop(TRUTH), **samples}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"{path} is damaged: {error}; choose another folder") from error


ALL_PIXELS = "all pixels"
ONE_TO_EIGHT_PX = "1-8 px"


@dataclass(frozen=True)
class Line:
    """Means over images: one line of a table, for a method at one noise."""

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
        """Return plain values, ready for JSON."""
        return asdict(self)


def summarise(results: Results) -> list[Line]:
    """Return one line for each method and noise, in the order of measurement."""
    groups: dict[tuple[str, float], list[Row]] = {}
    for row in results.rows:
        groups.setdefault((row.method, row.noise), []).append(row)
    values = {key: _by_column(rows) for key, rows in groups.items()}
    means = {
        key: {name: float(np.mean(found)) for name, found in columns.items()}
        for key, columns in values.items()
    }
    lines = []
    for (method, noise), rows in groups.items():
        mine, base = means[method, noise], means.get((INPUT.name, noise), {})
        gains = {
            name: mine[name] - base[name]
            for name in ("psnr", *(column("psnr", where) for where in BINS))
            if name in mine and name in base
        }
        mean_gain = _mean_of(gains, [column("psnr", where) for where in GAIN_BINS])
        costs = [cost_column(EVERYTHING, bin_place(where)) for where in GAIN_BINS]
        gain_and_cost = {
            ALL_PIXELS: (gains.get("psnr"), mine.get(cost_column(EVERYTHING))),
            ONE_TO_EIGHT_PX: (mean_gain, _mean_of(mine, costs)),
        }
        known = {
            place: (gain, cost)
            for place, (gain, cost) in gain_and_cost.items()
            if gain is not None and cost is not None
        }
        row_gains = [results.gain(row) for row in rows]
        samples = [results.samples(row) for row in rows]
        lines.append(
            Line(
                method=method,
                noise=noise,
                images=len(rows),
                means=mine,
                counts={name: len(found) for name, found in values[method, noise].items()},
                gains=gains,
                mean_gain=mean_gain,
                worst_gain=min((each for each in row_gains if each is not None), default=None),
                muted_gains={place: gain - cost for place, (gain, cost) in known.items()},
                share_through_alpha={
                    place: cost / gain for place, (gain, cost) in known.items() if gain > 0
                },
                separation=separation([each for each in samples if each is not None]),
            )
        )
    return lines


def _by_column(rows: Sequence[Row]) -> dict[str, list[float]]:
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
