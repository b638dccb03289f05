"""The allocator of the C library, told to keep freed memory while a network learns.

A step of training makes and frees hundreds of large tensors, each of which would come fresh from
the kernel, page by page. Not for: deblurring, which has buffers of its own (engine.levels).
"""

from __future__ import annotations

import ctypes
import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_SETTINGS = (
    (-4, "MALLOC_MMAP_MAX_", 0, 65536),
    (-1, "MALLOC_TRIM_THRESHOLD_", 2**31 - 1, 128 * 2**10),
    (-2, "MALLOC_TOP_PAD_", 64 * 2**20, 128 * 2**10),
)
"""Of glibc: number of the parameter, its variable, its value for keeping, its default."""

_users = 0
_lock = threading.Lock()


@contextmanager
def keeping_memory() -> Iterator[None]:
    """Keep freed memory for the length of the block, and return it then; blocks may be nested.

    With other C libraries, and in threads other than the main one, nothing is done: glibc serves
    threads from arenas of their own, to which these settings do not apply. A process whose
    threads do nothing but such work can be started with :func:`allocator_environment`.
    """
    global _users
    in_main_thread = threading.current_thread() is threading.main_thread()
    libc = glibc() if in_main_thread and not _is_tuned() else None
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
                libc.malloc_trim(0)


def is_keeping_memory() -> bool:
    """Return True inside of :func:`keeping_memory`."""
    return _users > 0


def allocator_environment() -> dict[str, str]:
    """Return variables with which a process keeps freed memory for good, in all its threads."""
    if glibc() is None or _is_tuned():
        return {}
    variables = {variable: str(keeping) for _, variable, keeping, _ in _SETTINGS}
    return {"MALLOC_ARENA_MAX": "1", **variables}


def _is_tuned() -> bool:
    """Return True if somebody tunes the allocator from outside, who knows better."""
    return any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ)


@lru_cache(maxsize=1)
def glibc() -> Any:
    """Return the C library if it is glibc, else None."""
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return None
    return ctypes.CDLL(None)
