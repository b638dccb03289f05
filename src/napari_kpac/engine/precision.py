"""bfloat16 on a CPU: a trial in a child process shows whether it works and is faster.

    python -m napari_kpac.engine.precision deblur|train

Some processors claim to have it and end in an illegal instruction, which nothing in the same
process survives; others emulate it slowly. Not for: half precision on graphics cards.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import torch

from napari_kpac.network import build

Purpose = Literal["deblur", "train"]

TRIAL_S = 120
ROUNDS = 4
"""Of both precisions by turns; the best of each counts, so that a busy machine hurts both."""
SIDES_PX = {"deblur": 256, "train": 96}
CROPS = {"deblur": 1, "train": 2}


@dataclass(frozen=True)
class Trial:
    """What a trial of bfloat16 showed."""

    speed: float
    """Against float32; 0 where it does not work."""
    reason: str
    """Why it cannot be used; empty where it works."""

    @property
    def is_useful(self) -> bool:
        """Whether it works and is faster than float32."""
        return self.speed > 1

    def __str__(self) -> str:
        return self.reason or f"in a trial it was {self.speed:.2f} times as fast as float32"


@lru_cache(maxsize=2)
def try_bfloat16(purpose: Purpose) -> Trial:
    """Try bfloat16 on this CPU in a child process; once per process."""
    call = [sys.executable, "-m", "napari_kpac.engine.precision", purpose]
    try:
        done = subprocess.run(  # noqa: S603 - our own module
            call, capture_output=True, text=True, check=False, timeout=TRIAL_S
        )
    except subprocess.TimeoutExpired:
        return Trial(
            0.0,
            f"its trial did not end within {TRIAL_S} s; if this computer is busy with something"
            " else, restart this program when it is not",
        )
    except OSError as error:
        return Trial(0.0, f"its trial could not be started ({error})")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        ended = _signal_name(-done.returncode) or last
        return Trial(0.0, f"it does not work on this processor: {ended}")
    return Trial(float(json.loads(done.stdout)["speed"]), "")


def _signal_name(number: int) -> str:
    """Return what ended a process; empty where it was no signal."""
    try:
        return f"the trial ended with {signal.Signals(number).name}" if number > 0 else ""
    except ValueError:
        return f"the trial ended with signal {number}"


def compare(purpose: Purpose) -> float:
    """Return how fast bfloat16 is in this process, against float32."""
    net = build(seed=0).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    shape = (CROPS[purpose], 3, SIDES_PX[purpose], SIDES_PX[purpose])
    x = torch.rand(shape).to(memory_format=torch.channels_last) * 2 - 1
    learns = purpose == "train"

    def run(*, half: bool) -> None:
        with torch.set_grad_enabled(learns), torch.autocast("cpu", torch.bfloat16, enabled=half):
            result = net(x)
        if learns:
            result.float().abs().mean().backward()
        if not torch.isfinite(result).all():
            raise ArithmeticError("results are not finite")

    best = {False: float("inf"), True: float("inf")}
    for _ in range(ROUNDS):
        for half in best:
            best[half] = min(best[half], _seconds(lambda half=half: run(half=half)))  # type: ignore[misc]
    return best[False] / best[True]


def _seconds(job: Callable[[], None]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


if __name__ == "__main__":
    print(json.dumps({"speed": compare("train" if sys.argv[1] == "train" else "deblur")}))
