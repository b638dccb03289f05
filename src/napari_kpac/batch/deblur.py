"""Deblurs many files, or writes their attention maps.

Not for: the network (engine); how a batch is run (executor.py, cluster.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.batch.executor import run_steps
from napari_kpac.batch.files import (
    FileAction,
    FileInfo,
    OpenFile,
    Output,
    SharedOutput,
    check_sources,
    files_beside,
    model_sha256,
    modified,
    open_arrays,
)
from napari_kpac.batch.inputs import Item, Name, plan_items
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.record import PlaneRecord
from napari_kpac.batch.report import Outcome, Report
from napari_kpac.core.errors import ConfigError, FileError, RecipeError
from napari_kpac.core.files import put_in_place, temporary_beside
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine import DeblurOptions, Modulation, Recipe
from napari_kpac.engine.arrays import Array
from napari_kpac.engine.deblurring import prepare_job
from napari_kpac.engine.device import card_of, prepare_network, resolve
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.engine.job import check_classical
from napari_kpac.engine.recipe import check_model, recorded_threads, upsample
from napari_kpac.images import (
    WRITABLE,
    ZARR,
    Location,
    RemotePath,
    description_of,
    local_file,
    read_values,
    start_image,
    write_image,
    write_map,
)
from napari_kpac.images.zarr_target import RECORD_FOLDER, WholeChunks, ZarrRegion, ZarrTarget

MAX_COLLECTED_BYTES = 64_000_000
"""The pixels of larger stacks are not collected in memory."""
IMAGES_OVERLAPPING = 5
"""Small images in memory: one read ahead, one computed and its result, one being written, and
what decoding takes."""
IMAGES_ONE_BY_ONE = 2
SOURCE = "source"
"""Key in the record of an attention map for the name of the file that it belongs to."""


def deblur_files(
    inputs: Iterable[Name],
    output: Name | None = None,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    batch: BatchOptions | None = None,
    *,
    left: Name | None = None,
    right: Name | None = None,
    recipe: Recipe | None = None,
    defocus_map: Name | None = None,
    sigma_map: Name | None = None,
) -> Steps[Report]:
    """Deblur files, yielding progress; returns a report with the outcome of each.

    Parameters
    ----------
    inputs
        Files, folders (searched to the bottom), or patterns. Empty together with ``left`` and
        ``right``: the mean of the views stands for the image.
    output
        A file for one image, else a folder. None: ``NAME-deblurred`` beside the one image, where
        nothing of that name may be unless the batch overwrites.
    options, modulation
        As for :func:`napari_kpac.deblur_steps`.
    batch
        How to run it: what to skip, on which cluster, ...
    left, right
        The views of a dual-pixel camera: two files, or two folders.
    recipe
        Replay this one: it gives options and modulation unless those are given too.
    defocus_map
        With one image and an estimator as the method: where to write the blur that was found.
    sigma_map
        With one image and method ``map``: a file of the blur in pixels of sigma, float TIFF or
        any image file that holds such values.
    """
    batch = batch or BatchOptions()
    if recipe is not None:
        options = options or recipe.options
        modulation = modulation or recipe.modulation
        changed = check_model(recipe, options.model)
        if changed:
            yield Progress(0, 1, "model", changed)
        if batch.threads is None:
            batch = replace(batch, threads=recorded_threads(recipe.environment))
    options = options or DeblurOptions()
    items = plan_items(
        inputs,
        output,
        left,
        right,
        suffixes=WRITABLE,
        tail="-deblurred" if output is None else "",
        suffix=batch.to,
        fallback=".tif",
    )
    if output is None and items[0].target.exists() and not batch.overwrite:
        raise FileError(
            f"{items[0].target} is there already; name another output, or choose the option "
            "overwrite to replace it"
        )
    if defocus_map is not None and (options.method == "kpac" or len(items) > 1):
        raise ConfigError("a defocus map goes with one image and a method that estimates the blur")
    if (sigma_map is None) == (options.method == "map") or (sigma_map and len(items) > 1):
        raise ConfigError(
            "a map of sigma goes with method map and one image, and that method needs one"
        )
    action = DeblurAction.prepare(
        options,
        modulation,
        batch,
        sigma=None if sigma_map is None else read_values(local_file(sigma_map)),
        environment=None if recipe is None else recipe.environment,
        defocus_map=None if defocus_map is None else local_file(defocus_map),
    )
    return (yield from run_steps(items, action, batch))


def attention_files(
    inputs: Iterable[Name],
    output: Name,
    options: DeblurOptions | None = None,
    batch: BatchOptions | None = None,
    *,
    left: Name | None = None,
    right: Name | None = None,
    suffix: str = ".png",
) -> Steps[Report]:
    """Write the attention maps of files into a folder, as ``.png`` (8 bits) or ``.tif`` (float)."""
    batch, options = batch or BatchOptions(), options or DeblurOptions()
    if options.method != "kpac":
        raise ConfigError(f"method {options.method!r} has no attention; choose method 'kpac'")
    items = plan_items(inputs, output, left, right, suffixes=(), suffix=suffix)
    action = AttentionAction.prepare(options, batch=batch)
    return (yield from run_steps(items, action, batch))


DeblurredPlane = tuple[Recipe, Mapping[tuple[int, ...], Array], Array | None]
"""Recipe, pixels by index along the leading axes (none where they went into the output directly),
and sigma of the classical method."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeblurAction(FileAction):
    """Deblurs every file."""

    recipe: Recipe
    """What results record; its environment is that of a recipe that is replayed."""
    images_in_memory: int
    defocus_map: Path | None = None
    """Where to write the blur that was estimated."""
    sigma: Array | None = None
    """The blur of method ``map``."""

    @classmethod
    def prepare(
        cls,
        options: DeblurOptions,
        modulation: Modulation | None = None,
        batch: BatchOptions | None = None,
        environment: Mapping[str, Any] | None = None,
        defocus_map: Path | None = None,
        sigma: Array | None = None,
    ) -> DeblurAction:
        """Load the model, so that a mistake shows before any file is opened."""
        modulation, batch = modulation or Modulation(), batch or BatchOptions()
        name, sha256, version = "", "", ""
        if options.method == "kpac":
            net = prepare_network(options.model, resolve(options.device))
            modulation.check(net.config)
            card = card_of(net)
            name, sha256, version = card.name, card.sha256, card.version
        else:
            check_classical(options, modulation)
            if options.method != "map":
                found = prepare_estimator(options.method, options.model, options.device)
                name, sha256 = found.model_name, found.model_sha256
        overlapping = batch.overlap and not batch.on_cluster
        return cls(
            options=options,
            overwrite=batch.overwrite,
            recipe=Recipe(
                options, modulation, name, sha256, environment or {}, model_version=version
            ),
            images_in_memory=IMAGES_OVERLAPPING if overlapping else IMAGES_ONE_BY_ONE,
            defocus_map=defocus_map,
            sigma=sigma,
        )

    def is_done(self, item: Item) -> bool:
        """Return True if the result is there; not with a map of one's own, which may be new."""
        return self.sigma is None and super().is_done(item)

    def find_result(self, item: Item) -> Location | None:
        """Return the deblurred file if it is there."""
        return item.target if item.target.exists() else None

    def has_same_settings(self, record: Any) -> bool:
        """Return True if a result has the fingerprint of this action."""
        return isinstance(record, dict) and record.get("fingerprint") == self.recipe.fingerprint

    def open(self, item: Item, pixel_range: Any = None) -> OpenFile:
        """Open the file or pair."""
        sha256 = self.recipe.model_sha256
        if sha256 and model_sha256(self.options) != sha256:
            raise RecipeError(
                f"the model {self.options.model!r} is another one here than where the batch was "
                "started; install the same on every machine"
            )
        with ExitStack() as handles:
            image, views, metadata = open_arrays(item, handles)
            job = prepare_job(
                image,
                self.options,
                self.recipe.modulation,
                views=views,
                pixel_range=pixel_range,
                recorded=self.recipe.environment or None,
                held=self.images_in_memory,
                sigma=self.sigma,
            )
            shape, dtype = job.layout.shape, job.layout.dtype
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            planes = list(job.layout.planes())
            info = FileInfo(
                shape,
                dtype,
                metadata,
                len(planes),
                len(job.layout.leading),
                0 if job.by_chunk else size // max(1, int(np.prod(job.layout.leading))),
                streamed=job.by_chunk or (len(planes) > 1 and size > MAX_COLLECTED_BYTES),
                pixel_range=job.range,
            )
            return OpenFile(info, (job, planes), handles.pop_all())

    def load(self, file: OpenFile, plane: int) -> Any:
        """Read a plane; large ones are only opened."""
        job, planes = file.content
        return job.load(planes[plane])

    def compute(self, file: OpenFile, plane: int, loaded: Any, pixels: Any = None) -> Steps[Any]:
        """Deblur a plane."""
        job, planes = file.content
        # Files take whole planes, except for those that are too large to be held.
        direct = isinstance(pixels, np.ndarray) or (pixels is not None and job.by_chunk)
        result = yield from job.deblur(planes[plane], loaded, pixels if direct else None)
        parts = {} if direct else dict(zip(planes[plane].indices, result.pixels, strict=True))
        recipe = replace(result.recipe, options=self.recipe.options)
        return recipe, parts, result.sigma

    def output(self, item: Item, info: FileInfo) -> Output:
        """Begin a file of the same kind."""
        return DeblurOutput(item, info, self.defocus_map)

    def shared_output(self, item: Item, info: FileInfo) -> SharedOutput | None:
        """Return a Zarr image that workers can write, if no two planes share a chunk."""
        if item.target.suffix.lower() not in ZARR or self.defocus_map is not None:
            return None
        output = SharedDeblurOutput(item, info, self)
        return output if output.target.chunks_hold_one_plane(info.leading) else None

    def write_plane(
        self, file: OpenFile, plane: int, loaded: Any, region: ZarrRegion
    ) -> Steps[dict[str, Any]]:
        """Deblur a plane into its region of a Zarr image."""
        out = WholeChunks(region.open())
        recipe, parts, _ = yield from self.compute(file, plane, loaded, out)
        write_parts(out, parts)
        return dict(recipe.environment)


