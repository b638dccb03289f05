"""What the child processes of training run; started by ``processes``, not by people.

    python -m napari_kpac.training work RUN RANK STORE new|resumed
    python -m napari_kpac.training measure OPTIONS

The first takes part in a run on the cores of a CPU; what it raises goes to the first process as
its last line of output. The second learns from random images for a few steps and prints pixels
per second; its options are JSON.
"""

from __future__ import annotations

import json
import signal
import sys
import time

import torch

from napari_kpac.core.allocator import keeping_memory
from napari_kpac.core.errors import CancelledError, for_people
from napari_kpac.core.options import select_options
from napari_kpac.core.progress import finish
from napari_kpac.network import KPACConfig, build
from napari_kpac.training.examples import open_data_steps
from napari_kpac.training.loop import run_with
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import CoreProcesses, Processes
from napari_kpac.training.run_folder import RunFolder

WARM_UP_STEPS, MEASURED_STEPS = 2, 4


def work(run: str, rank: str, store: str, how: str) -> int:
    """Take part in a run until it ends or is stopped."""
    # An interrupt from the keyboard reaches all processes; the first one decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    folder = RunFolder(run)
    try:
        options = folder.options()
        cores = CoreProcesses(options, int(rank), store)
        # The first process has compared the images of pairs.
        data = finish(open_data_steps(options, compare=False))
        finish(run_with(options, folder, cores, data, resumed=how == "resumed"))
    except CancelledError:
        return 0
    except Exception as error:
        print(for_people(error), file=sys.stderr)
        return 1
    return 0


def measure(text: str) -> int:
    """Print how many pixels a second this process learns from."""
    options = TrainOptions.from_dict(json.loads(text))
    crops, side = options.batch_size, options.crop_size
    if options.threads:
        torch.set_num_threads(options.threads)
    net = build(select_options(KPACConfig, options), seed=0).train()
    net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(net.parameters(), 1e-5)
    images = torch.rand(crops, 3, side, side).to(memory_format=torch.channels_last) * 2 - 1
    begun = 0.0
    with keeping_memory():
        for step in range(WARM_UP_STEPS + MEASURED_STEPS):
            if step == WARM_UP_STEPS:
                begun = time.perf_counter()
            optimiser.zero_grad(set_to_none=True)
            with Processes(options).computing():
                output = net(images)
            (output.float() - images).abs().mean().backward()
            optimiser.step()
    print(MEASURED_STEPS * crops * side**2 / (time.perf_counter() - begun))
    return 0


if __name__ == "__main__":
    raise SystemExit(work(*sys.argv[2:]) if sys.argv[1] == "work" else measure(sys.argv[2]))
