"""The steps of a run as the window drives them, in a thread.

Not for: the training itself (training), or showing it (widget.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.arrays import as_array, layout_of, read_plane
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, resolve_range
from napari_kpac.images import write_image
from napari_kpac.optics.pixels import from_unit
from napari_kpac.training.options import TrainOptions
from napari_kpac.widgets.train.source import ChosenData, LayerData


def write_layers(chosen: ChosenData, folder: Path) -> Steps[None]:
    """Write every picture of the chosen layers, as the network would see it.

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
        for number, picture in enumerate(_pictures(layer, values)):
            write_image(place / f"{prefix}{number:04d}.png", picture)
            done += 1
            yield Progress(done, total, "writing the layers")


def _pictures(layer: LayerData, values: PixelRange) -> Iterator[npt.NDArray[Any]]:
    array = as_array(layer.data)
    depth = np.uint8 if array.dtype == np.uint8 else np.uint16
    for plane in _layout(layer).planes():
        reader = PlaneReader(read_plane(array, plane), None, values, 1)
        seen = reader.read(Rect(0, reader.height, 0, reader.width))
        yield from_unit((seen[0].permute(1, 2, 0).numpy() + 1) / 2, depth)


def _layout(layer: LayerData) -> Any:
    return layout_of(as_array(layer.data), rgb=layer.rgb)


DATA = "data"
"""Folder of a run that holds pictures from layers."""


@dataclass(frozen=True)
class RunOpened(Progress):
    """A run is about to begin or to go on."""

    options: TrainOptions = field(default_factory=TrainOptions)
    resumed: bool = False
    history: tuple[Mapping[str, float], ...] = ()
    """Rows of the table of what was done before."""


def start(options: TrainOptions, run: Path, chosen: ChosenData) -> Steps[Any]:
    """Begin a run; what is wrong with it is said before anything is trained."""
    from napari_kpac.training import train
    from napari_kpac.training.run_folder import RunFolder, check_free

    check_free(options.name, run)
    folder = RunFolder(run)
    folder.check_free()
    if not chosen.is_open:
        yield RunOpened(0, options.total, "opening", options=options)
        return (yield from train(options, run))
    from napari_kpac.widgets.train.running import write_layers

    data = run / DATA
    existed = data.exists()
    options = replace(options, root=(str(data),))
    try:
        yield from write_layers(chosen, data)
        yield RunOpened(0, options.total, "opening", options=options)
        return (yield from train(options, run))
    finally:
        # A run that was never begun leaves none of its pictures behind.
        if not existed and folder.is_free:
            shutil.rmtree(data, ignore_errors=True)


def resume(run: Path) -> Steps[Any]:
    """Go on with a run."""
    from napari_kpac.training import train
    from napari_kpac.training.run_folder import RunFolder

    folder = RunFolder(run)
    options = folder.options()
    history = tuple(folder.metrics())
    yield RunOpened(0, options.total, "opening", options=options, resumed=True, history=history)
    return (yield from train(options, run, resume=True))


def install(run: Path, name: str) -> Any:
    """Put the best model of a run into the catalogue."""
    from napari_kpac.training.run_folder import install_best

    return install_best(run, name)
