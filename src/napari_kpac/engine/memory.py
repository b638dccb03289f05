"""Memory: kept while a job runs, checked before it is used, and errors that mean a shortage.

Not for: how much there is (device.py), or going on in smaller tiles (tiling.py, job.py).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import platform
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

import psutil
import torch

from napari_kpac.core.errors import DeviceError, KpacError
from napari_kpac.core.progress import Progress, Steps

T = TypeVar("T")

ADVICE = (
    "close other programs, choose another device, set a smaller memory budget, or process a part"
    " of the image"
)

keeping_enabled = True
"""The preference; the environment variable ``NAPARI_KPAC_ALLOCATOR=0`` can only switch off."""

_SWITCH, _FOR_GOOD = "NAPARI_KPAC_ALLOCATOR", "for good"
"""A process that was started with :func:`allocator_environment` is known by this."""


_SETTINGS = (
    (-4, "MALLOC_MMAP_MAX_", 0, 65536),
    (-1, "MALLOC_TRIM_THRESHOLD_", 2**31 - 1, 128 * 2**10),
    (-2, "MALLOC_TOP_PAD_", 64 * 2**20, 128 * 2**10),
)
"""Of glibc: number of the parameter, its variable, its value for keeping, its default."""

_users = 0
_lock = threading.Lock()


@contextmanager
def keeping_memory(*, trim: bool = True) -> Iterator[None]:
    """Keep freed memory for the length of the block; nested blocks count as one.

    Every large tensor that torch makes on a CPU comes fresh from the kernel, page by page, and
    those page faults cost up to a quarter of the time. For the length of a job glibc is told to
    keep freed memory; afterwards everything is as it was and the memory is given back. Without
    ``trim`` the freed memory stays with the process for the next block, until
    :func:`give_back`.

    With other C libraries, and in threads other than the main one, nothing is done: glibc
    serves threads from arenas of their own, to which these settings do not apply. A process
    whose threads do nothing but such jobs can be started with :func:`allocator_environment`.
    """
    global _users
    in_main_thread = threading.current_thread() is threading.main_thread()
    libc = _glibc() if _may_keep() and in_main_thread else None
    if libc is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            for number, _, keeping, _ in _SETTINGS:
                libc.mallopt(number, keeping)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                for number, *_, default in _SETTINGS:
                    libc.mallopt(number, default)
                if trim:
                    libc.malloc_trim(0)


def is_keeping_memory() -> bool:
    """Return True inside of :func:`keeping_memory`."""
    return _users > 0


def allocator_environment() -> dict[str, str]:
    """Return variables with which a process keeps freed memory for good, in all its threads."""
    if not _may_keep() or _glibc() is None:
        return {}
    own = {_SWITCH: _FOR_GOOD, "MALLOC_ARENA_MAX": "1"}
    return own | {variable: str(keeping) for _, variable, keeping, _ in _SETTINGS}


def give_back() -> None:
    """Return freed memory to the system."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def keep_below(limit: int) -> None:
    """Return freed memory to the system if the process has more than this many bytes.

    What is kept lies in pieces, and not each of them can be used again.
    """
    keeps = is_keeping_memory() or _keeps_for_good()
    if keeps and psutil.Process().memory_info().rss > limit:
        give_back()


def _may_keep() -> bool:
    return keeping_enabled and os.environ.get(_SWITCH, "1") != "0"


def _keeps_for_good() -> bool:
    return os.environ.get(_SWITCH) == _FOR_GOOD


@lru_cache(maxsize=1)
def _glibc() -> Any:
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return None
    # Somebody who tunes the allocator from outside knows better.
    if not _keeps_for_good() and any(
        name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ
    ):
        return None
    return ctypes.CDLL(None)


_OWN = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_ANONYMOUS") else {}
"""Makes a mapping count as memory of the process, where that is not so anyway."""


def check_available(device: torch.device, size: int) -> None:
    """Raise if that many bytes cannot be had at the moment.

    Torch says so when it gets no memory. Libraries below it crash the process instead when
    they get none in the middle of a convolution, so it is asked for before. Not from the
    allocator, which would arrange its own memory around it.
    """
    if device.type == "cpu":
        mmap.mmap(-1, size, **_OWN).close()


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


def release(device: torch.device) -> None:
    """Return freed memory to the system, of the device as well as of this process."""
    if device.type in ("cuda", "mps", "xpu"):
        getattr(torch, device.type).empty_cache()
    give_back()


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
