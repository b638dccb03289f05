"""How many pixels a second a CPU learns from, in one process or in one for each core.

    python -m napari_kpac.training.speed LEVELS BLOCKS CHANNELS CROPS SIDE PRECISION THREADS

measures one process and prints pixels per second. Not for: the speed of deblurring (evaluation).
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import torch

from napari_kpac.engine.memory import allocator_environment, keeping_memory
from napari_kpac.network import KPACConfig, build
from napari_kpac.training.options import TrainOptions

WARM_UP_STEPS, MEASURED_STEPS = 2, 4
WORTH_MEASURING_STEPS = 500
"""Shorter runs are over before a measurement pays."""
TIMEOUT_S = 300


def fastest_count(options: TrainOptions) -> int:
    """Return how many processes of one thread learn fastest; 1 where one process with threads does.

    Both ways are tried for a few steps with random images.
    """
    cores = psutil.cpu_count(logical=False) or 1
    count = max(n for n in range(1, cores + 1) if options.batch % n == 0)
    if count == 1 or options.total < WORTH_MEASURING_STEPS or options.threads:
        return 1
    try:
        together = pixels_per_second(options, 1, threads=0)
        return count if pixels_per_second(options, count, threads=1) > together else 1
    except (OSError, ValueError, subprocess.SubprocessError):
        return 1


def pixels_per_second(options: TrainOptions, processes: int, threads: int) -> float:
    """Return the pixels per second of a number of processes that work at the same time."""
    values = (
        options.levels,
        options.blocks,
        options.channels,
        max(1, options.batch // processes),
        options.crop,
        options.precision,
        threads,
    )
    command = [sys.executable, "-m", "napari_kpac.training.speed", *map(str, values)]
    variables = {**os.environ, **allocator_environment()}
    if threads:
        variables["OMP_NUM_THREADS"] = str(threads)
    children = [
        subprocess.Popen(  # noqa: S603 - our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=variables,
            text=True,
        )
        for _ in range(processes)
    ]
    try:
        return sum(float(child.communicate(timeout=TIMEOUT_S)[0]) for child in children)
    finally:
        for child in children:
            child.kill()


def main() -> int:
    """Measure this process."""
    levels, blocks, channels, crops, side = map(int, sys.argv[1:6])
    precision, threads = sys.argv[6], int(sys.argv[7])
    if threads:
        torch.set_num_threads(threads)
    net = build(KPACConfig(levels=levels, blocks=blocks, channels=channels), seed=0)
    net = net.train().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(net.parameters(), 1e-5)
    images = torch.rand(crops, 3, side, side).to(memory_format=torch.channels_last) * 2 - 1
    begun = 0.0
    with keeping_memory():
        for step in range(WARM_UP_STEPS + MEASURED_STEPS):
            if step == WARM_UP_STEPS:
                begun = time.perf_counter()
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                output = net(images)
            (output.float() - images).abs().mean().backward()
            optimiser.step()
    print(MEASURED_STEPS * crops * side**2 / (time.perf_counter() - begun))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
