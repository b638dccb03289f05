"""What a network costs: parameters and floating-point operations, by counting.

Not for: time and memory, which are measured, not counted (cli bench).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode


@dataclass(frozen=True)
class Cost:
    """Operations of one forward pass, two per multiply-accumulate."""

    flops: int
    """Of everything."""
    transposed: int
    """Of the transposed convolutions alone."""

    @property
    def paper_flops(self) -> int:
        """As the paper counts them: without the transposed convolutions."""
        return self.flops - self.transposed


def count_parameters(net: nn.Module) -> int:
    """Count the trainable numbers of a network."""
    return sum(parameter.numel() for parameter in net.parameters())


def count_flops(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> Cost:
    """Count the operations of a forward pass on inputs of these shapes.

    Nothing is computed: the network is built and run on torch's meta device.
    """
    with torch.device("meta"):
        net = make().eval()
        inputs = [torch.empty(shape) for shape in shapes]
    counter = _Counter()
    with torch.no_grad(), counter:
        net(*inputs)
    return Cost(2 * counter.macs, 2 * counter.transposed_macs)


class _Counter(TorchDispatchMode):
    """Sees every tensor operation and counts those that multiply and accumulate."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.macs = 0
        self.transposed_macs = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.convolution.default:
            self._convolution(cast(Tensor, args[0]), cast(Tensor, args[1]), args[6], result)
        elif func is torch.ops.aten.addmm.default:
            self.macs += prod(args[1].shape) * args[2].shape[1]
        return result

    def _convolution(self, x: Tensor, weight: Tensor, transposed: bool, y: Tensor) -> None:
        # Each position of the output (of the input, where transposed) meets the whole kernel.
        positions = prod((x if transposed else y).shape[2:]) * x.shape[0]
        macs = positions * weight.numel()
        self.macs += macs
        if transposed:
            self.transposed_macs += macs
