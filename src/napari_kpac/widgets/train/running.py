"""The steps of a run as the window drives them, in a thread.

Not for: the training itself (training), or showing it (widget.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.training.options import TrainOptions
from napari_kpac.widgets.train.source import ChosenData

DATA = "data"
"""Folder of a run that holds images from layers."""


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
    from napari_kpac.widgets.train.layer_files import write_layers

    data = run / DATA
    existed = data.exists()
    options = replace(options, root=(str(data),))
    try:
        yield from write_layers(chosen, data)
        yield RunOpened(0, options.total, "opening", options=options)
        return (yield from train(options, run))
    finally:
        # A run that was never begun leaves none of its images behind.
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
