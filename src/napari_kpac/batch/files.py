"""One file of a batch: opened, computed plane by plane, written.

Not for: the thread or machine in which that is done (executor.py, cluster.py).
"""

from __future__ import annotations

import glob
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from napari_kpac.batch.inputs import Item
from napari_kpac.batch.record import PlaneRecord
from napari_kpac.batch.report import BatchProgress, Outcome
from napari_kpac.core.errors import FileError, KpacError, for_people
from napari_kpac.core.estimators import find_estimator
from napari_kpac.core.options import DeblurOptions, DetectionOptions, ImageOptions, parse_memory
from napari_kpac.core.progress import Steps
from napari_kpac.engine.device import card_of, free_memory, prepare_network, resolve
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.engine.job import LARGE_PLANE_BYTES
from napari_kpac.engine.memory import ADVICE, give_back, is_memory_error
from napari_kpac.images import (
    PLAIN,
    RAW,
    TIFF,
    Location,
    Metadata,
    description_of,
    open_image,
)


@dataclass(frozen=True, eq=False)
class FileInfo:
    """What is known of a file once it is open; can be sent to other processes."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    metadata: Metadata
    planes: int = 1
    leading: int = 0
    """Axes that count planes."""
    plane_bytes: int = 0
    """Bytes that a loaded plane takes."""
    streamed: bool = False
    """Whether the pixels of the result must not be collected in memory."""
    pixel_range: Any = None
    """What the range rule gave: another process need not find it again."""


@dataclass(frozen=True, eq=False)
class OpenFile:
    """An open file or dual-pixel pair."""

    info: FileInfo
    content: Any
    """What the action computes with."""
    handles: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Close the files."""
        self.handles.close()


