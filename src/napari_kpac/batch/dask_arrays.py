"""Deblurring of dask arrays that stays lazy: a ``dask.array`` in, a ``dask.array`` out.

For people with their own pipelines. Not for: files (deblur.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from napari_kpac.core.errors import ImageError, require
from napari_kpac.core.progress import finish
from napari_kpac.engine import DeblurOptions, Modulation, deblur_steps
from napari_kpac.engine.arrays import Array, Layout, layout_for
from napari_kpac.engine.pixels import has_finite, needs_data, resolve_range, sampling_step


def deblur_dask(
    image: Any,
    options: DeblurOptions | None = None,
    modulation: Modulation | None = None,
    *,
    views: tuple[Any, Any] | None = None,
) -> Any:
    """Deblur a dask array when, and as far as, the result is looked at.

    The result has one block per plane, since the attention needs the plane whole; planes are
    made in any order, by whatever dask scheduler computes them, and napari can show them while
    others are still to come. Where the range rule needs the data (see the option ``range``), a
    sample of all planes is computed first, once.

    Parameters
    ----------
    image
        A ``dask.array``; None together with ``views``.
    options, modulation
        As for :func:`napari_kpac.deblur_steps`.
    views
        The views of a dual-pixel camera, dask arrays as well.

    Returns
    -------
    dask.array.Array
        Of the same shape and dtype.
    """
    dask = require("dask", "distributed", "a lazy result")
    da = require("dask.array", "distributed", "a lazy result")
    options = options or DeblurOptions()
    given = [*(() if image is None else (image,)), *(views or ())]
    if not given or not all(isinstance(array, da.Array) for array in given):
        raise ImageError("deblur_dask takes dask arrays; use deblur for others")
    layout = layout_for(given[0], options)
    if any(array.shape != layout.shape for array in given):
        raise ImageError("the views and the image must have the same shape")
    sources = list(views or ()) if image is None else [image]
    samples = [_sampled(array, layout) for array in sources]
    if needs_data(options.range, layout.dtype):
        pixel_range = dask.delayed(_range)(options.range, layout, samples)
    else:
        pixel_range = _range(options.range, layout, sources)
    blocks = [array.rechunk(_chunks(layout)) for array in given]
    return da.map_blocks(
        _deblur_block,
        *blocks,
        dtype=layout.dtype,
        meta=np.empty((0,) * len(layout.shape), layout.dtype),
        has_image=image is not None,
        options=options,
        modulation=modulation,
        pixel_range=pixel_range,
    )


def _deblur_block(
    *blocks: Array,
    has_image: bool,
    options: DeblurOptions,
    modulation: Modulation | None,
    pixel_range: tuple[float, float],
) -> Array:
    image = blocks[0] if has_image else None
    pair = blocks[1:] if has_image else blocks
    views = (pair[0], pair[1]) if pair else None
    if not has_finite(layout_for(blocks[0], options), blocks):
        return blocks[0]  # an empty plane does not stop the others
    exact = replace(options, range=pixel_range)
    result: Array = finish(deblur_steps(image, exact, modulation, views=views)).image
    return result


def _range(rule: Any, layout: Layout, samples: list[Array]) -> tuple[float, float]:
    taken = replace(layout, shape=tuple(samples[0].shape))
    found = resolve_range(rule, taken, samples, step=1)
    return found.low, found.high


def _sampled(array: Any, layout: Layout) -> Any:
    """Take what the range rule would look at, still lazily."""
    every = slice(None, None, sampling_step(layout))
    return array[(*(slice(None),) * len(layout.leading), every, every)]


def _chunks(layout: Layout) -> tuple[int, ...]:
    """Return one block per plane; channels that make up a colour image stay together."""
    leading = [1] * len(layout.leading)
    if layout.rgb_channels is not None and layout.channel_axis is not None:
        leading[layout.channel_axis] = -1
    return (*leading, *(-1,) * (len(layout.shape) - len(leading)))
