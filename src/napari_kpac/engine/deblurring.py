"""Deblur any image: the one road from pixels to pixels.

Not for: windows and files.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from napari_kpac.engine import device as devices
from napari_kpac.engine.allocator import is_active, keeping_memory
from napari_kpac.engine.arrays import (
    Layout,
    Plane,
    as_array,
    layout_for,
    layout_of,
    output_for,
    read_plane,
)
from napari_kpac.engine.classical import classical_steps
from napari_kpac.engine.model import Model, card_of, prepare
from napari_kpac.engine.modulation import Modulation, block_modulations
from napari_kpac.engine.pixels import (
    PixelRange,
    PlaneReader,
    check_views,
    enlarged,
    resolve_range,
    restore_into,
)
from napari_kpac.engine.plan import Plan, make_plan
from napari_kpac.engine.recipe import Recipe
from napari_kpac.engine.result import Result
from napari_kpac.engine.staged import StagedRun, stores
from napari_kpac.errors import ImageError
from napari_kpac.network import KPACNet
from napari_kpac.options import DeblurOptions, ImageOptions, parse_memory
from napari_kpac.progress import Progress, Steps, finish

T = TypeVar("T")


def deblur(
    image: Any,
    model: Model = "default",
    device: str = "auto",
    modulation: Modulation | None = None,
    tile: Any = "auto",
    memory: Any = None,
    *,
    views: tuple[Any, Any] | None = None,
    out: Any = None,
    **options: Any,
) -> Result:
    """Deblur an image.

    Parameters
    ----------
    image
        Any real image: 8- or 16-bit or floating point; grey, RGB or RGBA (last axis); with
        leading axes for time, z or channels, which are processed slice by slice; a NumPy,
        dask, zarr or xarray array, or a multiscale list of them. None together with
        ``views``: their mean stands for it.
    model
        A name, a path, or a network from :func:`napari_kpac.load`.
    device
        ``auto``, ``cpu``, ``cuda:0``, ``mps``, ``xpu:0``.
    modulation
        How to steer the network, see :class:`Modulation`.
    tile
        Side of a tile, ``auto``, or None for one piece. It changes memory and time, not
        the result.
    memory
        Memory budget: bytes, or a text like ``4 GB``. None: a safe share of what is free.
    views
        The left and right view of a dual-pixel camera, for dual-pixel models.
    out
        Where to put the result: anything of the image's shape that can be assigned to.
    **options
        Further fields of :class:`DeblurOptions`: range, rgb, channel_axis, rgb_channels,
        precision, and method: ``kpac``, or ``ebdb`` for the classical way without a network.

    Returns
    -------
    Result
        With ``image`` of the same shape and dtype as the input.
    """
    chosen = DeblurOptions(
        model=model_name(model), device=device, tile=tile, memory=memory, **options
    )
    return finish(deblur_steps(image, chosen, modulation, views=views, out=out, model=model))


def deblur_steps(
    image: Any,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    *,
    views: tuple[Any, Any] | None = None,
    out: Any = None,
    model: Model | None = None,
    plan: Plan | None = None,
) -> Steps[Result]:
    """Do the same step by step: yields progress after every tile, returns the result.

    Closing the generator cancels the work. ``model`` overrides the name in the options,
    ``plan`` what the memory budget would lead to (for measurements).
    """
    options = options or DeblurOptions()
    modulation = modulation or Modulation()
    if options.method == "ebdb":
        if views is not None:
            raise ImageError("method 'ebdb' takes one image and no views")
        return (yield from classical_steps(image, options, modulation, out))
    job = Job.prepare(image, options, views=views, model=model)
    modulation.check(job.net.config, job.layout.size)
    out = output_for(job.layout, out, image)
    planes = list(job.layout.planes())
    plan = plan or job.plan()
    found = []
    with keeping_memory():
        for number, plane in enumerate(planes):

            def attempt(
                plan: Plan, number: int = number, plane: Plane = plane
            ) -> Steps[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
                start = Progress(number * plan.steps, len(planes) * plan.steps, "encode")
                return _deblur_plane(job, plane, plan, modulation, out, start)

            maps, plan = yield from within_memory(job, plan, attempt)
            found.append(maps)
        recipe = job.recipe(modulation, plan)
    alphas, betas = zip(*found, strict=True)
    leading = job.layout.leading if job.layout.rgb_channels is None else (len(planes),)
    return Result(
        image=out,
        alpha=np.stack(alphas).reshape(*leading, *alphas[0].shape),
        beta=np.stack(betas).reshape(*leading, *betas[0].shape),
        recipe=recipe,
        size=job.layout.size,
        scale=job.net.config.multiple,
    )


def within_memory(
    job: Job, plan: Plan, attempt: Callable[[Plan], Steps[T]]
) -> Steps[tuple[T, Plan]]:
    """Make an attempt; where memory runs short, say so and try again with a smaller plan.

    Returns what the attempt returned and the plan that worked.
    """
    while True:
        try:
            return (yield from attempt(plan)), plan
        except (MemoryError, RuntimeError) as error:
            if not devices.is_memory_error(error):
                raise
        devices.release(job.device)
        plan = plan.smaller(job.net.config)
        note = f"memory ran short; going on with tiles of {plan.tile} pixels"
        yield Progress(0, plan.steps, "encode", note)


@dataclass(frozen=True, eq=False)
class Job:
    """An image, a network and options, made ready: what all actions on images begin with."""

    array: Any
    views: tuple[Any, Any] | None
    layout: Layout
    net: KPACNet
    device: torch.device
    range: PixelRange
    options: ImageOptions

    @classmethod
    def prepare(
        cls,
        image: Any,
        options: ImageOptions,
        *,
        views: tuple[Any, Any] | None = None,
        model: Model | None = None,
    ) -> Job:
        """Look at the image, load the network, choose device and range."""
        device = devices.resolve(options.device)
        net = prepare(options.model if model is None else model, device)
        if views is not None:
            if not isinstance(views, tuple | list) or len(views) != 2:
                raise ImageError("views must be a pair: (left, right)")
            views = (as_array(views[0]), as_array(views[1]))
        if net.config.views == 2 and views is None:
            raise ImageError(
                "this model takes a dual-pixel pair: give views=(left, right), or choose a "
                "model for single images"
            )
        if net.config.views == 1 and views is not None:
            raise ImageError("this model takes one image and no views; choose a dual-pixel model")
        if image is None and views is None:
            raise ImageError("there is no image")
        array = None if image is None else as_array(image)
        layout = layout_for(views[0] if array is None and views is not None else array, options)
        for view in views or ():
            check_views(view, layout)
            layout_of(view, rgb=options.rgb)
        sources = views if array is None else (array,)
        pixel_range = resolve_range(options.range, layout, sources or ())
        return cls(array, views, layout, net, device, pixel_range, options)

    @property
    def first(self) -> Any:
        """The image, or the left view where there is none."""
        return self.views[0] if self.array is None and self.views is not None else self.array

    def reader(self, plane: Plane, enlarge: int = 1) -> PlaneReader:
        """Load one picture, enlarged by a whole factor."""

        def load(array: Any) -> npt.NDArray[Any]:
            return enlarged(read_plane(array, plane), enlarge)

        return PlaneReader(
            None if self.array is None else load(self.array),
            None if self.views is None else (load(self.views[0]), load(self.views[1])),
            self.range,
            self.net.config.multiple,
            next(self.net.parameters()).dtype,
        )

    def plan(self, size: tuple[int, int] | None = None) -> Plan:
        """Plan for pictures of the image's size, or another."""
        height, width = size or self.layout.size
        multiple = self.net.config.multiple
        budget = parse_memory(self.options.memory, devices.free_memory(self.device))
        return make_plan(
            (height + -height % multiple, width + -width % multiple),
            self.net.config,
            tile=self.options.tile,
            budget=budget,
            item_size=next(self.net.parameters()).element_size(),
            held=2 * self._bytes_per_picture if self.device.type == "cpu" else 0,
        )

    @property
    def _bytes_per_picture(self) -> int:
        height, width = self.layout.size
        channels = 1 if self.layout.colour == "grey" else len(self.layout.colour)
        return height * width * channels * self.layout.dtype.itemsize

    def recipe(self, modulation: Modulation, plan: Plan) -> Recipe:
        """Write down how a result was made, so that it can be made again anywhere."""
        card = card_of(self.net)
        names = [item.name for item in fields(DeblurOptions) if hasattr(self.options, item.name)]
        options = DeblurOptions(**{name: getattr(self.options, name) for name in names})
        environment = {
            "device": str(self.device),
            "threads": torch.get_num_threads(),
            "plan": plan.to_dict(),
            "range": asdict(self.range),
            "allocator": is_active(),
            "napari_kpac": _version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
        }
        return Recipe(options, modulation, card.name, card.sha256, environment)


