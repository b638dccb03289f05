"""One process or many: who computes what, how gradients come together, and what is fastest.

One device, and the cores of a CPU, need nothing but torch; several accelerators or machines go
through Lightning Fabric. Not for: what is computed (loop), or what a child process runs (__main__).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import psutil
import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore, ProcessGroupGloo

from napari_kpac.core.allocator import allocator_environment
from napari_kpac.core.errors import ConfigError, TrainingError
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine.device import resolve
from napari_kpac.engine.precision import try_bfloat16
from napari_kpac.training.options import TrainOptions

MEETING_S = 300
"""Seconds that the processes of a run may take to find each other: they read the data first."""
PATIENCE = timedelta(days=30)
"""How long they wait for each other later on: a run may be paused."""
ENDING_S = 10
"""Seconds that a process may take to end."""
MIN_MEASURED_STEPS = 500
"""Shorter runs are over before a measurement of speed pays."""
MEASUREMENT_S = 300
"""Seconds after which a measurement of speed is given up."""
POLL_S = 0.05
"""Seconds between two looks at other processes."""

DECIDING = (
    "batch_size", "crop_size", "precision", "dual", "levels", "blocks", "channels",
    "shared_kernels", "scale_attention", "shape_attention",
)  # fmt: skip
"""Options on which the speed of learning depends."""
_speedups: dict[tuple[object, ...], float] = {}
"""What was measured in this program, by number of processes and deciding options."""

_PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}


class Processes:
    """Who takes part in a run: here, one process on one device.

    Attributes
    ----------
    rank, world
        Which process of how many this is.
    device
        Where it computes.
    threads
        Threads of a CPU that it computes with; 0: as torch sees fit.
    """

    rank, world = 0, 1

    def __init__(self, options: TrainOptions) -> None:
        self.device = resolve(options.device)
        self.threads = options.threads
        self._precision = options.precision

    def begin(self, run: Path, *, resumed: bool) -> Steps[None]:  # noqa: ARG002
        """Start the other processes of a run, or wait for them."""
        yield from ()

    def end(self) -> None:
        """End what was started."""

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Make a network and its optimiser ready for learning together."""
        return net, optimiser

    def backward(self, loss: Tensor) -> None:
        """Compute gradients, the same in every process."""
        loss.backward()

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in the precision that was asked for."""
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes."""
        return value

    def any_stops(self, stopping: bool) -> bool:
        """Return True if any process stops, so that none waits for one that is gone."""
        return float(self.mean(torch.tensor(float(stopping), device=self.device))) > 0


class CoreProcesses(Processes):
    """Processes of one thread each on the CPU of one machine.

    The first process starts the others (see ``__main__``) and tells them when to stop. They
    find each other through a file in a temporary folder.
    """

    def __init__(self, options: TrainOptions, rank: int = 0, store: str = "") -> None:
        super().__init__(options)
        self.rank, self.world = rank, options.devices
        self.threads = 1
        self._store = store
        self._children: list[subprocess.Popen[bytes]] = []
        self._errors: Any = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._group: Any = None
        self._parameters: list[nn.Parameter] = []

    def begin(self, run: Path, *, resumed: bool) -> Steps[None]:
        """Start the other processes, and wait until all are there or one has ended."""
        if self.rank == 0:
            self._folder = tempfile.TemporaryDirectory(prefix="napari-kpac-")
            self._store = str(Path(self._folder.name) / "store")
            self._errors = (Path(self._folder.name) / "errors.txt").open("w+b")
            for rank in range(1, self.world):
                how = "resumed" if resumed else "new"
                child = _start("work", run, rank, self._store, how, threads=1, output=self._errors)
                self._children.append(child)
        store = FileStore(self._store, self.world)
        store.add("there", 1)
        last = time.monotonic() + MEETING_S
        with self._explained():
            while (there := store.add("there", 0)) < self.world:
                if any(child.poll() is not None for child in self._children):
                    raise RuntimeError("a process ended before the first step")
                if time.monotonic() > last:
                    raise RuntimeError("the processes did not find each other")
                yield Progress(there, self.world, "starting processes")
                time.sleep(POLL_S)
            self._group = ProcessGroupGloo(store, self.rank, self.world, PATIENCE)

    def end(self) -> None:
        """End the other processes: without their connection none goes on."""
        # Those that were never met wait for something that does not come.
        patience = ENDING_S if self._group is not None else 0
        self._group = None
        for child in self._children:
            try:
                child.wait(timeout=patience)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self._children = []
        if self._errors is not None:
            self._errors.close()
        if self._folder is not None:
            self._folder.cleanup()

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Remember whose gradients are averaged."""
        self._parameters = list(net.parameters())
        return net, optimiser

    def backward(self, loss: Tensor) -> None:
        """Compute gradients and average them over the processes."""
        loss.backward()
        gradients = [p.grad for p in self._parameters if p.grad is not None]
        averaged = self.mean(torch.cat([gradient.reshape(-1) for gradient in gradients]))
        for gradient, part in zip(
            gradients, averaged.split([each.numel() for each in gradients]), strict=True
        ):
            gradient.copy_(part.view(gradient.shape))

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes."""
        total = value.detach().clone()
        with self._explained():
            self._group.allreduce([total]).wait()
        return total / self.world

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise what became of the other processes where they do not answer."""
        try:
            yield
        except RuntimeError as error:  # what torch raises where a connection breaks
            said = ""
            if self._errors is not None:
                self._errors.seek(0)
                said = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise TrainingError(
                f"another process of this run has ended{': ' + said if said else ''}; what was"
                " saved is kept: resume the run to go on from there"
            ) from error


class FabricProcesses(Processes):
    """Several processes, devices or machines, or a mixed precision, through Fabric."""

    def __init__(self, options: TrainOptions) -> None:
        super().__init__(options)
        try:
            from lightning_fabric import Fabric
        except ImportError as error:
            raise ConfigError(
                "several devices and mixed precision need Lightning Fabric;"
                ' install it with pip install "napari-kpac[train]"'
            ) from error
        self._fabric = Fabric(
            accelerator=self.device.type,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if options.devices * options.nodes > 1 else "auto",
            precision=_PRECISIONS[options.precision],
        )
        self._fabric.launch()
        self.rank, self.world = self._fabric.global_rank, self._fabric.world_size
        self.device = self._fabric.device

    def begin(self, run: Path, *, resumed: bool) -> Steps[None]:  # noqa: ARG002
        """Wait for all processes."""
        yield from ()
        self._fabric.barrier()

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Wrap both, so that gradients are averaged and scaled as needed."""
        wrapped: tuple[nn.Module, torch.optim.Optimizer] = self._fabric.setup(net, optimiser)
        return wrapped

    def backward(self, loss: Tensor) -> None:
        """Compute gradients and average them over the processes."""
        self._fabric.backward(loss)

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in the precision that was asked for."""
        return self._fabric.autocast()

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes."""
        return cast("Tensor", self._fabric.all_reduce(value, reduce_op="mean"))