class Output(ABC):
    """The result of a file while it is being written."""

    pixels: Any = None
    """Takes pixels while a plane is computed; None where only whole planes are taken."""

    @abstractmethod
    def add(self, plane: Any) -> None:
        """Write what was computed for a plane."""

    @abstractmethod
    def finish(self) -> Outcome:
        """Complete the result and let it appear under its name."""

    def discard(self) -> None:  # noqa: B027 - not every result has anything to remove
        """Remove what was written so far; nothing, once the result is complete."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FileAction(ABC):
    """What is done to every file of a batch; can be sent to other processes."""

    options: Any
    overwrite: bool = False

    def for_worker(self, processes: int) -> Self:
        """Return the action for one of several processes that share the memory of a machine."""
        free = free_memory(resolve(self.options.device))
        memory = parse_memory(self.options.memory, free) // processes
        return replace(self, options=replace(self.options, memory=memory))

    def is_done(self, item: Item) -> bool:
        """Return True if there is a result that is newer than its source.

        Raises
        ------
        FileError
            If what is there was not computed with the same settings.
        """
        result = None if self.overwrite else self.find_result(item)
        if result is None:
            return False
        if not self.has_same_settings(description_of(result)):
            raise FileError(
                f"{item.first}: {result} is there already and was not made with these settings; "
                "choose another output, or the option overwrite to replace it"
            )
        time = modified(result)
        return all(path.exists() and modified(path) <= time for path in item.files)

    def announced(self, item: Item) -> Location:
        """Return what is said to be written for an item before its files are known."""
        return item.target

    @abstractmethod
    def find_result(self, item: Item) -> Location | None:
        """Return the first file of the result if it is there."""

    @abstractmethod
    def has_same_settings(self, record: Any) -> bool:
        """Return True if the record of a result is one of this action."""

    def is_one_plane(self, item: Item) -> bool:
        """Return True if an item is one plane by its name; False if it has to be opened."""
        return item.first.suffix.lower() in PLAIN + RAW

    @abstractmethod
    def open(self, item: Item, pixel_range: Any = None) -> OpenFile:
        """Open a file; its range of pixel values is found unless it is given."""

    @abstractmethod
    def load(self, file: OpenFile, plane: int) -> Any:
        """Read what is needed for a plane; done ahead, in another thread."""

    @abstractmethod
    def compute(self, file: OpenFile, plane: int, loaded: Any, pixels: Any = None) -> Steps[Any]:
        """Compute a plane, and return what its output is to write.

        Its pixels may go into ``pixels``, an array of the shape of the file, directly.
        """

    @abstractmethod
    def output(self, item: Item, info: FileInfo) -> Output:
        """Begin a result; raise where it could not be written."""

    def shared_output(self, item: Item, info: FileInfo) -> SharedOutput | None:  # noqa: ARG002
        """Return a result whose planes several processes can write; None where one must."""
        return None

    def write_plane(
        self, file: OpenFile, plane: int, loaded: Any, region: Any
    ) -> Steps[dict[str, Any]]:
        """Compute a plane into what :meth:`SharedOutput.begin` returned.

        Returns the environment that its recipe records.
        """
        raise NotImplementedError


class SharedOutput(ABC):
    """A result whose planes are written where they are computed; survives whoever began it."""

    record: PlaneRecord
    """The planes that are done."""

    @abstractmethod
    def begin(self) -> Any:
        """Begin, or go on; returns what a worker needs to write planes."""

    @abstractmethod
    def finish(self) -> Outcome:
        """Complete the result and let it appear under its name."""


@dataclass(frozen=True, eq=False)
class LoadedPlane:
    """A plane that is ready to be computed."""

    task: FileTask
    file: OpenFile | None = None
    """None where the file has ended: there is nothing to compute."""
    index: int = 0
    loaded: Any = None


class FileTask:
    """One file while it is processed; an error ends this file alone, and its outcome says why.

    Planes are loaded, computed and written in this order, each step in any thread.
    """

    def __init__(self, item: Item, action: FileAction) -> None:
        self.item, self.action = item, action
        self.outcome: Outcome | None = None
        self.error: BaseException | None = None
        """What ended the file, if it failed."""
        self.is_large = False
        """Whether decoding and encoding a plane takes memory that no plan counts."""
        self.planes, self.written = 1, 0
        self._output: Output | None = None
        self._open = ExitStack()
        self._ended = False

    def check(self) -> bool:
        """Return True if there is something to do."""
        try:
            if self.action.is_done(self.item):
                self.outcome = Outcome(self.item, "skipped", (self.action.announced(self.item),))
        except Exception as error:
            self.fail(error)
        return self.outcome is None

    def load(self) -> Iterator[LoadedPlane]:
        """Open the file, begin the result, and load the planes; yields at least one element."""
        if not self.check():
            yield LoadedPlane(self)
            return
        try:
            file = self.action.open(self.item)
        except Exception as error:
            self.fail(error)
            yield LoadedPlane(self)
            return
        yield from self.load_from(file)

    def load_from(self, file: OpenFile) -> Iterator[LoadedPlane]:
        """Do the same with a file that is open, and will be closed."""
        try:
            self._open.callback(file.close)
            self.begin(file.info)
            for index in range(self.planes):
                if self.outcome is not None:
                    return
                yield LoadedPlane(self, file, index, self.action.load(file, index))
        except Exception as error:
            self.fail(error)
            yield LoadedPlane(self)

    def begin(self, info: FileInfo) -> None:
        """Begin the result."""
        self.planes, self.is_large = info.planes, info.plane_bytes > LARGE_PLANE_BYTES
        self._output = self.action.output(self.item, info)
        self._open.callback(self._output.discard)

    def compute(self, plane: LoadedPlane, progress: BatchProgress) -> Steps[Any]:
        """Compute a plane; returns what is to be written."""
        if self.outcome is not None or plane.file is None or self._output is None:
            return None
        pixels = self._output.pixels
        steps = self.action.compute(plane.file, plane.index, plane.loaded, pixels)
        try:
            while True:
                step = next(steps)
                share = (plane.index + step.done / max(step.total, 1)) / self.planes
                yield progress.advance(self.item, share, step.note)
        except StopIteration as stop:
            return stop.value
        except Exception as error:
            self.fail(error)
            return None
        finally:
            steps.close()

    def write(self, plane: Any, info: FileInfo | None = None) -> Outcome | None:
        """Write a plane; returns the outcome, once, when the file has ended.

        ``info`` is needed where the file was opened in another process.
        """
        if self.outcome is None:
            try:
                self._write(plane, info)
            except Exception as error:
                self.fail(error)
        if self.outcome is None or self._ended:
            return None
        self._ended = True
        self.close()
        return self.outcome

    def _write(self, plane: Any, info: FileInfo | None) -> None:
        if self.is_large:
            give_back()
        if self._output is None and info is not None:
            self.begin(info)
        assert self._output is not None  # noqa: S101 - it was begun here or by load
        self._output.add(plane)
        self.written += 1
        if self.written < self.planes:
            return
        check_sources(self.item)
        self.outcome = self._output.finish()

    def fail(self, error: BaseException) -> None:
        """End the file with an error, unless it has ended before."""
        if self.outcome is None:
            self.error = error
            self.outcome = Outcome(self.item, "failed", problem=error_text(self.item, error))
            self.close()

    def close(self) -> None:
        """Close the file; a result that is not complete is removed."""
        self._open.close()
        self._output = None


def close_tasks(tasks: Iterable[FileTask]) -> None:
    """Close what is still open when a batch ends or is stopped."""
    for task in tasks:
        task.close()


def process_file(item: Item, action: FileAction, progress: BatchProgress) -> Steps[Outcome]:
    """Process one file: open it, compute its planes one after another, write the result."""
    task = FileTask(item, action)
    return (yield from process_planes(task, task.load(), progress))


def process_planes(
    task: FileTask, planes: Iterable[LoadedPlane], progress: BatchProgress
) -> Steps[Outcome]:
    """Compute the planes of a file that are loaded one after another; write the result."""
    try:
        for plane in planes:
            result = yield from task.compute(plane, progress)
            del plane  # its pixels need not be there while the result is encoded
            task.write(result)
            del result
    finally:
        task.close()
    assert task.outcome is not None  # noqa: S101 - the last plane, or an error, ends a file
    return task.outcome


def check_sources(item: Item) -> None:
    """Raise where a file is gone: what was read last of a folder of chunks was taken for empty."""
    for path in item.files:
        if path.suffix.lower() not in PLAIN + TIFF + RAW and not path.exists():
            raise FileError(f"{path}: it was removed while it was being read")


def modified(path: Location) -> float:
    """Return the time of the last change in seconds; 0 where a server does not say it."""
    if isinstance(path, Path):
        return path.stat().st_mtime
    return path.modified() or 0.0


def open_arrays(
    item: Item, handles: ExitStack, *, whole: bool = False
) -> tuple[Any, tuple[Any, Any] | None, Metadata]:
    """Open the image (or None) and the views (or None) of an item; also returns the metadata."""
    opened = [handles.enter_context(open_image(path, whole=whole)) for path in item.files]
    arrays = [image.array for image in opened]
    image = None if item.source is None else arrays.pop(0)
    views = None if item.views is None else (arrays[0], arrays[1])
    return image, views, opened[0].metadata


def files_beside(target: Path, ending: str) -> Iterator[Path]:
    """Return the files that are named like a target, with an ending that matches a pattern."""
    name = re.compile(re.escape(target.stem) + ending)
    found = target.parent.glob(f"{glob.escape(target.stem)}*{target.suffix}")
    return (path for path in found if name.fullmatch(path.stem))


def model_sha256(options: ImageOptions) -> str:
    """Return the fingerprint of the weights that options use; empty where they use none."""
    what = "kpac"
    if isinstance(options, DeblurOptions):
        what = options.method
    elif isinstance(options, DetectionOptions):
        what = options.source
    if what in ("map", "variance"):
        return ""
    if find_estimator(what) is not None:
        return prepare_estimator(what, options.model, options.device).model_sha256
    return card_of(prepare_network(options.model, resolve(options.device))).sha256


def error_text(item: Item, error: BaseException) -> str:
    """Return the text for an error, with the name of the file."""
    out_of_memory = is_memory_error(error) and not isinstance(error, KpacError)
    text = f"out of memory; {ADVICE}" if out_of_memory else for_people(error)
    return text if str(item.first) in text else f"{item.first}: {text}"
