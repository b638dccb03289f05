"""Keeps freed memory at hand while a job runs, so that it need not be mapped in again.

Every large tensor that torch makes on a CPU comes fresh from the kernel, page by page, and
those page faults cost up to a quarter of the time. For the length of a job glibc is told to
keep freed memory; afterwards everything is as it was and the memory is given back.

Not for: other C libraries, nor threads other than the main one (glibc serves them from
arenas of their own, to which these settings do not apply). There the manager does nothing; a
process whose threads do nothing but such jobs can be started with :func:`environment`.
Set ``NAPARI_KPAC_ALLOCATOR=0`` to switch it off.
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

import psutil

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4
_KEEP = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_TOP_PAD, 64 * 2**20))
_VARIABLES = {
    _MMAP_MAX: "MALLOC_MMAP_MAX_", _TRIM_THRESHOLD: "MALLOC_TRIM_THRESHOLD_",
    _TOP_PAD: "MALLOC_TOP_PAD_",
}  # fmt: skip
_DEFAULTS = ((_MMAP_MAX, 65536), (_TRIM_THRESHOLD, 128 * 2**10), (_TOP_PAD, 128 * 2**10))

_SWITCH, _FOR_GOOD = "NAPARI_KPAC_ALLOCATOR", "for good"
"""A process that was started with :func:`environment` is known by this."""

enabled = True
"""The preference; the environment variable can only switch off."""

_users = 0
_lock = threading.Lock()


@contextmanager
def keeping_memory(*, trim: bool = True) -> Iterator[None]:
    """Keep freed memory for the length of the block; nested blocks count as one.

    Without ``trim`` the freed memory stays with the process for the next block, until
    :func:`give_back`.
    """
    global _users
    libc = _glibc() if _wanted() else None
    if libc is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            _apply(libc, _KEEP)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _apply(libc, _DEFAULTS)
                if trim:
                    libc.malloc_trim(0)


def environment() -> dict[str, str]:
    """Return variables with which a process keeps freed memory for good, in all its threads."""
    if not _allowed() or _glibc() is None:
        return {}
    own = {_SWITCH: _FOR_GOOD, "MALLOC_ARENA_MAX": "1"}
    return own | {_VARIABLES[key]: str(value) for key, value in _KEEP}


def give_back() -> None:
    """Return freed memory to the system."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def keep_below(limit: int) -> None:
    """Return freed memory to the system where the process has come to more than this.

    What is kept lies in pieces, and not each of them can be used again.
    """
    if (is_active() or _keeps_for_good()) and psutil.Process().memory_info().rss > limit:
        give_back()


def is_active() -> bool:
    """Tell whether memory is being kept at the moment."""
    return _users > 0


def _wanted() -> bool:
    return _allowed() and threading.current_thread() is threading.main_thread()


def _allowed() -> bool:
    return enabled and os.environ.get(_SWITCH, "1") != "0"


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


def _apply(libc: Any, settings: tuple[tuple[int, int], ...]) -> None:
    for option, value in settings:
        libc.mallopt(option, value)
