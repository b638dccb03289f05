"""Deblurring as an action of batches: files in, files of the same kind out.

Not for: the work (engine), or running batches (running.py, cluster.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac.batch.actions import Frame
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.opening import OpenedFiles, is_single
from napari_kpac.batch.report import Outcome
from napari_kpac.core.errors import FileError, RecipeError
from napari_kpac.core.options import ImageOptions, parse_memory
from napari_kpac.core.progress import Steps
from napari_kpac.engine import DeblurOptions, Modulation, Recipe
from napari_kpac.engine.arrays import Array
from napari_kpac.engine.device import card_of, free_memory, prepare_network, resolve
from napari_kpac.engine.pixels import PlaneReader
from napari_kpac.images import check_target, description_of, start_image, write_image


@dataclass(frozen=True, eq=False)
class Deblurred:
    """A plane that was made: its pixels, unless they went to their place directly."""

    recipe: Recipe
    parts: Mapping[tuple[int, ...], Array] | None
    sigma: Array | None = None


@dataclass(frozen=True, eq=False)
class DeblurFiles:
    """What is done to every file."""

    options: DeblurOptions
    modulation: Modulation
    model_name: str
    model_sha256: str
    recorded: Mapping[str, Any] | None = None
    """Environment of the recipe that is replayed."""
    overwrite: bool = False
    held: int = 2
    """Images in memory at a time."""
    defocus_map: Path | None = None
    """Where to write the blur that the classical method found."""
    asked: DeblurOptions | None = None
    """The options as they were given, where others are used."""

    @classmethod
    def prepare(
        cls, options: DeblurOptions, modulation: Modulation | None = None, **fields: Any
    ) -> DeblurFiles:
        """Look at the model once, so that a mistake shows before any file is touched."""
        modulation = modulation or Modulation()
        name, sha256 = "", ""
        if options.method == "kpac":
            net = prepare_network(options.model, resolve(options.device))
            modulation.check(net.config)
            name, sha256 = card_of(net).name, card_of(net).sha256
        return cls(options, modulation, name, sha256, **fields)

    @property
    def fingerprint(self) -> str:
        """What results of this action carry."""
        recipe = Recipe(self.options, self.modulation, self.model_name, self.model_sha256)
        return recipe.fingerprint

    def sharing(self, processes: int) -> DeblurFiles:
        """Return the same for one of several processes that share the memory of a machine."""
        shared = replace(self.options, memory=shared_memory(self.options, processes))
        return replace(self, options=shared, asked=self.options)

    def is_done(self, item: Item) -> bool:
        """Tell whether the result is there, was made alike, and is newer than its source."""
        return found_done(item, item.target, self.overwrite, self._is_alike)

    def _is_alike(self, record: Any) -> bool:
        return isinstance(record, dict) and record.get("fingerprint") == self.fingerprint

    def has_one_unit(self, item: Item) -> bool:
        """Tell whether a file surely holds one image."""
        return is_single(item)

    def open(self, item: Item, known: Any = None) -> OpenedFiles:
        """Open the file or pair."""
        self._check_model()
        opened = OpenedFiles(
            item, self.options, self.modulation, known=known, recorded=self.recorded, held=self.held
        )
        try:
            self._check_target(item, opened.frame)
        except BaseException:
            opened.close()
            raise
        return opened

    def _check_target(self, item: Item, frame: Frame) -> None:
        """Raise before any work is done for a result that could not be written."""
        check_target(item.target, frame.shape, frame.dtype)

    def load(self, opened: OpenedFiles, unit: int) -> PlaneReader:
        """Read a plane; large ones are only opened."""
        return opened.job.load(opened.planes[unit])

    def steps(
        self, opened: OpenedFiles, unit: int, loaded: PlaneReader, out: Any = None
    ) -> Steps[Deblurred]:
        """Deblur a plane; one that is read by block is written by block too."""
        plane = opened.planes[unit]
        if out is not None and opened.job.by_chunk:
            made = yield from opened.job.deblur(plane, loaded, out)
            return Deblurred(self._as_asked(made.recipe), None)
        made = yield from opened.job.deblur(plane, loaded)
        assert made.pixels is not None  # noqa: S101 - there is no other place for them
        parts = dict(zip(plane.indices, made.pixels, strict=True))
        return Deblurred(self._as_asked(made.recipe), parts, made.sigma)

    def sink(self, item: Item, frame: Frame) -> DeblurSink:
        """Begin a file."""
        return DeblurSink(item, frame, self.defocus_map)

    def _as_asked(self, recipe: Recipe) -> Recipe:
        """Put down the options as they were given, and not as a cluster shared them out."""
        return recipe if self.asked is None else replace(recipe, options=self.asked)

    def _check_model(self) -> None:
        """Raise where a process has other weights under that name than the batch began with."""
        if self.options.method != "kpac":
            return
        card = card_of(prepare_network(self.options.model, resolve(self.options.device)))
        if card.sha256 != self.model_sha256:
            raise RecipeError(
                f"the model {self.options.model!r} is another one here than where the batch was "
                "started; install the same on every machine"
            )


class DeblurSink:
    """A deblurred file while it is being written."""

    def __init__(self, item: Item, frame: Frame, defocus_map: Path | None = None) -> None:
        self.item, self.defocus_map = item, defocus_map
        self.target = start_image(
            item.target, frame.shape, frame.dtype, frame.metadata, streamed=frame.streamed
        )
        self.out = self.target.out
        self.recipe: Recipe | None = None
        self.sigmas: list[Array] = []

    def add(self, made: Deblurred) -> None:
        """Put a plane in its place."""
        self.recipe = made.recipe
        for index, pixels in (made.parts or {}).items():
            self.target.out[(*index, ...)] = pixels
        if self.defocus_map is not None and made.sigma is not None:
            self.sigmas.append(made.sigma)

    def finish(self) -> Outcome:
        """Write the recipe into the file and give it its name."""
        assert self.recipe is not None  # noqa: S101 - every file has a plane
        self.out = None
        self.target.finish(json.dumps(self.recipe.to_dict()))
        written = [self.item.target]
        if self.defocus_map is not None:
            sigma = np.stack(self.sigmas)
            shown = sigma[0] if len(self.sigmas) == 1 else sigma
            note = "blur in pixels of sigma (EBDB)"
            written.append(write_image(self.defocus_map, shown, note))
        return Outcome(self.item, "made", tuple(written), recipe=self.recipe)

    def discard(self) -> None:
        """Leave nothing behind."""
        self.out = None
        self.target.discard()


def shared_memory(options: ImageOptions, processes: int) -> int:
    """Return the memory budget of one of several processes on a machine."""
    return parse_memory(options.memory, free_memory(resolve(options.device))) // processes


def found_done(item: Item, target: Path, overwrite: bool, is_alike: Any) -> bool:
    """Tell whether a result is there; raise where what is there was made otherwise."""
    if overwrite or not target.exists():
        return False
    if not is_alike(description_of(target)):
        raise FileError(
            f"{item.first}: {target} is there already and was not made with these settings; "
            "choose another output, or give --overwrite to replace it"
        )
    made = target.stat().st_mtime
    return all(path.exists() and path.stat().st_mtime <= made for path in item.files)
