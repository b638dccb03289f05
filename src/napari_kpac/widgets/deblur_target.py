"""Parts of the Deblur widget: the pixels of a run, and what it computes in a thread.

Not for: controls and results (deblur.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image

from napari_kpac.core.errors import ConfigError, NotReadyError, for_people
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps, relay
from napari_kpac.widgets.layers import Part, Region, moved, placement, region_within

STEPS_PER_LAYER = 1000
"""Where there are several layers, the progress of each is shown in so many steps."""


@dataclass(frozen=True, eq=False)
class Pixels:
    """What a thread gets of a layer: it must not hold on to the layer itself."""

    name: str
    data: Any
    options: DeblurOptions
    views: tuple[Any, Any] | None = None
    region: Region | None = None
    sampled: bool = False
    """Whether a sample of the image stands for all of it, where only a region is wanted."""
    sigma: Any = None
    """The defocus map of one's own."""


@dataclass(frozen=True, eq=False)
class Target:
    """What one run works on: a layer, or a part of it."""

    layer: Image
    scope: str
    index: tuple[int, ...]
    pixels: Pixels

    @property
    def part(self) -> Part:
        """Which part of the layer's pixels the result covers."""
        if self.scope == "all":
            return ()
        lead = tuple(slice(n, n + 1) for n in self.index)
        if self.pixels.region is None:
            return lead
        top, bottom, left, right = self.pixels.region
        return (*lead, slice(top, bottom), slice(left, right))

    def placed(self, pixels: Any) -> tuple[Any, dict[str, Any]]:
        """Return a result with all axes of its layer, and where it lies."""
        if self.scope == "all":
            return pixels, placement(self.layer)
        top, _, left, _ = self.pixels.region or (0, 0, 0, 0)
        lead = (np.newaxis,) * len(self.index)
        return pixels[lead], moved(self.layer, (*self.index, top, left))


@dataclass(frozen=True, eq=False)
class Run:
    """The work under way."""

    targets: list[Target]
    model: str
    """What makes the results, for their keys."""
    name: str
    """Of what is made, for the names of layers."""
    ended: list[int] = field(default_factory=list)
    """Numbers of the targets that have a result, or a reason why not."""
    made: list[str] = field(default_factory=list)
    """Names of the layers with results."""
    said: list[str] = field(default_factory=list)
    """What else is to be told at the end."""


@dataclass(frozen=True)
class LayerProgress(Progress):
    """A step of a run over layers; the last step of each has its result, or why there is none."""

    number: int | None = None
    """Which layer has ended, counted from 0; None while it is under way."""
    result: Any = None
    problem: str = ""


Deblur = Callable[[Pixels], Steps[Any]]
"""Deblurs the pixels of a layer, step by step."""


def deblur_pixels(pixels: Pixels) -> Steps[Any]:
    """Run the engine; loads torch on first use, so call it in a thread."""
    from napari_kpac.engine import Session, deblur_steps

    if pixels.region is None:
        return (
            yield from deblur_steps(
                pixels.data, pixels.options, views=pixels.views, sigma=pixels.sigma
            )
        )
    with closing(Session(pixels.data, options=pixels.options, views=pixels.views)) as session:
        return (yield from session.render_steps(region=pixels.region, sampled=pixels.sampled))


def apply_recipe(path: Path, pixels: Pixels) -> Steps[Any]:
    """Replay a recipe: it says how; only device and memory budget are those of the pixels."""
    from napari_kpac.engine import load_recipe, replay_steps
    from napari_kpac.weights import load

    recipe = load_recipe(path)
    own = pixels.options
    options = replace(recipe.options, device=own.device, memory=own.memory)
    if options.rgb is None:
        options = replace(options, rgb=own.rgb)
    views = pixels.views
    if options.method != "kpac" or load(options.model).config.views == 1:
        views = None
    elif views is None:
        raise NotReadyError(
            "the model of this recipe takes the two views of a dual-pixel camera: choose their "
            "layers as left view and right view"
        )
    return (yield from replay_steps(pixels.data, replace(recipe, options=options), views=views))


def each_layer(deblur: Deblur, layers: Sequence[Pixels]) -> Steps[None]:
    """Deblur layers one after the other; an error ends one of several alone."""
    each = STEPS_PER_LAYER
    for number, pixels in enumerate(layers):

        def change(step: Progress, number: int = number, name: str = pixels.name) -> Progress:
            if len(layers) == 1:
                return step
            done = round(each * (number + step.done / max(1, step.total)))
            return LayerProgress(done, each * len(layers), f"{name}, {step.stage}", step.note)

        result, problem = None, ""
        try:
            result = yield from relay(deblur(pixels), change)
        except Exception as error:
            if len(layers) == 1:
                raise
            problem = for_people(error)
        done, total = each * (number + 1), each * len(layers)
        yield LayerProgress(done, total, f"{pixels.name}, done", "", number, result, problem)


def selected_rectangle(layer: Image, shapes: Any) -> Region:
    """Return the region of an image that a shapes layer's rectangle covers."""
    if shapes is None or len(shapes.data) == 0:
        raise NotReadyError("draw a rectangle in a shapes layer first, and choose that layer")
    chosen = sorted(shapes.selected_data)
    corners = shapes.data[chosen[-1] if chosen else -1]
    points = np.array([layer.world_to_data(shapes.data_to_world(corner)) for corner in corners])
    region = region_within(layer, points.min(axis=0), points.max(axis=0))
    if region is None:
        raise ConfigError("the rectangle lies outside the image: draw it on the image")
    return region
