"""A queue between two threads that holds no more than fits.

Not for: what is put on it.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")

MOST = 8


class BeltStopped(Exception):  # noqa: N818 - it ends a thread, and is no error
    """Nobody wants what is on the belt any more."""


class Belt(Generic[T]):
    """A bounded queue; what is taken off counts until it is said to be gone."""

    def __init__(self, room: int, most: int = MOST) -> None:
        self._room, self._most = room, most
        self._queue: deque[T] = deque()
        self._used = self._count = 0
        self._stopped = False
        self._error: BaseException | None = None
        self._change = threading.Condition()

    def wait_for_room(self) -> None:
        """Wait until there is room for another; one always fits, however large."""
        with self._change:
            self._change.wait_for(
                lambda: self._stopped or (self._used < self._room and self._count < self._most)
            )
            self._check()

    def put(self, thing: T, weight: int = 0) -> None:
        """Put something on the belt; it weighs so many bytes until it is gone."""
        with self._change:
            self._check()
            self._queue.append(thing)
            self._used += weight
            self._count += 1
            self._change.notify_all()

    def take(self) -> T:
        """Wait for the next."""
        with self._change:
            self._change.wait_for(lambda: self._stopped or self._queue)
            self._check()
            return self._queue.popleft()

    def gone(self, weight: int = 0) -> None:
        """Say that something that was taken needs its room no longer."""
        with self._change:
            self._used -= weight
            self._count -= 1
            self._change.notify_all()

    def stop(self, error: BaseException | None = None) -> None:
        """Wake everybody up: the work is given up, or has ended in an error."""
        with self._change:
            self._stopped = True
            self._error = self._error or error
            self._queue.clear()
            self._change.notify_all()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._stopped:
            raise BeltStopped
