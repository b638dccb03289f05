"""The most memory that a process has held so far.

Not for: budgets (engine).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def peak_memory_here() -> int:
    """Return the peak resident memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # The kernel's rusage would count the parent's memory too, as it was at the fork.
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found[1]) * 1024
    try:
        import resource
    except ImportError:
        import psutil

        return int(psutil.Process().memory_info()._asdict()["peak_wset"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)
