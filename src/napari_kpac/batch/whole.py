"""Whole batches in one call: from files, folders and patterns to a report.

Not for: terminals (cli).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from napari_kpac.batch.attention import AttentionFiles
from napari_kpac.batch.blur_maps import BlurMapFiles
from napari_kpac.batch.deblurring import DeblurFiles
from napari_kpac.batch.inputs import Found, Item, find_images, plan_items
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.report import Report
from napari_kpac.batch.running import run_steps
from napari_kpac.core.errors import FileError
from napari_kpac.core.options import DetectionOptions, MapKind
from napari_kpac.core.progress import Steps
from napari_kpac.detection.files import SUFFIXES as MAP_SUFFIXES
from napari_kpac.detection.files import settings_name
from napari_kpac.engine import DeblurOptions, Modulation, Recipe
from napari_kpac.engine.recipe import check_model, recorded_threads
from napari_kpac.images import WRITABLE

Name = str | os.PathLike[str]
OVERLAPPING = 5
"""Small images in memory: one read ahead, one worked on and its result, one being written, and
what decoding takes."""


def deblur_files(
    inputs: Iterable[Name],
    output: Name,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    batch: BatchOptions | None = None,
    *,
    left: Name | None = None,
    right: Name | None = None,
    recipe: Recipe | None = None,
    defocus_map: Name | None = None,
) -> Steps[Report]:
    """Deblur files, yielding progress; returns a report of what became of each.

    Parameters
    ----------
    inputs
        Files, folders (searched to the bottom), or patterns. Empty together with ``left`` and
        ``right``: the mean of the views stands for the image.
    output
        A file for one image, else a folder.
    options, modulation
        As for :func:`napari_kpac.deblur_steps`.
    batch
        How to run it: what to skip, on which cluster, ...
    left, right
        The views of a dual-pixel camera: two files, or two folders.
    recipe
        Replay this one: it gives options and modulation unless those are given too.
    defocus_map
        With method ``ebdb`` and one image: where to write the blur that was found.
    """
    batch = batch or BatchOptions()
    if recipe is not None:
        options = options or recipe.options
        modulation = modulation or recipe.modulation
        check_model(recipe, options.model)
        if batch.threads is None:
            batch = replace(batch, threads=recorded_threads(recipe.environment))
    options = options or DeblurOptions()
    items = _items(inputs, Path(output), left, right, suffixes=WRITABLE, suffix=batch.to,
                   fallback=".tif")  # fmt: skip
    if defocus_map is not None and (options.method != "ebdb" or len(items) > 1):
        raise FileError("--defocus-map goes with --method ebdb and one image")
    action = DeblurFiles.prepare(
        options,
        modulation,
        recorded=None if recipe is None else recipe.environment,
        overwrite=batch.overwrite,
        held=_held(batch),
        defocus_map=None if defocus_map is None else Path(defocus_map),
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
    batch = batch or BatchOptions()
    items = _items(inputs, Path(output) / "", left, right, suffixes=(), suffix=suffix)
    action = AttentionFiles.prepare(
        options or DeblurOptions(), overwrite=batch.overwrite, held=_held(batch)
    )
    return (yield from run_steps(items, action, batch))


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

    ``about`` are further fields of :class:`BlurMapFiles`: opacity, slice, scale, units, truth
    and polarity.
    """
    batch, options = batch or BatchOptions(), options or DetectionOptions()
    every = tuple(suffix for suffixes in MAP_SUFFIXES.values() for suffix in suffixes)
    wanted = MAP_SUFFIXES[kind] if kind else every
    name = f"-{settings_name(options)}"
    inputs = list(inputs)

    def items(where: Name, tail: str, suffixes: tuple[str, ...], suffix: str | None) -> list[Item]:
        return _items(inputs, Path(where), left, right, suffixes=suffixes, tail=tail, suffix=suffix)

    maps = items(output, name, wanted, wanted[0] if kind else None)

    def beside(made: Sequence[Item]) -> Mapping[Path, Path]:
        return {item.target: other.target for item, other in zip(maps, made, strict=True)}

    masks = beside(items(mask, f"{name}-mask", every, ".png")) if mask else {}
    tables = beside(items(regions, f"{name}-regions", (".csv",), ".csv")) if regions else {}
    action = BlurMapFiles(
        options, kind, masks=dict(masks), tables=dict(tables), overwrite=batch.overwrite, **about
    )
    return (yield from run_steps(maps, action, batch))


def _items(
    inputs: Iterable[Name],
    output: Path,
    left: Name | None,
    right: Name | None,
    **naming: Any,
) -> list[Item]:
    if (left is None) != (right is None):
        raise FileError("--left and --right go together")
    images = find_images(inputs, output)
    views: tuple[list[Found], list[Found]] | None = None
    if left is not None and right is not None:
        views = (find_images([left], output), find_images([right], output))
    if not images and views is None:
        raise FileError("there are no images to work on")
    return plan_items(images, output, views=views, **naming)


def _held(batch: BatchOptions) -> int:
    return OVERLAPPING if batch.overlap and not batch.on_cluster else 2
