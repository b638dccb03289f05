"""Deblur any image: the one road from pixels to pixels.

Not for: windows and files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Steps, finish
from napari_kpac.engine.allocator import keeping_memory
from napari_kpac.engine.arrays import output_for
from napari_kpac.engine.classical import ClassicalWork
from napari_kpac.engine.job import model_name
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.engine.model import Model
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.pixels import PixelRange
from napari_kpac.engine.plan import Plan
from napari_kpac.engine.recipe import Recipe, Result, check_model
from napari_kpac.engine.work import Made, NetworkWork, Work


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
    with explaining_shortage():
        work = prepare_work(image, options, modulation, views=views, model=model, plan=plan)
        return (yield from _steps(work, image, out))


def _steps(work: Work, image: Any, out: Any) -> Steps[Result]:
    out = output_for(work.layout, out, image)
    planes = list(work.layout.planes())
    found = []
    with keeping_memory():
        for number, plane in enumerate(planes):
            steps = work.deblur(plane, work.load(plane), out, number, len(planes))
            found.append((yield from steps))
    return _result(work, out, found)


def replay(
    image: Any,
    recipe: Recipe,
    model: Model | None = None,
    *,
    views: tuple[Any, Any] | None = None,
    out: Any = None,
) -> Result:
    """Make an image by a recipe from :func:`napari_kpac.load_recipe`.

    The recorded plan is used where it fits: with the same device and number of threads the
    result is the same bit by bit, otherwise within 1e-5 or one grey level.

    Parameters
    ----------
    image, views, out
        As for :func:`deblur`.
    recipe
        How to do it.
    model
        In place of the recipe's own. Without it, the installed model must be the one that the
        recipe was made with.
    """
    options = recipe.options
    if model is None:
        check_model(recipe, options.model)
    else:
        options = replace(options, model=model_name(model))
    recorded = recipe.environment
    with explaining_shortage():
        work = prepare_work(
            image, options, recipe.modulation, views=views, model=model, recorded=recorded
        )
        return finish(_steps(work, image, out))


def prepare_work(
    image: Any,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    *,
    views: tuple[Any, Any] | None = None,
    model: Model | None = None,
    plan: Plan | None = None,
    pixel_range: PixelRange | None = None,
    recorded: Mapping[str, Any] | None = None,
    held: int = 2,
) -> Work:
    """Look at an image, so that its images can be deblurred one by one.

    ``pixel_range`` is what the range rule gave, where that is known; ``recorded`` is the
    environment of a recipe, whose plan is used where it fits; ``held`` says how many images
    are in memory at a time, for the memory budget.
    """
    options = options or DeblurOptions()
    modulation = modulation or Modulation()
    if options.method == "ebdb":
        if views is not None:
            raise ImageError("method 'ebdb' takes one image and no views")
        return ClassicalWork(image, options, modulation, pixel_range)
    return NetworkWork(
        image,
        options,
        modulation,
        views=views,
        model=model,
        plan=plan,
        pixel_range=pixel_range,
        recorded=recorded,
        held=held,
    )


def _result(work: Work, out: Any, made: list[Made]) -> Result:
    layout = work.layout
    leading = layout.leading if layout.rgb_channels is None else (len(made),)

    def stacked(name: str) -> Any:
        maps = [getattr(each, name) for each in made]
        return None if maps[0] is None else np.stack(maps).reshape(*leading, *maps[0].shape)

    nothing = np.empty((0, 0), np.float32)
    alpha, beta = stacked("alpha"), stacked("beta")
    return Result(
        image=out,
        alpha=nothing if alpha is None else alpha,
        beta=nothing if beta is None else beta,
        recipe=made[-1].recipe,
        size=layout.size,
        scale=work.scale,
        sigma=stacked("sigma"),
    )
