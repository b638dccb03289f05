"""One process or many: who computes what, and how gradients come together.

One device, and the cores of a CPU, need nothing but torch; several accelerators or machines go
through Lightning Fabric. Not for: what is computed (loop).
"""

from __future__ import annotations

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
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch._C._distributed_c10d import FileStore, ProcessGroupGloo

from napari_kpac.core.errors import ConfigError, TrainingError
from napari_kpac.engine.device import resolve
from napari_kpac.engine.memory import allocator_environment
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.speed import fastest_count

MEETING = timedelta(minutes=5)
"""How long the processes of a run may take to find each other: they read the data first."""
PATIENCE = timedelta(days=30)
"""How long they wait for each other later on: a run may be paused."""
ENDING_S = 10
"""Seconds that a process may take to end."""

_PRECISIONS: dict[str, Any] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
    "float16": "16-mixed",
}


class Processes(Protocol):
    """Who takes part in a run."""

    rank: int
    world: int
    device: torch.device
    threads: int
    """Threads of a CPU that each process computes with; 0: as torch sees fit."""

    def begin(self, run: Path, *, resumed: bool) -> None:
        """Start the other processes of a run, or wait for them."""

    def end(self) -> None:
        """End what was started."""

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Make a network and its optimiser ready for learning together."""

    def backward(self, loss: Tensor) -> None:
        """Compute gradients, the same in every process."""

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in the precision that was asked for."""

    def mean(self, value: Tensor) -> Tensor:
        """Return the mean over all processes."""

    def any_stops(self, stopping: bool) -> bool:
        """Tell the others whether this process stops; return True if any does."""


class Alone:
    """One process on one device."""

    rank, world = 0, 1

    def __init__(self, options: TrainOptions) -> None:
        self.device = resolve(options.device)
        self.threads = options.threads
        self._precision = options.precision

    def begin(self, run: Path, *, resumed: bool) -> None:
        """There is nobody to wait for."""

    def end(self) -> None:
        """Nothing to do."""

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Nothing to do."""
        return net, optimiser

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in float32 or bfloat16."""
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def mean(self, value: Tensor) -> Tensor:
        """Return the value itself."""
        return value

    def any_stops(self, stopping: bool) -> bool:
        """There is nobody else."""
        return stopping


class Cores(Alone):
    """Processes of one thread each on the CPU of one machine.

    The first process starts the others (see ``worker``) and tells them when to stop. They
    find each other through a file beside the run.
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

    def begin(self, run: Path, *, resumed: bool) -> None:
        """Start the other processes, and meet them."""
        if self.rank == 0:
            self._folder = tempfile.TemporaryDirectory(prefix="napari-kpac-")
            self._store = str(Path(self._folder.name) / "store")
            self._errors = (Path(self._folder.name) / "errors.txt").open("w+b")
            for rank in range(1, self.world):
                command = [sys.executable, "-m", "napari_kpac.training.worker", str(run)]
                command += [str(rank), self._store, "resumed" if resumed else "new"]
                self._children.append(
                    subprocess.Popen(  # noqa: S603 - our own module
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=self._errors,
                        stderr=self._errors,
                        env={**os.environ, **allocator_environment(), "OMP_NUM_THREADS": "1"},
                    )
                )
        store = FileStore(self._store, self.world)
        self._meet(store)
        with self._explained():
            self._group = ProcessGroupGloo(store, self.rank, self.world, PATIENCE)

    def _meet(self, store: Any) -> None:
        """Wait until all processes are there, or one has ended."""
        store.add("there", 1)
        last = time.monotonic() + MEETING.total_seconds()
        with self._explained():
            while store.add("there", 0) < self.world:
                if any(child.poll() is not None for child in self._children):
                    raise RuntimeError("a process ended before the first step")
                if time.monotonic() > last:
                    raise RuntimeError("the processes did not find each other")
                time.sleep(0.05)

    def end(self) -> None:
        """End the other processes: without their connection none goes on."""
        self._group = None
        for child in self._children:
            try:
                child.wait(timeout=ENDING_S)
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
        """Keep in mind whose gradients are averaged."""
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

    def any_stops(self, stopping: bool) -> bool:
        """Tell the others, so that none waits for gradients of a process that is gone."""
        return float(self.mean(torch.tensor(float(stopping)))) > 0

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what became of the other processes where they do not answer."""
        try:
            yield
        except RuntimeError as error:  # what torch raises where a connection breaks
            said = ""
            if self._errors is not None:
                self._errors.seek(0)
                said = self._errors.read().decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise TrainingError(
                f"another process of this run has ended{': ' + said if said else ''}; what was"
                " saved is kept: --resume goes on from there"
            ) from error


class Together:
    """Several processes, devices or machines, or a mixed precision, through Fabric."""

    def __init__(self, options: TrainOptions) -> None:
        try:
            from lightning_fabric import Fabric
        except ImportError as error:
            raise ConfigError(
                "several devices and mixed precision need Lightning Fabric;"
                ' install it with pip install "napari-kpac[train]"'
            ) from error
        kind = resolve(options.device).type
        self._fabric = Fabric(
            accelerator=kind,
            devices=options.devices,
            num_nodes=options.nodes,
            strategy="ddp" if options.devices * options.nodes > 1 else "auto",
            precision=_PRECISIONS[options.precision],
        )
        self._fabric.launch()
        self.rank, self.world = self._fabric.global_rank, self._fabric.world_size
        self.device = self._fabric.device
        self.threads = options.threads

    def begin(self, run: Path, *, resumed: bool) -> None:  # noqa: ARG002
        """Wait for all processes."""
        self._fabric.barrier()

    def end(self) -> None:
        """Nothing to do: each process ends by itself."""

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
        mean = self._fabric.all_reduce(value, reduce_op="mean")
        return cast("Tensor", mean)

    def any_stops(self, stopping: bool) -> bool:
        """Tell the others, so that none waits for gradients of a process that is gone."""
        return float(self.mean(torch.tensor(float(stopping), device=self.device))) > 0


def join(options: TrainOptions) -> tuple[TrainOptions, Processes]:
    """Start the processes that the options ask for, or find one's place among them.

    Returns the options as well, with the number of devices that was chosen.
    """
    on_cpu = resolve(options.device).type == "cpu"
    if options.devices == 0:
        options = replace(options, devices=fastest_count(options) if on_cpu else 1)
    alone = options.devices * options.nodes == 1
    if on_cpu and options.nodes == 1 and options.precision != "float16":
        return options, Alone(options) if alone else Cores(options)
    if alone and options.precision != "float16":
        return options, Alone(options)
    return options, Together(options)
