"""The learning rate of every step.

Not for: the optimiser (state).
"""

from __future__ import annotations

import math

from napari_kpac.training.options import TrainOptions


def rate_at(step: int, options: TrainOptions) -> float:
    """Return the rate of a step of a phase, counted from 0: a rise, then half a cosine.

    With ``final_rate`` 1 the rate stays as it is after its rise.
    """
    if step < options.warmup:
        return options.rate * (step + 1) / (options.warmup + 1)
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    left = options.final_rate + (1 - options.final_rate) * (1 + math.cos(math.pi * done)) / 2
    return options.rate * left
