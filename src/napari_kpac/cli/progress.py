"""A progress bar for people who look on.

Not for: the work itself.
"""

from __future__ import annotations

import sys
from typing import TypeVar

from tqdm import tqdm

from napari_kpac.core.progress import Steps

T = TypeVar("T")


def show(steps: Steps[T], title: str, unit: str = "tile") -> T:
    """Run long work to the end behind a bar on the error stream (none where it is a file)."""
    with tqdm(desc=title, unit=unit, leave=False, disable=not sys.stderr.isatty()) as bar:
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            bar.total = progress.total
            bar.set_postfix_str(progress.stage, refresh=False)
            bar.update(progress.done - bar.n)
            if progress.note:
                tqdm.write(f"{title}: {progress.note}", file=sys.stderr)