@lru_cache(maxsize=1)
def _version() -> str:
    return version("napari-kpac")


def model_name(model: Model) -> str:
    """Return what stands for a model in options: its name or path."""
    return card_of(model).name if isinstance(model, KPACNet) else str(model)


def _deblur_plane(
    job: Job, plane: Plane, plan: Plan, modulation: Modulation, out: Any, start: Progress
) -> Steps[tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]]:
    """Deblur one picture into ``out``; returns alpha and beta."""
    reader = job.reader(plane)
    config = job.net.config
    blocks = None
    if not modulation.is_neutral:
        blocks = block_modulations(modulation, config, reader.padded)
    home = torch.device("cpu") if plan.scratch else job.device
    with stores(plan, home, reader.dtype) as make:
        run = StagedRun(
            job.net, reader, plan, job.device, make, mixed=job.options.precision == "mixed"
        )
        done = start.done
        for _ in run.encode(plan.kept_skips):
            done += 1
            yield replace(start, done=done)
        entered, alphas, betas = run.bottleneck(blocks)
        done += 1
        yield replace(start, done=done, stage="blocks")
        for tile in plan.tiles():
            visible = tile.clipped(reader.height, reader.width)
            residual = run.decode_rect(entered, tile, run.halves)
            residual = residual[:, :, : visible.height, : visible.width]
            restore_into(out, job.first, plane, visible, reader, residual * modulation.strength)
            done += 1
            yield replace(start, done=done, stage="decode")
    return (
        torch.cat(alphas).float().cpu().numpy(),
        torch.cat(betas).float().cpu().numpy(),
    )
