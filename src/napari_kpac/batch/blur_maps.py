"""Blur maps of many files, with masks, tables of regions and scores.

A file is one unit here: one threshold is found for all planes of a stack. Not for: the maps
themselves (detection).
"""

from __future__ import annotations

import glob
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.batch.actions import Frame
from napari_kpac.batch.deblurring import found_done, shared_memory
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.opening import open_arrays
from napari_kpac.batch.report import Outcome
from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import DetectionOptions, MapKind
from napari_kpac.core.progress import Steps
from napari_kpac.detection import (
    Detection,
    ScoreReport,
    detect_steps,
    measure_regions,
    region_table,
    score,
)
from napari_kpac.detection.estimators import Planes, family
from napari_kpac.detection.files import export, export_table
from napari_kpac.engine.device import card_of, prepare_network, resolve
from napari_kpac.images import Metadata

_WHERE = ("model", "device", "tile", "memory")


@dataclass(eq=False)
class OpenedWhole:
    """A file, loaded whole."""

    image: Any
    views: tuple[Any, Any] | None
    frame: Frame
    units: int = 1
    known: Any = None

    @property
    def weight(self) -> int:
        """Bytes of its pixels."""
        given = (self.image, *(self.views or ()))
        return sum(int(array.nbytes) for array in given if array is not None)

    def close(self) -> None:
        """Nothing is open."""


@dataclass(frozen=True, eq=False)
class Detected:
    """A blur map, and how well it agrees with the truth, where that is known."""

    found: Detection
    image: Any
    report: ScoreReport | None


@dataclass(frozen=True, eq=False)
class BlurMapFiles:
    """What is done to every file."""

    options: DetectionOptions
    kind: MapKind | None = None
    opacity: float = 0.5
    slice: tuple[int, ...] | None = None
    scale: tuple[float, ...] | None = None
    """Size of a pixel; by default what the file says."""
    units: str | None = None
    masks: dict[Path, Path] = field(default_factory=dict)
    """Where masks go, by the target of the map; empty: nowhere."""
    tables: dict[Path, Path] = field(default_factory=dict)
    """Where tables of regions go."""
    truth: Any = None
    polarity: Any = None
    overwrite: bool = False
    asked: DetectionOptions | None = None
    """The options as they were given, where others are used."""

    def sharing(self, processes: int) -> BlurMapFiles:
        """Return the same for one of several processes that share the memory of a machine."""
        shared = replace(self.options, memory=shared_memory(self.options, processes))
        return replace(self, options=shared, asked=self.options)

    def is_done(self, item: Item) -> bool:
        """Tell whether map, mask and table are there; scores are always made again."""
        extra = [where[item.target] for where in (self.masks, self.tables) if where]
        first = _first_file(item.target)
        if first is None or not found_done(item, first, self.overwrite, self._is_alike):
            return False
        return self.truth is None and all(_first_file(path) for path in extra)

    def _is_alike(self, record: Any) -> bool:
        try:
            options = {k: v for k, v in record["blur map"].items() if k not in _WHERE}
            wanted = {k: v for k, v in self.options.to_dict().items() if k not in _WHERE}
            return bool(options == wanted and record["model"]["sha256"] == self._model_sha256())
        except (KeyError, TypeError, AttributeError):
            return False

    def _model_sha256(self) -> str:
        if family(self.options.source) != "alpha":
            return ""
        return card_of(prepare_network(self.options.model, resolve(self.options.device))).sha256

    def has_one_unit(self, item: Item) -> bool:  # noqa: ARG002 - it is always one
        """Every file is one unit."""
        return True

    def open(self, item: Item, known: Any = None) -> OpenedWhole:  # noqa: ARG002
        """Load the file or pair."""
        with ExitStack() as stack:
            image, views, metadata = open_arrays(item, stack, whole=True)
        first = views[0] if image is None and views is not None else image
        frame = Frame(tuple(first.shape), np.dtype(first.dtype), metadata)
        return OpenedWhole(image, views, frame)

    def load(self, opened: OpenedWhole, unit: int) -> OpenedWhole:  # noqa: ARG002
        """Take the wanted slice."""
        if self.slice is None:
            return opened
        views = opened.views

        def cut(array: Any) -> Any:
            return None if array is None else one_slice(array, self.slice or (), self.options)

        cut_views = None if views is None else (cut(views[0]), cut(views[1]))
        return replace(opened, image=cut(opened.image), views=cut_views)

    def steps(
        self,
        opened: OpenedWhole,  # noqa: ARG002 - what was loaded of it does
        unit: int,  # noqa: ARG002
        loaded: OpenedWhole,
        out: Any = None,  # noqa: ARG002
    ) -> Steps[Detected]:
        """Measure blur and score it."""
        found = yield from detect_steps(loaded.image, self.options, views=loaded.views)
        found = replace(found, options=self.asked or self.options)
        report = None
        if self.truth is not None:
            report = score(
                found.values, self.truth, self.polarity, threshold=self.options.threshold
            )
        shown = loaded.views[0] if loaded.image is None and loaded.views else loaded.image
        return Detected(found, shown, report)

    def sink(self, item: Item, frame: Frame) -> BlurMapSink:
        """Begin the files of an item."""
        return BlurMapSink(item, frame.metadata, self)


class BlurMapSink:
    """The files of one item."""

    out = None

    def __init__(self, item: Item, metadata: Metadata, action: BlurMapFiles) -> None:
        self.item, self.action = item, action
        self.made: Detected | None = None
        self.size: dict[str, Any] = {"scale": action.scale, "units": action.units}
        known = metadata.image_scale
        if action.scale is None and action.units is None and known is not None:
            self.size = {"scale": known[0], "units": known[1]}

    def add(self, made: Detected) -> None:
        """Keep the map."""
        self.made = made

    def finish(self) -> Outcome:
        """Write map, mask and table."""
        assert self.made is not None  # noqa: S101 - every file is one unit
        action, found, report = self.action, self.made.found, self.made.report
        about = {
            "image": self.made.image,
            "description": json.dumps(found.to_dict()),
            "opacity": action.opacity,
            "reading": action.options,
            **self.size,
        }
        target = self.item.target
        written = export(target, found.values, action.kind, **about)
        if action.masks:
            written += export(action.masks[target], found.mask, **about)
        if action.tables:
            parts = measure_regions(found.values, found.mask, **self.size)
            written.append(export_table(action.tables[target], region_table(parts)))
        record = {
            "output": [str(path) for path in written],
            **found.to_dict(),
            "blurred": float(found.mask.mean()),
            **({} if report is None else {"scores": report.to_dict()}),
        }
        return Outcome(self.item, "made", tuple(written), record=record)

    def discard(self) -> None:
        """Nothing was written yet."""
        self.made = None


def one_slice(image: Any, index: tuple[int, ...], options: DetectionOptions) -> Any:
    """Take one slice of a stack."""
    leading = Planes.of(image, options).layout.leading
    if len(index) != len(leading) or any(n >= size for n, size in zip(index, leading, strict=True)):
        raise ImageError(
            f"there is no slice {','.join(map(str, index))}: the leading axes have sizes {leading}"
        )
    return image[index]


def _first_file(path: Path) -> Path | None:
    """Return a file if it is there, or the first of a stack's slices; all of these come at once."""
    if path.exists():
        return path
    zeros = re.compile(rf"{re.escape(path.stem)}(-0+)+")
    found = path.parent.glob(f"{glob.escape(path.stem)}-0*{path.suffix}")
    return next((each for each in found if zeros.fullmatch(each.stem)), None)
