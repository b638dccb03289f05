"""Threads behind a window: they give way to it, and they stop when it is destroyed.

Not for: what they do (task.py, mixer/live.py).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from qtpy.QtCore import QObject

NICENESS = 10
_waiting: set[_Ending] = set()


def give_way() -> None:
    """Lower the priority of this thread and of all that it starts, torch's helpers included.

    Only Linux has priorities of threads that a program may lower like this; elsewhere the
    system's scheduler prefers the window by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it: then all are equal
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)


def when_destroyed(owner: QObject, action: Callable[[], None]) -> None:
    """Call this when a Qt object is destroyed; it must not hold on to that object.

    The garbage collector destroys Qt objects too. By then it has emptied every function that
    only they knew, and to call an emptied one crashes: so the action is kept here meanwhile.
    """
    ending = _Ending(action)
    _waiting.add(ending)
    owner.destroyed.connect(ending.run)


class _Ending:
    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def run(self, _: object = None) -> None:
        _waiting.discard(self)
        self._action()
