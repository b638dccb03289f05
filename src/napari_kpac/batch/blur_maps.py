"""Blur maps of many files, with masks, tables of regions and scores.

A file counts as one plane here: one threshold is found for all planes of a stack. Not for: the
maps themselves (detection).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.batch.executor import run_steps
from napari_kpac.batch.files import (
    FileAction,
    FileInfo,
    OpenFile,
    Output,
    files_beside,
    model_sha256,
    open_arrays,
)
from napari_kpac.batch.inputs import Item, Name, plan_items
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Outcome, Report
from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import DetectionOptions, MapKind
from napari_kpac.core.progress import Steps
from napari_kpac.detection import (
    Detection,
    detect_steps,
    measure_regions,
    region_table,
    score,
)
from napari_kpac.detection.estimators import Planes
from napari_kpac.detection.files import SUFFIXES, export, export_table, settings_name
from napari_kpac.images import local_file

_ENVIRONMENT = ("model", "device", "tile", "memory")
"""Options that do not change a map, or (the model) are compared by their content."""


def blur_map_files(
    inputs: Iterable[Name],
    output: Name,
    options: DetectionOptions | None = None,
    batch: BatchOptions | None = None,
    *,
    left: Name | None = None,
    right: Name | None = None,
    kind: MapKind | None = None,
    mask: Name | None = None,
    regions: Name | None = None,
    **about: Any,
) -> Steps[Report]:
    """Write blur maps of files; also masks and tables of regions, where they are named.

    ``about`` are further fields of the action: opacity, slice, scale, units, truth
    and polarity.
    """
    batch, options = batch or BatchOptions(), options or DetectionOptions()
    every = tuple(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    wanted = SUFFIXES[kind] if kind else every
    name = f"-{settings_name(options)}"
    inputs = list(inputs)

    def items(where: Name, tail: str, suffixes: tuple[str, ...], suffix: str | None) -> list[Item]:
        return plan_items(inputs, where, left, right, suffixes=suffixes, tail=tail, suffix=suffix)

    maps = items(output, name, wanted, wanted[0] if kind else None)

    def beside(others: list[Item]) -> dict[Path, Path]:
        both = zip(maps, others, strict=True)
        return {local_file(item.target): local_file(other.target) for item, other in both}

    action = BlurMapAction(
        options=options,
        recorded_options=options,
        overwrite=batch.overwrite,
        kind=kind,
        masks=beside(items(mask, f"{name}-mask", every, ".png")) if mask else {},
        tables=beside(items(regions, f"{name}-regions", (".csv",), ".csv")) if regions else {},
        **about,
    )
    return (yield from run_steps(maps, action, batch))


@dataclass(frozen=True, eq=False, kw_only=True)
class BlurMapAction(FileAction):
    """Writes the blur map of every file."""

    recorded_options: DetectionOptions
    """The options as they were given, not as a worker has them."""
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

    def is_done(self, item: Item) -> bool:
        """Return True if map, mask and table are there; scores are always computed again."""
        extra = [where[local_file(item.target)] for where in (self.masks, self.tables) if where]
        return super().is_done(item) and self.truth is None and all(map(_first_file, extra))

    def find_result(self, item: Item) -> Path | None:
        """Return the map, or that of a stack's first slice, if it is there."""
        return _first_file(local_file(item.target))

    def has_same_settings(self, record: Any) -> bool:
        """Return True if a map was computed with the same options and weights."""
        try:
            found = {k: v for k, v in record["blur map"].items() if k not in _ENVIRONMENT}
            wanted = {k: v for k, v in self.options.to_dict().items() if k not in _ENVIRONMENT}
            sha256 = model_sha256(self.options)
            return bool(found == wanted and record["model"]["sha256"] == sha256)
        except (KeyError, TypeError, AttributeError):
            return False

    def is_one_plane(self, item: Item) -> bool:  # noqa: ARG002 - whatever it is
        """Return True: every file counts as one."""
        return True

    def open(self, item: Item, pixel_range: Any = None) -> OpenFile:  # noqa: ARG002
        """Load the file or pair, or one slice."""
        with ExitStack() as handles:
            image, views, metadata = open_arrays(item, handles, whole=True)
        arrays = [each for each in (image, *(views or ())) if each is not None]
        info = FileInfo(
            tuple(arrays[0].shape),
            np.dtype(arrays[0].dtype),
            metadata,
            plane_bytes=sum(int(each.nbytes) for each in arrays),
        )
        return OpenFile(info, (self._cut(image), views and tuple(map(self._cut, views))))

    def _cut(self, image: Any) -> Any:
        """Return the wanted slice of a stack."""
        if image is None or self.slice is None:
            return image
        leading = Planes.of(image, self.options).layout.leading
        if len(self.slice) != len(leading) or any(np.greater_equal(self.slice, leading)):
            wanted = ",".join(map(str, self.slice))
            raise ImageError(f"there is no slice {wanted}: the leading axes have sizes {leading}")
        return image[self.slice]

    def load(self, file: OpenFile, plane: int) -> Any:
        """Do nothing: the pixels were loaded with the file."""

    def compute(
        self,
        file: OpenFile,
        plane: int,  # noqa: ARG002
        loaded: Any,  # noqa: ARG002
        pixels: Any = None,  # noqa: ARG002
    ) -> Steps[tuple[Detection, Any]]:
        """Measure blur; returns it with the image."""
        image, views = file.content
        found = yield from detect_steps(image, self.options, views=views)
        found = replace(found, options=self.recorded_options)
        return found, views[0] if image is None else image

    def output(self, item: Item, info: FileInfo) -> Output:
        """Begin the files of an item."""
        return BlurMapOutput(item, info, self)


class BlurMapOutput(Output):
    """Map, mask and table of one item."""

    def __init__(self, item: Item, info: FileInfo, action: BlurMapAction) -> None:
        self.item, self.action = item, action
        self.size: dict[str, Any] = {"scale": action.scale, "units": action.units}
        known = info.metadata.image_scale
        if action.scale is None and action.units is None and known is not None:
            self.size = {"scale": known[0], "units": known[1]}

    def add(self, plane: tuple[Detection, Any]) -> None:
        """Keep the map: all files are written together."""
        self.found, self.image = plane

    def finish(self) -> Outcome:
        """Compute the scores; write map, mask and table."""
        action, found = self.action, self.found
        scores = {}
        if action.truth is not None:
            threshold = action.options.threshold
            report = score(found.values, action.truth, action.polarity, threshold=threshold)
            scores = {"scores": report.to_dict()}
        about = {
            "image": self.image,
            "description": json.dumps(found.to_dict()),
            "opacity": action.opacity,
            "reading": action.options,
            **self.size,
        }
        target = local_file(self.item.target)
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
            "note": found.note,
            **scores,
        }
        return Outcome(self.item, "made", tuple(written), record=record)


def _first_file(path: Path) -> Path | None:
    """Return a file if it is there, or the first of a stack's slices; all of these come at once."""
    return path if path.exists() else next(files_beside(path, r"(-0+)+"), None)
