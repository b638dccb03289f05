"""The terminal: the same actions as in the window and in Python.

Not for: doing the work. Each command reads its options, runs an action and prints.
"""

from napari_kpac.cli.entry import main

__all__ = ["main"]
