"""What is done when memory runs short: try again in smaller pieces, and in the end say so.

Not for: how much memory there is (device.py), or how a picture is cut up (plan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch

from napari_kpac.engine import device as devices
from napari_kpac.engine.plan import Plan
from napari_kpac.errors import DeviceError, KpacError
from napari_kpac.network import KPACConfig
from napari_kpac.progress import Progress, Steps

T = TypeVar("T")

ADVICE = (
    "close other programs, choose another device, set a smaller memory budget, or process a part"
    " of the picture"
)


def within_memory(
    config: KPACConfig, device: torch.device, plan: Plan, attempt: Callable[[Plan], Steps[T]]
) -> Steps[tuple[T, Plan]]:
    """Make an attempt; where memory runs short, say so and try again with a smaller plan.

    Returns what the attempt returned and the plan that worked.
    """
    while True:
        try:
            return (yield from attempt(plan)), plan
        except (MemoryError, RuntimeError) as error:
            if not devices.is_memory_error(error):
                raise
        # Only here, where the error and what it held on to are gone.
        devices.release(device)
        plan = plan.smaller(config)
        yield Progress(0, plan.steps, "encode", shortage(plan))


def shortage(plan: Plan) -> str:
    """Say how the work goes on."""
    place = ", and with a file for the features" if plan.scratch else ""
    return f"memory ran short; going on with tiles of {plan.tile} pixels{place}"


@contextmanager
def explaining_shortage(what: str = "the picture", advice: str = ADVICE) -> Iterator[None]:
    """Turn a shortage of memory that nothing was done about into an error that says what to do."""
    try:
        yield
    except KpacError:
        raise
    except (MemoryError, RuntimeError) as error:
        if not devices.is_memory_error(error):
            raise
        raise DeviceError(f"out of memory: there is too little for {what}; {advice}") from error
