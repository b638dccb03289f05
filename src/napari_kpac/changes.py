"""Word of a change, from the room where it happens to whoever wants to know, in one process.

Loads nothing heavy. Not for: what has changed (look there), or other processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakMethod


class Change:
    """Something that changes now and then."""

    def __init__(self) -> None:
        self._followers: list[WeakMethod[Callable[[], Any]]] = []

    def follow(self, method: Callable[[], Any]) -> None:
        """Call a method at every change, in the thread that makes it, while its object lives."""
        self._followers = [*self._alive(), WeakMethod(method)]

    def unfollow(self, method: Callable[[], Any]) -> None:
        """Call the method no longer."""
        self._followers = [known for known in self._alive() if known() != method]

    def tell(self) -> None:
        """Say that it has changed."""
        for known in self._alive():
            method = known()
            if method is not None:
                method()

    def _alive(self) -> list[WeakMethod[Callable[[], Any]]]:
        return [known for known in self._followers if known() is not None]


catalogue_changed = Change()
"""A model was installed or removed."""
