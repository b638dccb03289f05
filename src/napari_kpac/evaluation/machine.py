"""The machine: its processor, and how fast it multiplies and convolves.

Not for: how fast the network runs on it (speed.py).
"""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

SGEMM_SIDE = 2048
CONV_CHANNELS = 48
CONV_SIZE = (720, 1280)


@dataclass(frozen=True)
class Machine:
    """What the bench says of the machine, so that figures of two can be compared."""

    processor: str
    instructions: str
    """The instruction set that torch uses, for example AVX512."""
    threads: int
    torch: str

    def __str__(self) -> str:
        return f"{self.processor}, {self.instructions}, {self.threads} threads, torch {self.torch}"


def describe_machine() -> Machine:
    """Return what this machine is."""
    return Machine(
        processor_name(),
        torch.backends.cpu.get_cpu_capability(),
        torch.get_num_threads(),
        torch.__version__,
    )


def processor_name() -> str:
    """Return the name of the processor as its maker has it, with the family where names are vague.

    Virtual machines often hide the model: then family and model number tell the generation.
    """
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        text = cpuinfo.read_text()
        parts = {
            key: found[1].strip()
            for key in ("model name", "cpu family", "model")
            if (found := re.search(rf"^{key}\s*:(.*)$", text, re.MULTILINE))
        }
        if "model name" in parts:
            generation = f"family {parts.get('cpu family', '?')}, model {parts.get('model', '?')}"
            return f"{parts['model name']} ({generation})"
    return platform.processor() or platform.machine()


class Ceilings:
    """Two operations whose rates bound that of the network on a CPU."""

    def __init__(self) -> None:
        self._square = torch.rand(SGEMM_SIDE, SGEMM_SIDE)
        shape, kernel = (1, CONV_CHANNELS, *CONV_SIZE), (CONV_CHANNELS, CONV_CHANNELS, 3, 3)
        self._map = torch.rand(shape).contiguous(memory_format=torch.channels_last)
        self._kernel = torch.rand(kernel).contiguous(memory_format=torch.channels_last)

    def multiply(self) -> object:
        """Multiply two square matrices."""
        return self._square @ self._square

    @torch.no_grad()
    def convolve(self) -> object:
        """Convolve 48 channels of an image of 720p with a 3x3 kernel."""
        return F.conv2d(self._map, self._kernel, padding=1)

    multiply_flops = 2 * SGEMM_SIDE**3
    convolve_flops = 2 * 9 * CONV_CHANNELS**2 * CONV_SIZE[0] * CONV_SIZE[1]


@dataclass(frozen=True)
class Shares:
    """Where the time of a job on a CPU goes, in percent."""

    convolutions: float
    """With the activations that are fused into them."""
    passes: float
    """Operations that only go over memory: activations, sums, copies, padding, pixel values."""
    rest: float
    """Python, and what torch does between operations."""


def shares_of(job: Callable[[], object]) -> Shares:
    """Return where the time of a job goes, by torch's profiler."""
    job()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        start = time.perf_counter()
        job()
        seconds = time.perf_counter() - start
    convolutions = passes = 0.0
    for event in profiler.key_averages():
        own = event.self_cpu_time_total / 1e6
        if "conv" in event.key:
            convolutions += own
        else:
            passes += own
    rest = max(seconds - convolutions - passes, 0.0)
    return Shares(*(100 * part / seconds for part in (convolutions, passes, rest)))
