"""Layers as image files in a run's folder, so that the run can be resumed without them.

Not for: choosing the layers (source.py). Loads torch: for threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import ImageOptions
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.arrays import as_array, layout_for, read_plane
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, resolve_range
from napari_kpac.images import write_image
from napari_kpac.optics.pixels import from_unit
from napari_kpac.widgets.train.source import ChosenData, LayerData


def write_layers(chosen: ChosenData, folder: Path) -> Steps[None]:
    """Write every image of the chosen layers, as the network would see it.

    Photographs go into the folder, pairs into ``blurred`` and ``sharp`` below it, with one
    range of values for both of a pair.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose another run folder for the layers")
    jobs: list[tuple[LayerData, LayerData, Path, str]] = []
    if chosen.blurred is not None:
        (sharp,) = chosen.sharp
        jobs = [
            (chosen.blurred, chosen.blurred, folder / "blurred", ""),
            (sharp, chosen.blurred, folder / "sharp", ""),
        ]
    else:
        jobs = [
            (layer, layer, folder, f"{number:02d}-") for number, layer in enumerate(chosen.sharp)
        ]
    totals = [len(list(_layout(layer).planes())) for layer, *_ in jobs]
    done, total = 0, sum(totals)
    for layer, measured, place, prefix in jobs:
        values = resolve_range("auto", _layout(measured), [as_array(measured.data)])
        for number, image in enumerate(_images(layer, values)):
            write_image(place / f"{prefix}{number:04d}.png", image)
            done += 1
            yield Progress(done, total, "writing the layers")


def _images(layer: LayerData, values: PixelRange) -> Iterator[npt.NDArray[Any]]:
    array = as_array(layer.data)
    depth = np.uint8 if array.dtype == np.uint8 else np.uint16
    for plane in _layout(layer).planes():
        reader = PlaneReader(read_plane(array, plane), None, values, 1)
        seen = reader.read(Rect(0, reader.height, 0, reader.width))
        yield from_unit((seen[0].permute(1, 2, 0).numpy() + 1) / 2, depth)


def _layout(layer: LayerData) -> Any:
    return layout_for(as_array(layer.data), ImageOptions(rgb=layer.rgb))
