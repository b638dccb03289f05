"""Deblurring image by image, in any order and in any process.

An image is looked at once, then its images are made one by one. Not for: whole images in one
call (deblurring.py), or files (batch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from napari_kpac.core.options import ImageOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.arrays import Array, Layout, Plane
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.job import Job
from napari_kpac.engine.memory import within_memory
from napari_kpac.engine.model import Model
from napari_kpac.engine.modulation import Modulation, block_modulations
from napari_kpac.engine.pixels import PixelRange, PlaneReader, restore_into
from napari_kpac.engine.plan import Plan
from napari_kpac.engine.recipe import Recipe, recorded_plan
from napari_kpac.engine.stages import Stages, stores

Maps = npt.NDArray[np.float32]
LARGE = 64_000_000
"""Bytes of an image: larger ones are worked off one at a time, not ``held`` in numbers."""


@dataclass(frozen=True, eq=False)
class Made:
    """What deblurring one image gave besides its pixels."""

    recipe: Recipe
    alpha: Maps | None = None
    """(blocks, dilations, h, w)."""
    beta: Maps | None = None
    """(blocks, channels)."""
    sigma: Maps | None = None
    """(H, W), of the classical method."""


class Work(Protocol):
    """An image whose images can be deblurred one by one."""

    layout: Layout
    range: PixelRange
    by_chunk: bool
    scale: int
    """Pixels per cell of alpha."""

    def load(self, plane: Plane) -> PlaneReader:
        """Read an image; may be done ahead, in another thread."""

    def deblur(
        self, plane: Plane, reader: PlaneReader, out: Any, number: int, count: int
    ) -> Steps[Made]:
        """Deblur an image into its place in ``out``; it is number ``number`` of ``count``."""


class PlaneOut:
    """Stands for a whole result of which the pixels of one image are kept."""

    def __init__(self, layout: Layout, plane: Plane) -> None:
        self.shape = layout.shape
        self.dtype = layout.dtype
        own = layout.shape[len(layout.leading) :]
        self.parts: dict[tuple[int, ...], Array] = {
            index: np.empty(own, layout.dtype) for index in plane.indices
        }

    def __setitem__(self, place: tuple[Any, ...], pixels: Array) -> None:
        start = len(next(iter(self.parts)))
        self.parts[place[:start]][place[start:]] = pixels


class NetworkWork:
    """Deblurring with the network."""

    def __init__(
        self,
        image: Any,
        options: ImageOptions,
        modulation: Modulation,
        *,
        views: tuple[Any, Any] | None = None,
        model: Model | None = None,
        plan: Plan | None = None,
        pixel_range: PixelRange | None = None,
        recorded: Mapping[str, Any] | None = None,
        held: int = 2,
    ) -> None:
        self.job = Job.prepare(image, options, views=views, model=model, pixel_range=pixel_range)
        self.layout, self.range = self.job.layout, self.job.range
        self.by_chunk = self.job.by_chunk
        self.scale = self.job.net.config.multiple
        modulation.check(self.job.net.config, self.layout.size)
        self.modulation = modulation
        # What is read by block is not held; its result may be.
        images = 1 if self.by_chunk else held if self.job.bytes_per_plane <= LARGE else 2
        self.plan = plan or self.job.plan(images=images)
        if recorded is not None:
            self.plan = recorded_plan(recorded, self.plan, self.scale)

    def load(self, plane: Plane) -> PlaneReader:
        """Read an image; large ones are only opened."""
        return self.job.reader(plane)

    def deblur(
        self, plane: Plane, reader: PlaneReader, out: Any, number: int, count: int
    ) -> Steps[Made]:
        """Deblur an image; where memory runs short, in smaller tiles."""

        def attempt(plan: Plan) -> Steps[tuple[Maps, Maps]]:
            start = Progress(number * plan.steps, count * plan.steps, "encode")
            return self._attempt(plane, reader, plan, out, start)

        (alpha, beta), self.plan = yield from within_memory(
            self.job.net.config, self.job.device, self.plan, attempt
        )
        return Made(self.job.recipe(self.modulation, self.plan), alpha, beta)

    def _attempt(
        self, plane: Plane, reader: PlaneReader, plan: Plan, out: Any, start: Progress
    ) -> Steps[tuple[Maps, Maps]]:
        job, modulation = self.job, self.modulation
        blocks = None
        if not modulation.is_neutral:
            blocks = block_modulations(modulation, job.net.config, reader.padded)
        home = torch.device("cpu") if plan.scratch else job.device
        with stores(plan, home, reader.dtype) as make:
            run = Stages(
                job.net, reader, plan, job.device, make, mixed=job.options.precision == "mixed"
            )
            done = start.done
            for _ in run.encode(plan.kept_skips):
                done += 1
                yield replace(start, done=done)
            entered, alphas, betas = Bottleneck(run).run(blocks)
            done += 1
            yield replace(start, done=done, stage="blocks")
            for tile in plan.tiles():
                visible = tile.clipped(reader.height, reader.width)
                residual = run.decode(entered, tile)
                residual = residual[:, :, : visible.height, : visible.width]
                change = residual * modulation.strength
                restore_into(out, job.first, plane, visible, reader, change)
                done += 1
                yield replace(start, done=done, stage="decode")
        return (
            torch.cat(alphas).float().cpu().numpy(),
            torch.cat(betas).float().cpu().numpy(),
        )