class DeblurOutput(Output):
    """A deblurred file while it is being written."""

    def __init__(self, item: Item, info: FileInfo, defocus_map: Path | None) -> None:
        self.item, self.defocus_map = item, defocus_map
        self.target = start_image(
            item.target, info.shape, info.dtype, info.metadata, streamed=info.streamed
        )
        self.pixels = self.target.out
        self.recipe: Recipe | None = None
        self.sigmas: list[Array] = []

    def add(self, plane: DeblurredPlane) -> None:
        """Write the pixels of a plane."""
        self.recipe, parts, sigma = plane
        write_parts(self.target.out, parts)
        if self.defocus_map is not None and sigma is not None:
            self.sigmas.append(sigma)

    def finish(self) -> Outcome:
        """Write the file, with its recipe, and rename it to its target."""
        assert self.recipe is not None  # noqa: S101 - every file has a plane
        self.pixels = None
        self.target.finish(json.dumps(self.recipe.to_dict()))
        written = [self.item.target]
        if self.defocus_map is not None:
            sigma = self.sigmas[0] if len(self.sigmas) == 1 else np.stack(self.sigmas)
            note = f"blur in pixels of sigma ({self.recipe.options.method})"
            written.append(write_image(self.defocus_map, sigma, note))
        return Outcome(self.item, "made", tuple(written), recipe=self.recipe)

    def discard(self) -> None:
        """Remove the unfinished file."""
        self.pixels = None
        self.target.discard()


