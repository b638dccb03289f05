"""One process or many: who computes what, and how gradients come together.

One device at full precision needs nothing but torch; everything else goes through Lightning
Fabric. Not for: what is computed (loop).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn

from napari_kpac.engine.device import resolve
from napari_kpac.errors import ConfigError
from napari_kpac.training.options import TrainOptions

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

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Make a network and its optimiser ready for learning together."""

    def backward(self, loss: Tensor) -> None:
        """Compute gradients, the same in every process."""

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in the precision that was asked for."""

    def mean(self, value: Tensor) -> Tensor:
        """Give the mean over all processes."""

    def any_stops(self, stopping: bool) -> bool:
        """Tell the others whether this process stops; gives whether any does."""

    def wait(self) -> None:
        """Wait for all processes."""


class Alone:
    """One process on one device."""

    rank, world = 0, 1

    def __init__(self, options: TrainOptions) -> None:
        self.device = resolve(options.device)

    def set_up(
        self, net: nn.Module, optimiser: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Nothing to do."""
        return net, optimiser

    def backward(self, loss: Tensor) -> None:
        """Compute gradients."""
        loss.backward()

    def computing(self) -> AbstractContextManager[Any]:
        """Compute in float32."""
        return nullcontext()

    def mean(self, value: Tensor) -> Tensor:
        """Give the value itself."""
        return value

    def any_stops(self, stopping: bool) -> bool:
        """There is nobody else."""
        return stopping

    def wait(self) -> None:
        """There is nobody to wait for."""


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
        """Give the mean over all processes."""
        mean = self._fabric.all_reduce(value, reduce_op="mean")
        return cast("Tensor", mean)

    def any_stops(self, stopping: bool) -> bool:
        """Tell the others, so that none waits for gradients of a process that is gone."""
        return float(self.mean(torch.tensor(float(stopping), device=self.device))) > 0

    def wait(self) -> None:
        """Wait for all processes."""
        self._fabric.barrier()


def join(options: TrainOptions) -> Processes:
    """Start the processes that the options ask for, or find one's place among them."""
    plain = options.devices * options.nodes == 1 and options.precision == "float32"
    return Alone(options) if plain else Together(options)
