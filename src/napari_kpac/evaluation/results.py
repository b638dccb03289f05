"""The results of an evaluation, one row for each image, method and noise; also on disk.

In a folder, each row is appended to ``results.csv`` as soon as it is measured, so that a run
that was killed goes on where it stopped and ends with the same file. Not for: means over
images (summary).
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import append, read_record, replacing, write_record
from napari_kpac.evaluation.probe import Evidence

RESULTS = "results.csv"
SETTINGS = "settings.json"
EVIDENCE = "evidence"
"""Folder of the pixels by which measures of blur are judged."""
NAMES = ("image", "method", "noise")

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

    @property
    def key(self) -> Key:
        """What tells rows apart."""
        return self.image, self.method, self.noise


class Ledger:
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
        self._evidence: dict[Key, Evidence] = {}
        if folder is not None:
            self._check_settings(folder / SETTINGS, settings or {})
            self._take_up(folder / RESULTS)

    @property
    def rows(self) -> list[Row]:
        """All rows."""
        return list(self._rows.values())

    def has(self, key: Key) -> bool:
        """Tell whether a row is there already."""
        return key in self._rows

    def find(self, key: Key) -> Row | None:
        """Give one row."""
        return self._rows.get(key)

    def add(self, row: Row, evidence: Evidence | None = None) -> None:
        """Append a row, and the pixels by which a measure of blur is judged."""
        if self.folder is not None:
            # First, so that a row that is there is whole.
            if evidence is not None:
                self._write_evidence(row.key, evidence)
            self._append(self.folder / RESULTS, row)
        elif evidence is not None:
            self._evidence[row.key] = evidence
        self._rows[row.key] = row

    def evidence(self, method: str, noise: float) -> list[Evidence]:
        """Give what was collected for a method, image by image."""
        found = [self.evidence_of(key) for key in self._rows if key[1:] == (method, noise)]
        return [each for each in found if each is not None]

    def evidence_of(self, key: Key) -> Evidence | None:
        """Give what was collected for one row, if anything was."""
        if self.folder is None:
            return self._evidence.get(key)
        path = self._evidence_file(key)
        return _read_evidence(path) if path.exists() else None

    def _check_settings(self, path: Path, settings: Mapping[str, Any]) -> None:
        record = json.loads(json.dumps({"settings": settings, "columns": self.columns}))
        if path.exists():
            if read_record(path) != record:
                raise ConfigError(
                    f"{path.parent} holds an evaluation with other settings; use the same again, "
                    "or choose another folder"
                )
            return
        write_record(path, record)

    def _take_up(self, path: Path) -> None:
        """Read the rows that are there; a last line that was cut short is dropped."""
        header = _line([*NAMES, *self.columns])
        try:
            written = path.read_bytes() if path.exists() else b""
            whole = written[: written.rfind(b"\n") + 1]
            if not whole:
                with replacing(path) as temporary:
                    temporary.write_bytes(header)
                return
            if len(whole) < len(written):
                os.truncate(path, len(whole))
        except OSError as error:
            raise FileError(f"cannot use {path}: {error.strerror or error}") from error
        try:
            if not whole.startswith(header):
                raise ValueError("its columns are others")
            for cells in csv.reader(io.StringIO(whole[len(header) :].decode())):
                scores = {
                    name: float(cell)
                    for name, cell in zip(self.columns, cells[3:], strict=True)
                    if cell
                }
                row = Row(cells[0], cells[1], float(cells[2]), scores)
                self._rows[row.key] = row
        except (ValueError, IndexError) as error:
            raise FileError(f"{path} is damaged: {error}; choose another folder") from error

    def _append(self, path: Path, row: Row) -> None:
        cells = [repr(row.scores[name]) if name in row.scores else "" for name in self.columns]
        append(path, _line([row.image, row.method, repr(row.noise), *cells]))

    def _evidence_file(self, key: Key) -> Path:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return (self.folder or Path()) / EVIDENCE / f"{digest}.npz"

    def _write_evidence(self, key: Key, evidence: Evidence) -> None:
        with replacing(self._evidence_file(key)) as temporary:
            arrays: dict[str, Any] = {"blurred": evidence.blurred, **evidence.values}
            np.savez_compressed(temporary, **arrays)


def _line(cells: Sequence[str]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue().encode()


def _read_evidence(path: Path) -> Evidence:
    try:
        with np.load(path, allow_pickle=False) as file:
            values = {name: file[name] for name in file.files}
            return Evidence(values, values.pop("blurred"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise FileError(f"{path} is damaged: {error}; choose another folder") from error
