"""Deblurring without a network on the same road: any image in, the same image deblurred out.

Not for: the method itself (optics.deconvolution).
"""

from __future__ import annotations

from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.arrays import Plane, as_array, layout_for, read_plane
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, resolve_range, restore_into
from napari_kpac.engine.recipe import Recipe
from napari_kpac.engine.work import Made
from napari_kpac.optics.deconvolution import restore_steps

STEPS_PER_PLANE = 100
"""Nobody knows beforehand how many levels of blur an image has: progress is in percent."""


class ClassicalWork:
    """Deblurring with an estimated defocus map: gives ``sigma`` and no attention."""

    scale = 1
    by_chunk = False

    def __init__(
        self,
        image: Any,
        options: DeblurOptions,
        modulation: Modulation,
        pixel_range: PixelRange | None = None,
    ) -> None:
        if not modulation.is_neutral:
            raise ConfigError("method 'ebdb' has no attention to steer; only the strength applies")
        self.array = as_array(image)
        self.layout = layout_for(self.array, options)
        self.range = pixel_range or resolve_range(options.range, self.layout, (self.array,))
        self.options, self.modulation = options, modulation

    def load(self, plane: Plane) -> PlaneReader:
        """Read an image."""
        return PlaneReader(read_plane(self.array, plane), None, self.range, 1)

    def deblur(
        self, plane: Plane, reader: PlaneReader, out: Any, number: int, count: int
    ) -> Steps[Made]:
        """Estimate the blur of an image, and undo it."""
        start = Progress(number * STEPS_PER_PLANE, count * STEPS_PER_PLANE, "estimating")
        yield start
        whole = Rect(0, reader.height, 0, reader.width)
        residual, sigma = yield from _deblur(reader, whole, start)
        change = residual * self.modulation.strength
        restore_into(out, self.array, plane, whole, reader, change)
        return Made(_recipe(self.options, self.modulation, self.range), sigma=sigma)


def _deblur(
    reader: PlaneReader, whole: Rect, start: Progress
) -> Steps[tuple[torch.Tensor, npt.NDArray[np.float32]]]:
    """Deblur one image; returns the residual in network values and the defocus map."""
    image = (reader.read(whole)[0].permute(1, 2, 0).numpy() + 1) / 2
    unit = np.clip(image[..., 0] if reader.channels == 1 else image, 0, 1)
    steps = restore_steps(unit.astype(np.float32))
    while True:
        try:
            progress = next(steps)
        except StopIteration as stop:
            found = stop.value
            break
        done = start.done + progress.done * STEPS_PER_PLANE // progress.total
        yield replace(start, done=done, stage=progress.stage)
    change = np.asarray(found.image, np.float32) - unit
    change = change[..., None] if reader.channels == 1 else change
    residual = torch.from_numpy(2 * change).permute(2, 0, 1)[None].expand(1, 3, -1, -1)
    return residual, np.asarray(found.sigma, np.float32)


def _recipe(options: DeblurOptions, modulation: Modulation, pixel_range: PixelRange) -> Recipe:
    environment = {"range": asdict(pixel_range), "napari_kpac": version("napari-kpac")}
    return Recipe(options, modulation, "", "", environment)
