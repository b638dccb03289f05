"""Signals of the model catalogue, in one process.

Loads nothing heavy. Not for: what has changed (look there), or other processes.
"""

from __future__ import annotations

from psygnal import Signal


class Catalogue:
    """The list of models."""

    changed = Signal()
    """A model was installed or removed; sent in the thread that did it."""


catalogue = Catalogue()
