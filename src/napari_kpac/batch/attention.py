"""The attention maps of many files: one map per plane, block and dilation.

Not for: blur maps made of them (blur_maps.py).
"""

from __future__ import annotations

import glob
import json
import re
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.batch.actions import Frame
from napari_kpac.batch.deblurring import DeblurFiles, found_done
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.opening import OpenedFiles
from napari_kpac.batch.report import Outcome
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.files import replacing
from napari_kpac.core.progress import Steps
from napari_kpac.engine.pixels import PlaneReader
from napari_kpac.engine.recipe import Recipe, upsample
from napari_kpac.images import description_of, write_map

SOURCE = "source"
"""Name in the record of a map for the name of the file that it is of."""


class _Nowhere:
    """Takes pixels that nobody wants."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __setitem__(self, place: Any, pixels: Any) -> None:
        pass


@dataclass(frozen=True, eq=False)
class Attended:
    """The attention of a plane, at the resolution of the image."""

    index: tuple[int, ...]
    maps: Any
    """(blocks, dilations, H, W)."""
    recipe: Recipe


@dataclass(frozen=True, eq=False)
class AttentionFiles(DeblurFiles):
    """Write alpha of every block and dilation; an item's target names the first of the files."""

    def steps(
        self,
        opened: OpenedFiles,
        unit: int,
        loaded: PlaneReader,
        out: Any = None,  # noqa: ARG002 - pixels are not wanted
    ) -> Steps[Any]:
        """Run the network over a plane and keep its attention."""
        layout, plane = opened.job.layout, opened.planes[unit]
        made = yield from opened.job.deblur(plane, loaded, _Nowhere(layout.dtype))
        if made.alpha is None:
            raise ConfigError("method 'ebdb' has no attention; choose method 'kpac'")
        index = plane.indices[0] if layout.rgb_channels is None else (unit,)
        maps = upsample(made.alpha, opened.job.scale, layout.size)
        return Attended(index, maps, self._as_asked(made.recipe))

    def is_done(self, item: Item) -> bool:
        """Tell whether the maps are there; all of a file's appear together."""
        stem, suffix = item.target.stem, item.target.suffix
        one = re.compile(rf"{re.escape(stem)}(-\d+)*-block1-alpha1")
        found = item.target.parent.glob(f"{glob.escape(stem)}*-block1-alpha1{suffix}")
        # Slice 0 of s.tif and s-0.tif share a name: the maps say what they are of.
        of_this = (
            path for path in found if one.fullmatch(path.stem) and _source(path) == item.first.name
        )
        first = next(of_this, None)
        return first is not None and found_done(item, first, self.overwrite, self._is_alike)

    def _check_target(self, item: Item, frame: Frame) -> None:
        """Do nothing: maps fit everywhere."""

    def sink(  # type: ignore[override]
        self,
        item: Item,
        frame: Frame,  # noqa: ARG002 - the maps have a shape of their own
    ) -> AttentionSink:
        """Begin the maps of a file."""
        return AttentionSink(item)


class AttentionSink:
    """The maps of a file, under temporary names until all are there."""

    out = None

    def __init__(self, item: Item) -> None:
        self.item = item
        self.written: list[Path] = []
        self.recipe: Recipe | None = None
        self._files = ExitStack()

    def add(self, made: Attended) -> None:
        """Write the maps of a plane."""
        self.recipe = made.recipe
        note = json.dumps({**made.recipe.to_dict(), SOURCE: self.item.first.name})
        place = "".join(f"-{n}" for n in made.index)
        for block, dilation in np.ndindex(made.maps.shape[:2]):
            name = f"{self.item.target.stem}{place}-block{block + 1}-alpha{dilation + 1}"
            target = self.item.target.with_name(f"{name}{self.item.target.suffix}")
            write_map(
                self._files.enter_context(replacing(target)), made.maps[block, dilation], note
            )
            self.written.append(target)

    def finish(self) -> Outcome:
        """Give all files their names."""
        self._files.close()
        record = {"output": [str(path) for path in self.written]}
        return Outcome(self.item, "made", tuple(self.written), record=record, recipe=self.recipe)

    def discard(self) -> None:
        """Leave nothing behind."""
        try:
            with self._files.pop_all():
                raise _DiscardedError
        except _DiscardedError:
            pass


class _DiscardedError(Exception):
    """Tells the files that they are not wanted."""


def _source(path: Path) -> Any:
    record = description_of(path)
    return record.get(SOURCE) if isinstance(record, dict) else None
