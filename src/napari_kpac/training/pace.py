"""How long a run will take: a few of its steps are done on this machine, with its options.

Not for: the time left of a run that is under way (loop).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from typing import Any

from napari_kpac.core.allocator import keeping_memory
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.device import resolve, using_threads
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.training.examples import Data, open_data_steps
from napari_kpac.training.loop import Trainer
from napari_kpac.training.losses import PerceptualLoss
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import Processes, fastest_count, speedup
from napari_kpac.training.run_folder import RunFolder

MEASURED_STEPS = 3
"""Steps of each phase that are timed, after one that is not."""


@dataclass(frozen=True)
class Pace:
    """Seconds that the parts of a run take, as measured."""

    steps: tuple[float, ...]
    """A step of each phase."""
    validation: float

    def duration(self, options: TrainOptions) -> float:
        """Return the seconds that a run with these options takes."""
        lengths = (phase.end - phase.begin for phase in options.schedule())
        learning = sum(n * each for n, each in zip(lengths, self.steps, strict=True))
        return learning + ceil(options.total / options.validate_every) * self.validation


def measure_pace(options: TrainOptions) -> Steps[Pace]:
    """Open the data and time a few steps of every phase, and a crop of a validation.

    Nothing is written. What is wrong with the data is raised, as it would be by a run. Where
    several processes share the work, the time of one is divided by what they were measured to
    gain on a CPU, and evenly elsewhere.
    """
    data = yield from open_data_steps(options)
    on_cpu = resolve(options.device).type == "cpu"
    devices = options.devices or ((yield from fastest_count(options)) if on_cpu else 1)
    world = devices * options.nodes
    faster = float(world)
    if on_cpu and world > 1:
        # Where the computer is busy meanwhile, the measurement can say more than there are cores.
        faster = min(faster, max(1.0, (yield from speedup(options, world))))
    advice = f"take a smaller batch_size (now {options.batch_size}) or crop_size"
    with (
        using_threads(options.threads or None),
        keeping_memory(),
        explaining_shortage("this run", advice),
    ):
        return (yield from _measure(options, data, world, faster))


def _measure(options: TrainOptions, data: Data, world: int, faster: float) -> Steps[Pace]:
    alone = Processes(replace(options, devices=1, nodes=1))
    perceptual = PerceptualLoss(options.vgg) if options.fine_steps else None
    trainer = Trainer(options, RunFolder("not used"), alone, data, perceptual)
    phases = options.schedule()
    total, done, paces = len(phases) * (1 + MEASURED_STEPS) + 1, 0, []
    for phase in phases:
        times = []
        for _ in range(1 + MEASURED_STEPS):
            yield Progress(done, total, "timing a few steps")
            times.append(_seconds(trainer.step, trainer.net, trainer.optimiser, phase))
            trainer.counters.step += 1
            done += 1
        step = median(times[1:])
        # Processes share the making of crops evenly, the learning less so.
        making = min(step, _seconds(data.batch, phase.options, phase.begin)) if world > 1 else 0.0
        paces.append((step - making) / faster + making / world)
    yield Progress(done, total, "timing a validation")
    single = replace(phases[-1].options, validation_crops=1)
    crop = _seconds(trainer.objective.validate, trainer.net, data, single, alone)
    return Pace(tuple(paces), crop * ceil(options.validation_crops / world))


def _seconds(action: Callable[..., object], *given: Any) -> float:
    begun = time.perf_counter()
    action(*given)
    return time.perf_counter() - begun
