"""Threads that give way to the window, so that it stays lively on a busy machine.

Not for: what they do (task.py, mixer/live.py).
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

NICENESS = 10


def give_way() -> None:
    """Lower the priority of this thread and of all that it starts, torch's helpers included.

    Only Linux has priorities of threads that a program may lower like this; elsewhere the
    system's scheduler prefers the window by itself.
    """
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may forbid it: then all are equal
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
