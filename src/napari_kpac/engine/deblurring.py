"""Deblur any image: the one road from pixels to pixels.

Not for: windows and files.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Steps, finish, relay
from napari_kpac.engine.arrays import output_for
from napari_kpac.engine.containers import image_like
from napari_kpac.engine.device import Model, model_name
from napari_kpac.engine.job import UNSET, ClassicalJob, Job, Views, each_plane, options_of
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.recipe import PlaneResult, Recipe, Result, check_model
from napari_kpac.engine.tiling import Plan


def deblur(
    image: Any,
    model: Model | None = None,
    device: str | None = None,
    modulation: Modulation | None = None,
    tile: Any = UNSET,
    memory: Any = UNSET,
    *,
    views: Views = None,
    out: Any = None,
    sigma: Any = None,
    options: DeblurOptions | None = None,
    **fields: Any,
) -> Result:
    """Deblur an image.

    Parameters
    ----------
    image
        Any real image: 8- or 16-bit or floating point; grey, RGB or RGBA (last axis); with
        leading axes for time, z or channels, which are processed slice by slice; a NumPy,
        dask, zarr or xarray array, a torch tensor, a pint quantity, or a multiscale list of
        arrays. The colours of a tensor of shape (3, H, W) are named by ``channel_axis=0,
        rgb_channels=(0, 1, 2)``. None together with ``views``: their mean stands for it.
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
    sigma
        With ``method="map"``: the blur in pixels of sigma, which is half the radius of a disc. One
        number, a map (H, W), one map for each slice, or the name of a file of them: a float TIFF
        or ``.npy``.
    options
        All options at once; keywords that are given as well replace its fields.
    **fields
        Further fields of :class:`DeblurOptions`: range, rgb, channel_axis, rgb_channels,
        precision, and method: ``kpac``, the name of an estimator of defocus (``ebdb``, ``jnb``)
        whose map is used for deconvolution, or ``map`` for deconvolution with ``sigma``; and
        deconvolution: ``default``, or ``paper`` for the settings of the literature.

    Returns
    -------
    Result
        With ``image`` of the same shape and dtype as the input: an xarray with the same
        dimensions, coordinates and attributes, a quantity with the same units, a tensor on the
        same device, and a NumPy array of everything else. With ``out``, that.
    """
    options = options_of(
        DeblurOptions, options, model=model, device=device, tile=tile, memory=memory, **fields
    )
    steps = deblur_steps(image, options, modulation, views=views, out=out, model=model, sigma=sigma)
    return _as_given(finish(steps), image, views, out)


def deblur_steps(
    image: Any,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    *,
    views: Views = None,
    out: Any = None,
    model: Model | None = None,
    plan: Plan | None = None,
    recorded: Mapping[str, Any] | None = None,
    sigma: Any = None,
) -> Steps[Result]:
    """Do the same step by step: yields progress in every tile, returns the result.

    The image of the result is ``out``, or a NumPy array, whatever the input was. Closing the
    generator cancels the work. ``model`` overrides the name in the options, ``plan`` what the
    memory budget would lead to (for measurements), ``recorded`` is the environment of a recipe,
    whose plan is used where it fits.
    """
    with explaining_shortage():
        job = prepare_job(
            image,
            options,
            modulation,
            views=views,
            model=model,
            plan=plan,
            recorded=recorded,
            sigma=sigma,
        )
        out = output_for(job.layout, out, job.first)
        results = yield from each_plane(job, partial(job.deblur, out=out))
        return _joined(job, out, results)


def replay(
    image: Any,
    recipe: Recipe,
    model: Model | None = None,
    *,
    views: Views = None,
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
        In place of the recipe's own. Without it, an installed model must be the one that the
        recipe was made with; a bundled model of another version gives a warning.
    """
    if model is None and (changed := check_model(recipe, recipe.options.model)):
        warnings.warn(changed, stacklevel=2)
    result = finish(replay_steps(image, recipe, model, views=views, out=out))
    return _as_given(result, image, views, out)


def replay_steps(
    image: Any,
    recipe: Recipe,
    model: Model | None = None,
    *,
    views: Views = None,
    out: Any = None,
) -> Steps[Result]:
    """Do the same step by step: yields progress in every tile, returns the result.

    That a bundled model is of another version than the recipe's stands in the notes of the steps.
    """
    options, recorded, changed = recipe.options, recipe.environment, ""
    if model is None:
        changed = check_model(recipe, options.model)
    else:
        options = replace(options, model=model_name(model))
    steps = deblur_steps(
        image, options, recipe.modulation, views=views, out=out, model=model, recorded=recorded
    )
    return (yield from relay(steps, lambda step: replace(step, note=step.note or changed)))


def _as_given(result: Result, image: Any, views: Views, out: Any) -> Result:
    """Return a result whose image is in the container of the input, unless it went to ``out``."""
    if out is not None:
        return result
    given = views[0] if image is None and views is not None else image
    return replace(result, image=image_like(given, result.image))


def prepare_job(
    image: Any,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    sigma: Any = None,
    **settings: Any,
) -> Job | ClassicalJob:
    """Return the job of an image by the method of the options; ``settings`` are a Job's."""
    options = options or DeblurOptions()
    if options.method != "kpac":
        return ClassicalJob(image, options, modulation, sigma=sigma, **settings)
    if sigma is not None:
        raise ConfigError("a defocus map goes with method 'map', not with 'kpac'")
    return Job(image, options, modulation, **settings)


def _joined(job: Job | ClassicalJob, out: Any, results: Sequence[PlaneResult]) -> Result:
    """Return the result of an image from those of its planes."""

    def stacked(name: str, missing: Any = None) -> Any:
        maps = [getattr(each, name) for each in results]
        return missing if maps[0] is None else job.layout.stack(maps)

    nothing = np.empty((0, 0), np.float32)
    return Result(
        image=out,
        alpha=stacked("alpha", nothing),
        beta=stacked("beta", nothing),
        recipe=results[-1].recipe,
        size=job.layout.size,
        scale=job.scale,
        sigma=stacked("sigma"),
    )