def join(options: TrainOptions, *, resumed: bool = False) -> Steps[tuple[TrainOptions, Processes]]:
    """Start the processes that the options ask for, or find one's place among them.

    Returns the options as well, with the number of devices that was chosen. A run that is
    ``resumed`` has shown that bfloat16 is of use: a computer that is busy now does not stop it.
    """
    on_cpu = resolve(options.device).type == "cpu"
    if on_cpu and options.precision == "bfloat16":
        trial = try_bfloat16("train")
        if trial.reason:
            raise ConfigError(f"precision={options.precision}: {trial}; train with float32")
        if not trial.is_useful and not resumed:
            raise ConfigError(
                f"precision={options.precision}: {trial}; train with float32, or try again when"
                " this computer is less busy"
            )
    if options.devices == 0:
        count = (yield from fastest_count(options)) if on_cpu else 1
        options = replace(options, devices=count)
    if options.precision == "float16":
        return options, FabricProcesses(options)
    if options.devices * options.nodes == 1:
        return options, Processes(options)
    if on_cpu and options.nodes == 1:
        return options, CoreProcesses(options)
    return options, FabricProcesses(options)


def fastest_count(options: TrainOptions) -> Steps[int]:
    """Return how many processes of one thread learn fastest; 1 where one process with threads does.

    Both ways are tried for a few steps with random images, once for networks and crops alike.
    """
    if options.network == "dmenet":  # its norms see the whole batch
        return 1
    cores = psutil.cpu_count(logical=False) or 1
    count = max(n for n in range(1, cores + 1) if options.batch_size % n == 0)
    if count == 1 or options.total < MIN_MEASURED_STEPS or options.threads:
        return 1
    return count if (yield from speedup(options, count)) > 1 else 1


def speedup(options: TrainOptions, count: int) -> Steps[float]:
    """Return how much faster processes of one thread learn than one process; 0 if they cannot."""
    key = (count, *(getattr(options, name) for name in DECIDING))
    if key not in _speedups:
        try:
            rates = []
            for done, processes in enumerate((1, count)):
                text = f"measuring how fast {processes} process{'es' * (processes > 1)} would be"
                threads, told = 1 if processes > 1 else 0, Progress(done, 2, text)
                rates.append((yield from _measure_rate(options, processes, threads, told)))
            _speedups[key] = rates[1] / rates[0]
        except (OSError, ValueError, subprocess.SubprocessError):
            _speedups[key] = 0.0
    return _speedups[key]


def pixels_per_second(options: TrainOptions, processes: int, threads: int) -> float:
    """Return the pixels per second of a number of processes that work at the same time."""
    return finish(_measure_rate(options, processes, threads, Progress(0, 1, "measuring")))


def _measure_rate(
    options: TrainOptions, processes: int, threads: int, told: Progress
) -> Steps[float]:
    """Measure the pixels per second of some processes, yielding the same while it waits."""
    share = replace(
        options,
        batch_size=max(1, options.batch_size // processes),
        devices=1,
        nodes=1,
        threads=threads,
        device="cpu",
    )
    text = json.dumps(share.to_dict())
    children = [
        _start("measure", text, threads=threads, output=subprocess.PIPE, errors=subprocess.DEVNULL)
        for _ in range(processes)
    ]
    try:
        last = time.monotonic() + MEASUREMENT_S
        while any(child.poll() is None for child in children):
            if time.monotonic() > last:
                raise subprocess.TimeoutExpired("measure", MEASUREMENT_S)
            yield told
            time.sleep(POLL_S)
        return sum(float(child.communicate()[0]) for child in children)
    finally:
        for child in children:
            child.kill()
            child.wait()
            if child.stdout is not None:
                child.stdout.close()


def _start(
    *arguments: object, threads: int, output: Any, errors: Any = subprocess.STDOUT
) -> subprocess.Popen[bytes]:
    """Start a process of our own with a number of threads; 0: as torch sees fit."""
    variables = {**os.environ, **allocator_environment()}
    if threads:
        variables["OMP_NUM_THREADS"] = str(threads)
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "napari_kpac.training", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        env=variables,
    )
