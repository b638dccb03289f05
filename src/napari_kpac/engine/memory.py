"""Memory: returned to the system, and errors that mean a shortage of it.

Not for: how much a device has (backend.py), or going on in smaller tiles (tiling.py, job.py).
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar, cast

import torch

from napari_kpac.core.allocator import glibc
from napari_kpac.core.errors import DeviceError, KpacError
from napari_kpac.core.progress import Progress, Steps

T = TypeVar("T")

ADVICE = (
    "close other programs, choose another device, set a smaller memory budget, or process a part"
    " of the image"
)


def give_back() -> None:
    """Return freed memory to the system."""
    libc = glibc()
    if libc is not None:
        libc.malloc_trim(0)


SHORTAGES = (MemoryError, RuntimeError, OSError)
"""Among these are the exceptions that mean that memory ran out."""
_SIGNS = (
    "out of memory", "can't allocate memory", "not enough memory", "can't start new thread",
    "bad_alloc",
)  # fmt: skip
_SIGNS_OF_ONEDNN = ("could not create a primitive", "could not create a memory")


def is_memory_error(error: BaseException) -> bool:
    """Return True if an exception means that memory ran out."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or has_given_up(error):
        return True
    return isinstance(error, RuntimeError) and any(s in str(error).lower() for s in _SIGNS)


def has_given_up(error: BaseException) -> bool:
    """Return True if convolutions do not work any more in the thread that raised this.

    When oneDNN gets no memory for the code of a convolution, it makes no other in the same
    thread, however much memory there is afterwards. In other threads it does.
    """
    text = str(error).lower()
    return isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS_OF_ONEDNN)


def in_new_thread(steps: Steps[T]) -> Steps[T]:
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


@contextmanager
def explaining_shortage(what: str = "the image", advice: str = ADVICE) -> Iterator[None]:
    """Turn a shortage of memory that nothing was done about into an error that says what to do."""
    try:
        yield
    except KpacError:
        raise
    except SHORTAGES as error:
        if not is_memory_error(error):
            raise
        raise DeviceError(f"out of memory: there is too little for {what}; {advice}") from error