def write_parts(out: Any, parts: Mapping[tuple[int, ...], Array]) -> None:
    """Write pixels by their index along the leading axes."""
    for index, pixels in parts.items():
        out[(*index, ...)] = pixels


class SharedDeblurOutput(SharedOutput):
    """A deblurred Zarr image whose planes are written by workers.

    Until it is complete it lies in a hidden folder beside its name, or, at a URL, has no
    description and is no image.
    """

    def __init__(self, item: Item, info: FileInfo, action: DeblurAction) -> None:
        self.item, self.action = item, action
        place = item.target
        if not isinstance(place, RemotePath):
            place = place.with_name(f".{place.name}.unfinished")
        self.target = ZarrTarget(item.target, info.shape, info.dtype, info.metadata, place)
        settings = {
            "fingerprint": action.recipe.fingerprint,
            "shape": info.shape,
            "dtype": str(info.dtype),
            "sources": [(str(path), modified(path)) for path in item.files],
        }
        self.record = PlaneRecord(place / RECORD_FOLDER, settings)

    def begin(self) -> ZarrRegion:
        """Go on with what an earlier run has done, unless the batch overwrites."""
        if self.action.overwrite or not self.record.resume():
            self.target.clear()
            self.record.begin()
        return self.target.region

    def finish(self) -> Outcome:
        """Write the recipe, and let the image appear."""
        check_sources(self.item)
        self.record.flush()
        recipe = replace(self.action.recipe, environment=self.record.environment)
        self.target.finish(json.dumps(recipe.to_dict()))
        return Outcome(self.item, "made", (self.item.target,), recipe=recipe)


