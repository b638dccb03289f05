"""Doing something a little later, once, however often it is asked for.

Not for: limiting how often a function runs (superqt's throttling and debouncing).
"""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QObject, QTimer


def later(owner: QObject, milliseconds: int, action: Callable[[], None]) -> QTimer:
    """Make a timer, stopped and owned by ``owner``; each start calls the action once, so late."""
    timer = QTimer(owner)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(action)
    return timer
