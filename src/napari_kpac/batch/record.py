"""Records of a batch on disk: which planes of a result are done, and what every task came to.

Written by the process that gives the tasks out, so that it can be killed and started again. Not
for: the report in memory (report.py).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from napari_kpac.core.errors import FileError
from napari_kpac.core.files import append
from napari_kpac.images import Location
from napari_kpac.images.remote import RemotePath, write_whole

FLUSH_SECONDS = 1.0
"""What a killed process has done since then is done again."""
SEGMENT_BYTES = 1_000_000
"""A file of a record that is larger is left as it is, and another one begun."""


class PlaneRecord:
    """The planes of an unfinished result that are done, in a folder with the result.

    Parameters
    ----------
    folder
        Where the files of the record lie.
    settings
        What the result depends on: a record with other settings is not gone on with.
    """

    def __init__(self, folder: Location, settings: Mapping[str, Any]) -> None:
        self.folder, self.settings = folder, json.loads(json.dumps(settings))
        self.done: set[int] = set()
        self.workers: set[str] = set()
        self.seconds = 0.0
        """Computing time of all planes."""
        self.environment: dict[str, Any] = {}
        """Of the recipe of the plane that came last."""
        self._clear()

    def _clear(self) -> None:
        self._segment, self._size, self._unwritten, self._flushed = 0, 0, 0, time.monotonic()
        self._lines: list[bytes] = []

    def resume(self) -> bool:
        """Read what an earlier process recorded; False where there is nothing to go on with."""
        segments = {
            int(each.stem): each
            for each in _inside(self.folder)
            if each.suffix == ".jsonl" and each.stem.isdigit()
        }
        settings = None
        for number, path in sorted(segments.items()):
            self._segment = number + 1
            for line in _lines(path):
                settings = line.get("settings", settings)
                self._take(line)
        if settings == self.settings:
            return True
        self.done.clear()
        self.workers.clear()
        self.seconds, self.environment = 0.0, {}
        self._clear()
        return False

    def begin(self) -> None:
        """Write the first line of a new record."""
        self._add({"settings": self.settings})
        self.flush()

    def add(
        self, plane: int, worker: str, seconds: float, environment: Mapping[str, Any] | None = None
    ) -> None:
        """Record that a plane is done."""
        line: dict[str, Any] = {"plane": plane, "worker": worker, "seconds": round(seconds, 3)}
        if environment and environment != self.environment:
            line["environment"] = dict(environment)
        self._take(line)
        self._add(line)
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what is not yet on disk."""
        if not self._unwritten:
            return
        write_whole(self.folder / f"{self._segment:06}.jsonl", b"".join(self._lines))
        self._unwritten, self._flushed = 0, time.monotonic()
        if self._size >= SEGMENT_BYTES:
            self._segment += 1
            self._lines.clear()
            self._size = 0

    def _add(self, line: Mapping[str, Any]) -> None:
        self._lines.append(json.dumps(line).encode() + b"\n")
        self._size += len(self._lines[-1])
        self._unwritten += 1

    def _take(self, line: Mapping[str, Any]) -> None:
        if "plane" in line:
            self.done.add(int(line["plane"]))
            self.workers.add(str(line["worker"]))
            self.seconds += float(line["seconds"])
            self.environment = line.get("environment", self.environment)


def _inside(folder: Location) -> Iterable[Location]:
    if isinstance(folder, RemotePath):
        return folder.iterdir()
    return folder.iterdir() if folder.is_dir() else ()


def _lines(path: Location) -> Iterator[dict[str, Any]]:
    """Return the lines of a record that can be read: a damaged one is work that is done again."""
    with suppress(ValueError):
        for text in path.read_bytes().splitlines():
            line = json.loads(text)
            if isinstance(line, dict):
                yield line


class TaskRecord:
    """A file to which a line of JSON is added for every task that ended; None: no file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lines: list[bytes] = []
        self._flushed = time.monotonic()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(FileError):  # a disk that is full must not hide how the batch ended
            self.flush()

    def _check(self) -> None:
        """Raise now rather than after hours where the file cannot be written."""
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            append(self.path, b"")

    def add(self, **about: Any) -> None:
        """Add a line; what is None is left out."""
        if self.path is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, **{key: value for key, value in about.items() if value is not None}}
        self._lines.append(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        if time.monotonic() - self._flushed >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the lines that are not yet in the file."""
        if self.path is not None and self._lines:
            append(self.path, b"".join(self._lines))
            self._lines.clear()
        self._flushed = time.monotonic()