PlaneAttention = tuple[tuple[int, ...], npt.NDArray[np.float32], Recipe]
"""Index along the leading axes, maps (blocks, dilations, H, W), and recipe."""


class AttentionAction(DeblurAction):
    """Writes alpha of every block and dilation; all names begin as the target's does."""

    def announced(self, item: Item) -> Location:
        """Return a pattern for the names of the maps."""
        return item.target.with_name(f"{item.target.stem}-*alpha*{item.target.suffix}")

    def shared_output(self, item: Item, info: FileInfo) -> SharedOutput | None:  # noqa: ARG002
        """Return None: the maps of all planes appear together."""
        return None

    def find_result(self, item: Item) -> Location | None:
        """Return the first map if it is there; all of a file's appear together."""
        for path in files_beside(local_file(item.target), r"(-\d+)*-block1-alpha1"):
            # Slice 0 of s.tif and s-0.tif share a name: the maps name their source.
            record = description_of(path)
            if isinstance(record, dict) and record.get(SOURCE) == item.first.name:
                return path
        return None

    def compute(
        self,
        file: OpenFile,
        plane: int,
        loaded: Any,
        pixels: Any = None,  # noqa: ARG002 - the deblurred image is not wanted
    ) -> Steps[Any]:
        """Run the network over a plane and keep its attention."""
        job, planes = file.content
        result = yield from job.deblur(planes[plane], loaded, decode=False)
        index = planes[plane].indices[0] if job.layout.rgb_channels is None else (plane,)
        maps = upsample(result.alpha, job.scale, job.layout.size)
        recipe = replace(result.recipe, options=self.recipe.options)
        return index, maps, recipe

    def output(self, item: Item, info: FileInfo) -> Output:  # noqa: ARG002 - maps fit everywhere
        """Begin the maps of a file."""
        return AttentionOutput(item)


class AttentionOutput(Output):
    """The maps of a file, under temporary names until all are there."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.recipe: Recipe | None = None
        self.files: dict[Path, Path] = {}
        """Targets, by temporary name."""

    def add(self, plane: PlaneAttention) -> None:
        """Write the maps of a plane."""
        index, maps, self.recipe = plane
        note = json.dumps({**self.recipe.to_dict(), SOURCE: self.item.first.name})
        place = "".join(f"-{n}" for n in index)
        for block, dilation in np.ndindex(maps.shape[:2]):
            name = f"{self.item.target.stem}{place}-block{block + 1}-alpha{dilation + 1}"
            target = local_file(self.item.target).with_name(f"{name}{self.item.target.suffix}")
            temporary = temporary_beside(target, target.suffix)
            self.files[temporary] = target
            write_map(temporary, maps[block, dilation], note)

    def finish(self) -> Outcome:
        """Rename all files to their targets."""
        for temporary, target in self.files.items():
            put_in_place(temporary, target)
        written = tuple(self.files.values())
        record = {"output": [str(path) for path in written]}
        return Outcome(self.item, "made", written, record=record, recipe=self.recipe)

    def discard(self) -> None:
        """Remove the temporary files."""
        for temporary in self.files:
            temporary.unlink(missing_ok=True)
