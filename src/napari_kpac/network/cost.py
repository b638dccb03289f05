"""Parameters and floating-point operations of a network, by counting.

Not for: time and memory, which are measured (evaluation.speed).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


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
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        net(*inputs)
    by_module = counter.get_flop_counts()
    transposed = (
        sum(by_module.get(f"{type(net).__name__}.{name}", {}).values())
        for name, module in net.named_modules()
        if isinstance(module, nn.ConvTranspose2d)
    )
    return Cost(counter.get_total_flops(), sum(transposed))
