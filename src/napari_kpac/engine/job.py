"""Jobs: an image, a method and options made ready, so that its planes are deblurred one by one.

Planes may be deblurred in any order and in any process. Not for: whole images in one call
(deblurring.py), or files (batch).
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, replace
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.options import DeblurOptions, ImageOptions, parse_memory
from napari_kpac.core.progress import Progress, StepCounter, Steps, of_all, relay
from napari_kpac.engine.arrays import (
    ChunkedPlane,
    Layout,
    Maps,
    Plane,
    as_array,
    is_read_by_chunk,
    layout_for,
    plane_output,
    read_plane,
    write_plane,
)
from napari_kpac.engine.backend import Backend
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.device import (
    Model,
    card_of,
    model_name,
    prepare_network,
    resolve,
)
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.engine.levels import Workspace
from napari_kpac.engine.memory import (
    SHORTAGES,
    has_given_up,
    in_new_thread,
    is_memory_error,
)
from napari_kpac.engine.modulation import Modulation, block_modulations
from napari_kpac.engine.pixels import (
    PixelRange,
    PlaneReader,
    Rect,
    Strength,
    check_finite,
    enlarged,
    padded_size,
    resolve_range,
    restore_pixels,
)
from napari_kpac.engine.recipe import PlaneResult, Recipe, check_image, recorded_plan
from napari_kpac.engine.stages import Bands, Stages
from napari_kpac.engine.tiling import Plan, TimeCost, make_plan
from napari_kpac.images import read_values
from napari_kpac.optics.deconvolution import TWO_STEP_SETTINGS, fitting_blur, restore_steps
from napari_kpac.optics.pixels import Floats, check_map
from napari_kpac.weights.store import IMPORTED, UPSAMPLING, ModelCard

T = TypeVar("T")
Options = TypeVar("Options", bound=ImageOptions)
Views = tuple[Any, Any] | None

CHUNKED_SHARE = 0.05
"""Of the memory budget: a plane that takes more is read chunk by chunk, if it can be."""
LARGE_PLANE_BYTES = 64_000_000
"""Larger planes are processed one at a time, however many may be ``held``."""
CLASSICAL_STEPS = 100
"""Nobody knows beforehand how many levels of blur a plane has: progress is in percent."""
ESTIMATING_STEPS = 40
"""Of these, for estimating the blur."""


class _Unset:
    def __repr__(self) -> str:
        return "<as in options>"


UNSET: Any = _Unset()
"""Default of keywords that stand for a field of options."""


def options_of(
    kind: type[Options],
    options: Options | None,
    *,
    model: Model | None = None,
    device: str | None = None,
    **fields: Any,
) -> Options:
    """Return options in which the keywords that were given replace their own fields.

    None for model and device, and UNSET for all others, mean that they were not given.
    """
    if options is not None and not isinstance(options, kind):
        raise ConfigError(f"options must be {kind.__name__}, not {type(options).__name__}")
    given = {name: value for name, value in fields.items() if value is not UNSET}
    if model is not None:
        given["model"] = model_name(model)
    if device is not None:
        given["device"] = device
    return replace(options or kind(), **given)


@lru_cache(maxsize=1)
def _version() -> str:
    return version("napari-kpac")


class Job:
    """An image, a network and options made ready.

    Parameters
    ----------
    image, options, modulation, views, model
        As for :func:`napari_kpac.deblur_steps`.
    plan
        In place of what the memory budget would lead to.
    pixel_range
        What the range rule gave, where that is known.
    recorded
        Environment of a recipe, whose plan is used where it fits.
    held
        Planes in memory at a time, for the memory budget: the one that is worked on, its
        result, and what a batch reads ahead or has still to write.
    mirrored
        Continue planes by reflection on all sides, as far as the encoder sees: its zero padding
        then shows nowhere. Not for deblurring, where the result would be that of other networks.

    Attributes
    ----------
    plan
        What is used now; after a shortage of memory a smaller one.
    spare
        Buffers that the stages of one plane leave to those of the next.
    by_chunk
        Whether planes stay where they are and are read in parts.
    enlarge
        Whole factor by which planes are enlarged first.
    scale
        Pixels per cell of alpha.
    margin
        Pixels on each side that planes are continued by.
    """

    def __init__(
        self,
        image: Any,
        options: ImageOptions,
        modulation: Modulation | None = None,
        *,
        views: Views = None,
        model: Model | None = None,
        plan: Plan | None = None,
        pixel_range: PixelRange | None = None,
        recorded: Mapping[str, Any] | None = None,
        held: int = 2,
        mirrored: bool = False,
    ) -> None:
        self.options, self.modulation = options, modulation or Modulation()
        self.device = resolve(options.device)
        self.spare: list[Workspace] = []
        self.backend = Backend(self.device, mixed=options.precision == "mixed")
        self.net = prepare_network(options.model if model is None else model, self.device)
        self.scale = self.net.config.multiple
        self.margin = self.net.halos.encode if mirrored else 0
        self._set_image(image, views)
        self.layout = layout_for(self.first, options)
        for view in self.views or ():
            if tuple(view.shape) != self.layout.shape:
                raise ImageError(
                    "the views and the image must have the same shape: "
                    f"{tuple(view.shape)} is not {self.layout.shape}"
                )
            layout_for(view, options)
        sources = (self.views or ()) if self.array is None else (self.array,)
        if pixel_range is None:
            check_finite(self.layout, sources)
        self.range = pixel_range or resolve_range(options.range, self.layout, sources)
        self.modulation.check(self.net.config, self.layout.size, self.layout.leading)
        pixels = math.prod(self.layout.size)
        self.enlarge = options.upsampling_factor(pixels, best_upsampling(card_of(self.net)))
        budget = parse_memory(options.memory, self.backend.free_memory())
        self.by_chunk = (
            self.enlarge == 1
            and self.layout.plane_bytes > CHUNKED_SHARE * budget
            and all(is_read_by_chunk(each, self.layout) for each in (*sources, *(self.views or ())))
        )
        self.plan = plan or self._make_plan(budget, held)
        if recorded is not None:
            if pixel_range is None:
                check_image(options, recorded, self.layout, sources, self.plan)
            self.plan = recorded_plan(recorded, self.plan, self.scale)

    def _make_plan(self, budget: int, held: int) -> Plan:
        height, width = (side * self.enlarge for side in self.layout.size)
        # On an accelerator the image in network values and its residual.
        values = height * width * 3 * next(self.net.parameters()).element_size()
        height, width = self.layout.size
        # What is read by chunk is not held; its result may be.
        if self.by_chunk:
            held = 1
        elif self.layout.plane_bytes > LARGE_PLANE_BYTES:
            held = 2
        return make_plan(
            padded_size((self.enlarge * height, self.enlarge * width), self.scale, self.margin),
            self.net.config,
            halo=self.net.halos.encode,
            tile=self.options.tile,
            budget=budget,
            item_size=next(self.net.parameters()).element_size(),
            held=2 * values if self.backend.is_accelerator else held * self.layout.plane_bytes,
            banded=not self.backend.is_accelerator,
            time=TimeCost(self.net.work, self.backend.flops_per_second()),
        )

    def _set_image(self, image: Any, views: Views) -> None:
        """Set the image (or None), the views (or None), and the first of those there are."""
        if views is not None:
            if not isinstance(views, tuple | list) or len(views) != 2:
                raise ImageError("views must be a pair: (left, right)")
            views = (as_array(views[0]), as_array(views[1]))
        if self.net.config.views == 2 and views is None:
            raise ImageError(
                "this model takes a dual-pixel pair: give its left and its right view, or choose a"
                " model for single images"
            )
        if self.net.config.views == 1 and views is not None:
            raise ImageError("this model takes one image and no views; choose a dual-pixel model")
        if image is None and views is None:
            raise ImageError("there is no image")
        self.array = None if image is None else as_array(image)
        self.views = views
        self.first = views[0] if self.array is None and views is not None else self.array

    def load(self, plane: Plane) -> PlaneReader:
        """Read a plane; large ones are only opened. May be done ahead, in another thread."""

        def pixels(array: Any) -> Any:
            if self.by_chunk:
                return ChunkedPlane(array, plane, self.layout)
            return enlarged(read_plane(array, plane), self.enlarge)

        return PlaneReader(
            None if self.array is None else pixels(self.array),
            None if self.views is None else (pixels(self.views[0]), pixels(self.views[1])),
            self.range,
            self.scale,
            next(self.net.parameters()).dtype,
            self.margin,
        )

    def stages(self, reader: PlaneReader) -> Stages:
        """Return the stages of the network on a plane, by the present plan."""
        return Stages(self.net, reader, self.plan, self.backend, spare=self.spare)

    def within_memory(
        self, attempt: Callable[[], Steps[T]], forget: Callable[[], None] | None = None
    ) -> Steps[T]:
        """Make an attempt; where memory runs short, say so and try again with a smaller plan.

        ``forget`` frees what an attempt has kept.
        """
        elsewhere = False
        while True:
            try:
                return (yield from in_new_thread(attempt()) if elsewhere else attempt())
            except SHORTAGES as error:
                if not is_memory_error(error):
                    raise
                elsewhere = elsewhere or has_given_up(error)
            # Only here, where the error and what it held on to are gone.
            if forget is not None:
                forget()
            self.spare.clear()
            self.backend.release()
            self.plan = self.plan.smaller(self.net.config)
            yield Progress(0, 2 * self.plan.tile_count + 1, "encode", self.plan.shortage_note)

    def deblur(
        self, plane: Plane, reader: PlaneReader, out: Any = None, *, decode: bool = True
    ) -> Steps[PlaneResult]:
        """Deblur a plane; where memory runs short, in smaller tiles.

        Parameters
        ----------
        plane, reader
            One of the layout's planes, and what :meth:`load` returned for it.
        out
            Of the shape of the image: pixels are written to their place. None: they are
            returned.
        decode
            False: only alpha and beta are wanted; no pixels are made.
        """
        target = plane_output(self.layout, plane) if out is None and decode else out
        modulation = self.modulation.at(plane.indices[0])

        def attempt() -> Steps[tuple[Maps, Maps]]:
            plan, mods = self.plan, None
            if not modulation.is_neutral:
                mods = block_modulations(modulation, self.net.config, reader.padded)
            with closing(self.stages(reader)) as stages:
                bottleneck = Bottleneck(stages)
                tiles = (2 if decode else 1) * plan.tile_count
                report = StepCounter(tiles + bottleneck.steps).report
                yield from relay(stages.encode(), partial(report, "encode"))
                entered, alphas, betas = yield from relay(
                    bottleneck.run(mods), partial(report, "blocks")
                )
                for tile, steps in _parts(stages, entered) if decode else ():
                    residual = yield from relay(steps, partial(report, "decode"))
                    rect = tile.clipped(reader.height, reader.width)
                    residual = residual[:, :, : rect.height, : rect.width]
                    strength = modulation.strength_in(rect)
                    _write(self, plane, rect, reader, residual, strength, target, out is None)
            download = partial(self.backend.download, dtype=torch.float32)
            return as_numpy(download(torch.cat(alphas))), as_numpy(download(torch.cat(betas)))

        alpha, beta = yield from self.within_memory(attempt)
        pixels = target if out is None else None
        return PlaneResult(self.recipe(self.modulation), pixels, alpha, beta)

    def recipe(self, modulation: Modulation) -> Recipe:
        """Return how a result was made, so that it can be made again anywhere."""
        card = card_of(self.net)
        environment = {
            "device": str(self.device),
            "threads": torch.get_num_threads(),
            "plan": self.plan.to_dict(),
            "precision": str(self.backend.half or torch.float32).split(".")[1],
            "range": asdict(self.range),
            "napari_kpac": _version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
        }
        options = cast("DeblurOptions", self.options)  # blur maps have no recipe
        return Recipe(
            options,
            modulation,
            card.name,
            card.sha256,
            environment,
            model_version=card.version,
        )


def best_upsampling(card: ModelCard) -> int:
    """Return by how much images are best enlarged for a model's blur map.

    What its card says; where that says nothing, 4 for the authors' weights, as in the paper, and 1
    for all others, since alpha saturates in enlarged images unless a model was trained on blur
    that large.
    """
    fallback = 4 if card.status == IMPORTED else 1
    found = int(card.settings.get(UPSAMPLING, fallback))
    return found if found in (1, 2, 4) else fallback


class ClassicalJob:
    """The same for the methods in two steps: a defocus map, then deconvolution; no attention.

    Takes all that a :class:`Job` takes, and ``sigma``, the defocus map of method ``map``: the blur
    in pixels of sigma as one number, a map (H, W), one map for each slice, or a file of them. What
    only concerns the network is ignored.
    """

    scale = 1
    by_chunk = False

    def __init__(
        self,
        image: Any,
        options: DeblurOptions,
        modulation: Modulation | None = None,
        *,
        views: Views = None,
        pixel_range: PixelRange | None = None,
        recorded: Mapping[str, Any] | None = None,
        model: Model | None = None,
        sigma: Any = None,
        **_: Any,
    ) -> None:
        self.options, self.modulation = options, modulation or Modulation()
        if views is not None:
            raise ImageError(f"method {options.method!r} takes one image and no views")
        check_classical(options, self.modulation)
        self.estimator = None
        if options.method != "map":
            model = options.model if model is None else model
            self.estimator = prepare_estimator(
                options.method, model, options.device, options.memory
            )
        self.first = as_array(image)
        self.layout = layout_for(self.first, options)
        self.modulation.check_labels(self.layout.size, self.layout.leading)
        if pixel_range is None:
            check_finite(self.layout, (self.first,))
            if recorded is not None:
                check_image(options, recorded, self.layout, (self.first,))
        self.range = pixel_range or resolve_range(options.range, self.layout, (self.first,))
        self.sigma = check_sigma(options, sigma, self.layout)

    def load(self, plane: Plane) -> PlaneReader:
        """Read a plane."""
        return PlaneReader(read_plane(self.first, plane), None, self.range, 1)

    def deblur(self, plane: Plane, reader: PlaneReader, out: Any = None) -> Steps[PlaneResult]:
        """Estimate the blur of a plane, and undo it; see :meth:`Job.deblur`."""
        target = plane_output(self.layout, plane) if out is None else out
        yield Progress(0, CLASSICAL_STEPS, "estimating")
        rect = Rect(0, reader.height, 0, reader.width)
        image = (reader.read(rect)[0, : reader.channels].permute(1, 2, 0).numpy() + 1) / 2
        unit = np.clip(image[..., 0] if reader.channels == 1 else image, 0, 1)

        sigma = yield from self._sigma_of(plane, unit.astype(np.float32))
        percent = partial(_in_percent, ESTIMATING_STEPS, CLASSICAL_STEPS)
        settings = TWO_STEP_SETTINGS[self.options.deconvolution]
        steps = restore_steps(unit.astype(np.float32), settings, sigma=sigma)
        found = yield from relay(steps, percent)
        change = 2 * (np.asarray(found.image, np.float32) - unit)
        change = change.reshape(*change.shape[:2], reader.channels)
        residual = torch.from_numpy(change).permute(2, 0, 1)[None].expand(1, 3, -1, -1)
        strength = self.modulation.at(plane.indices[0]).strength_in(rect)
        _write(self, plane, rect, reader, residual, strength, target, out is None)
        environment = {"range": asdict(self.range), "napari_kpac": _version()}
        name, sha256 = "", ""
        if self.estimator is not None:
            name, sha256 = self.estimator.model_name, self.estimator.model_sha256
        return PlaneResult(
            Recipe(self.options, self.modulation, name, sha256, environment),
            target if out is None else None,
            sigma=np.asarray(found.sigma, np.float32),
        )

    def _sigma_of(self, plane: Plane, image: Floats) -> Steps[Floats]:
        """Return the defocus map of a plane: the one that was given, or what is estimated."""
        if self.estimator is None:
            if self.sigma.ndim == 2:
                return self.sigma
            given: Floats = self.sigma[plane.indices[0]]
            return given
        percent = partial(_in_percent, 0, ESTIMATING_STEPS)
        return fitting_blur((yield from relay(self.estimator.estimate(image), percent)))


def _in_percent(first: int, last: int, progress: Progress) -> Progress:
    """Return the progress of a part of the work that takes from ``first`` to ``last`` percent."""
    done = first + progress.done * (last - first) // progress.total
    return Progress(done, CLASSICAL_STEPS, progress.stage)


def check_classical(options: DeblurOptions, modulation: Modulation) -> None:
    """Raise where a modulation asks for what methods in two steps do not have."""
    if not modulation.is_neutral:
        raise ConfigError(
            f"method {options.method!r} has no attention to steer; only the strength applies"
        )


def check_sigma(options: DeblurOptions, sigma: Any, layout: Layout) -> Floats:
    """Return the defocus map that was given: (H, W), or one for each slice; raise if it is bad."""
    if (sigma is None) == (options.method == "map"):
        raise ConfigError(
            "method 'map' needs a defocus map, the blur in pixels of sigma (sigma)"
            if sigma is None
            else f"a defocus map goes with method 'map', not with {options.method!r}"
        )
    if sigma is None:
        return np.empty((0, 0), np.float32)
    given = np.asarray(read_values(Path(sigma)) if isinstance(sigma, str | Path) else sigma)
    leading = layout.leading if layout.rgb_channels is None else ()
    whole = (*leading, *layout.size)
    blur = check_map(given, whole if given.ndim > 2 else layout.size, "defocus map")
    if blur.min() < 0:
        raise ImageError(f"the defocus map has values below 0, down to {blur.min():g} pixels")
    return blur


def each_plane(
    job: Job | ClassicalJob, work: Callable[[Plane, PlaneReader], Steps[T]]
) -> Steps[list[T]]:
    """Do work on all planes of an image, one after the other; returns what it returned."""
    planes = list(job.layout.planes())
    results = []
    for number, plane in enumerate(planes):
        steps = work(plane, job.load(plane))
        results.append((yield from relay(steps, partial(of_all, number, len(planes)))))
    return results


def _parts(stages: Stages, entered: Tensor) -> Iterator[tuple[Rect, Bands]]:
    """Iterate over what is decoded and written at a time: tiles, or all of an accelerator's."""
    plan = stages.plan
    whole = (Rect(0, plan.height, 0, plan.width),)
    for rect in whole if stages.keeps_image else plan.tiles():
        yield rect, stages.decode_all(entered, rect)


def _write(
    job: Job | ClassicalJob,
    plane: Plane,
    rect: Rect,
    reader: PlaneReader,
    residual: Tensor,
    strength: Strength,
    target: Any,
    alone: bool,
) -> None:
    """Write the deblurred pixels of a rectangle to the image, or to an array of the plane alone."""
    dtype = np.dtype(target.dtype)
    pixels = restore_pixels(reader, job.first, plane, rect, residual, dtype, strength)
    write_plane(target, plane, rect.slices, pixels, alone=alone)


def as_numpy(x: Tensor) -> Maps:
    """Return a map in single precision, on the CPU."""
    return x.float().cpu().numpy()
