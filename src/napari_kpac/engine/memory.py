"""What is done when memory runs short: try again in smaller pieces, and in the end say so.

Not for: how much memory there is (device.py), or how an image is cut up (plan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, cast

import torch

from napari_kpac.core.errors import DeviceError, KpacError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine import device as devices
from napari_kpac.engine.allocator import give_back
from napari_kpac.engine.plan import Plan
from napari_kpac.network import KPACConfig

T = TypeVar("T")

ADVICE = (
    "close other programs, choose another device, set a smaller memory budget, or process a part"
    " of the image"
)


def within_memory(
    config: KPACConfig,
    device: torch.device,
    plan: Plan,
    attempt: Callable[[Plan], Steps[T]],
    forget: Callable[[], None] | None = None,
) -> Steps[tuple[T, Plan]]:
    """Make an attempt; where memory runs short, say so and try again with a smaller plan.

    Returns what the attempt returned and the plan that worked. ``forget`` lets go of what an
    attempt has kept.
    """
    elsewhere = False
    while True:
        try:
            steps = attempt(plan)
            return (yield from _in_a_thread(steps) if elsewhere else steps), plan
        except devices.SHORTAGES as error:
            if not devices.is_memory_error(error):
                raise
            elsewhere = elsewhere or devices.has_given_up(error)
        # Only here, where the error and what it held on to are gone.
        if forget is not None:
            forget()
        devices.release(device)
        give_back()
        plan = plan.smaller(config)
        yield Progress(0, plan.steps, "encode", shortage(plan))


def _in_a_thread(steps: Steps[T]) -> Steps[T]:
    """Take the steps in a thread of their own, for this one can no longer convolve."""
    with ThreadPoolExecutor(1, "napari-kpac-again") as thread:
        thread.submit(torch.set_num_threads, torch.get_num_threads()).result()
        try:
            while True:
                progress, ended = thread.submit(_step, steps).result()
                if progress is None:
                    return cast("T", ended)
                yield progress
        finally:
            thread.submit(steps.close).result()


def _step(steps: Steps[T]) -> tuple[Progress | None, T | None]:
    """Return what a generator yields, or None and what it returns: a future takes no more."""
    try:
        return next(steps), None
    except StopIteration as stop:
        return None, stop.value


def shortage(plan: Plan) -> str:
    """Say how the work goes on."""
    place = ", and with a file for the features" if plan.scratch else ""
    return f"memory ran short; going on with tiles of {plan.tile} pixels{place}"


@contextmanager
def explaining_shortage(what: str = "the image", advice: str = ADVICE) -> Iterator[None]:
    """Turn a shortage of memory that nothing was done about into an error that says what to do."""
    try:
        yield
    except KpacError:
        raise
    except devices.SHORTAGES as error:
        if not devices.is_memory_error(error):
            raise
        raise DeviceError(f"out of memory: there is too little for {what}; {advice}") from error
