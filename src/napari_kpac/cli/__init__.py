"""The command ``napari-kpac``: the same actions from a terminal.

Not for: doing the work. Each command reads its options, runs an action and prints the result.
"""

from napari_kpac.cli.entry import main

__all__ = ["main"]
