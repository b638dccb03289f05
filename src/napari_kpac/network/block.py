"""One KPAC block: parallel atrous convolutions weighted by alpha and beta.

Not for: encoder and decoder (net.py), or the modulation of alpha (engine).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from napari_kpac.network.config import KPACConfig
from napari_kpac.network.layers import (
    ConcatConv,
    Conv,
    conv2d_lrelu,
    input_halo,
    lrelu,
    same_conv,
)


class BlockState(NamedTuple):
    """Everything that one block computes on its way from input to output."""

    branches: tuple[Tensor, ...]
    """Per dilation: the activated atrous convolution, before any attention."""
    alpha: Tensor
    """Scale attention (batch, dilations, h, w), as used: after modulation if there was any."""
    beta: Tensor
    """Shape attention (batch, channels)."""
    fused: Tensor
    """The block's output, input of the next one."""


class ScaleAttention(nn.Module):
    """Per-pixel weights in 0..1 of every dilation (a sigmoid each, not a softmax)."""

    def __init__(self, config: KPACConfig) -> None:
        super().__init__()
        widths = (config.wide, *config.scale_widths)
        self.hidden = nn.ModuleList(same_conv(a, b, 5, dilation=2) for a, b in pairwise(widths))
        self.head = same_conv(widths[-1], len(config.dilations), 5)

    @property
    def halo(self) -> int:
        """Cells around its region on which alpha depends."""
        halo = 0
        for conv in (*self.hidden, self.head):
            halo = input_halo(cast("nn.Conv2d", conv), halo)
        return halo

    def forward(self, x: Tensor) -> Tensor:
        """Compute alpha (batch, dilations, h, w)."""
        for conv in self.hidden:
            x = cast("Conv", conv).activated(x)
        return torch.sigmoid(self.head(x))


class ShapeAttention(nn.Module):
    """Weights in 0..1 of the atrous channels, from the global mean of the block's input."""

    def __init__(self, config: KPACConfig) -> None:
        super().__init__()
        self.squeeze = nn.Linear(config.wide, config.shape_hidden)
        self.expand = nn.Linear(config.shape_hidden, config.channels)

    def forward(self, mean: Tensor) -> Tensor:
        """Compute beta (batch, channels) from the global mean (batch, wide)."""
        return torch.sigmoid(self.expand(lrelu(self.squeeze(mean))))


class KPACBlock(nn.Module):
    """Kernel-sharing parallel atrous convolutions with scale and shape attention.

    Each step is a method of its own, so that later stages can be repeated without
    the earlier ones.
    """

    def __init__(self, config: KPACConfig) -> None:
        super().__init__()
        self.dilations = config.dilations
        kernels = 1 if config.shared_kernels else len(config.dilations)
        self.atrous = nn.ModuleList(
            same_conv(config.wide, config.channels, config.kernel_size, bias=False)
            for _ in range(kernels)
        )
        self.scale = ScaleAttention(config) if config.scale_attention else None
        self.shape = ShapeAttention(config) if config.shape_attention else None
        self.fusion = ConcatConv([config.channels] * len(config.dilations), config.wide, 3)

    @property
    def branch_halo(self) -> int:
        """Cells around its region on which a branch of the largest dilation depends."""
        kernel = cast("nn.Conv2d", self.atrous[0])
        return max(self.dilations) * (kernel.kernel_size[0] - 1) // 2

    def branches(self, x: Tensor) -> Iterator[Tensor]:
        """Run the atrous convolutions: one activated map per dilation, without attention."""
        return (self.branch(index, x) for index in range(len(self.dilations)))

    def branch(self, index: int, x: Tensor) -> Tensor:
        """Run one of the atrous convolutions."""
        dilation = self.dilations[index]
        kernel = self.atrous[index % len(self.atrous)]
        assert isinstance(kernel, nn.Conv2d)  # noqa: S101 - for the type checker
        weight = kernel.weight
        padding = dilation * (weight.shape[-1] - 1) // 2
        return conv2d_lrelu(x, weight, None, padding=padding, dilation=dilation)

    def alpha(self, x: Tensor) -> Tensor:
        """Compute the scale attention; ones where the block has none."""
        if self.scale is None:
            return x.new_ones(x.shape[0], len(self.dilations), *x.shape[-2:])
        alpha: Tensor = self.scale(x)
        return alpha

    def beta(self, x: Tensor) -> Tensor:
        """Compute the shape attention; ones where the block has none."""
        return self.beta_of_mean(x.mean(dim=(2, 3)))

    def beta_of_mean(self, mean: Tensor) -> Tensor:
        """Compute the shape attention from the global mean (batch, channels) of the input."""
        if self.shape is None:
            return mean.new_ones(mean.shape[0], self.fusion.parts[0])
        beta: Tensor = self.shape(mean)
        return beta

    def fuse(self, branches: Iterable[Tensor], alpha: Tensor, beta: Tensor) -> Tensor:
        """Weight the branches and aggregate them into the block's output, one after the other."""
        return lrelu(self.fusion(_weighted(branches, alpha, beta)))

    def fuse_steps(
        self, branches: Iterable[Tensor], alpha: Tensor, beta: Tensor
    ) -> Generator[None, None, Tensor]:
        """Do the same, with the same result bit by bit; yields after every branch."""
        total: Tensor | None = None
        for index, branch in enumerate(_weighted(branches, alpha, beta)):
            part = self.fusion.partial(index, branch, bias=index == 0)
            total = part if total is None else total.add_(part)
            yield
        assert total is not None  # noqa: S101 - there is at least one dilation
        return lrelu(total)

    def shares(self, branches: Iterable[Tensor], alpha: Tensor, beta: Tensor) -> Iterator[Tensor]:
        """Compute the share of every branch in the fusion's sum, without its bias."""
        weighted = _weighted(branches, alpha, beta)
        return (self.fusion.partial(i, branch) for i, branch in enumerate(weighted))

    def fuse_shares(self, shares: Sequence[Tensor], gains: Iterable[float]) -> Tensor:
        """Fuse shares under a gain each: convolution is linear, so a weighted sum is enough."""
        bias = cast("Tensor", self.fusion.bias)
        total = torch.empty_like(shares[0]).copy_(bias[None, :, None, None])
        for share, gain in zip(shares, gains, strict=True):
            total.add_(share, alpha=float(gain))
        return lrelu(total)


def _weighted(branches: Iterable[Tensor], alpha: Tensor, beta: Tensor) -> Iterator[Tensor]:
    """Multiply every branch by its alpha and by beta."""
    for index, branch in enumerate(branches):
        yield branch * (alpha[:, index : index + 1] * beta[:, :, None, None])
