"""A further process of a run on the cores of a CPU; started by the first one.

    python -m napari_kpac.training.worker RUN RANK STORE new|resumed

Not for: people. What it raises goes to the first process as its last line of output.
"""

from __future__ import annotations

import signal
import sys

from napari_kpac.core.errors import CancelledError, for_people
from napari_kpac.core.progress import finish
from napari_kpac.training.loop import run_with
from napari_kpac.training.processes import Cores
from napari_kpac.training.run_folder import RunFolder


def main() -> int:
    """Work until the run ends or is stopped."""
    run, rank, store, how = sys.argv[1:]
    # An interrupt from the keyboard reaches all processes; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = RunFolder(run)
    try:
        options = folder.options()
        cores = Cores(options, int(rank), store)
        finish(run_with(options, folder, cores, resumed=how == "resumed"))
    except CancelledError:
        return 0
    except Exception as error:
        print(for_people(error), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
