"""The layers of the networks.

Not for: whole networks, or anything that knows of KPAC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEAK = 0.2
INIT_STD = 0.04


def lrelu(x: Tensor) -> Tensor:
    """Compute the leaky ReLU of slope 0.2 in place: every caller owns the tensor that it passes."""
    return F.leaky_relu_(x, LEAK)


def needs_gradient(weight: Tensor) -> bool:
    """Return True if a gradient of the weight will be computed."""
    return torch.is_grad_enabled() and weight.requires_grad


def _slow_gradient(x: Tensor, weight: Tensor) -> bool:
    """Return True if torch takes long for the gradient: on CPUs without AVX-512, in float32."""
    return (
        needs_gradient(weight)
        and x.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.cpu.get_cpu_capability() != "AVX512"
    )


def conv2d(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: int = 1, padding: int, dilation: int
) -> Tensor:
    """Convolve; where gradients are slow on this CPU, in the faster way."""
    if _slow_gradient(x, weight):
        how = (stride, padding, dilation)
        convolved: Tensor = _LearningConv.apply(x, weight, bias, *how)  # type: ignore[no-untyped-call]
        return convolved
    return F.conv2d(x, weight, bias, stride, padding, dilation)


def conv2d_lrelu(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, stride: int = 1, padding: int, dilation: int
) -> Tensor:
    """Convolve and activate: in one pass over memory where oneDNN can, else in two."""
    if _fuses(x, weight):
        how = [[value, value] for value in (padding, stride, dilation)]
        fused: Tensor = torch.ops.mkldnn._convolution_pointwise(x, weight, bias, *how, *_LRELU)
        return fused
    return lrelu(conv2d(x, weight, bias, stride=stride, padding=padding, dilation=dilation))


_LRELU = (1, "leaky_relu", [LEAK], "")
"""Of a fused convolution: groups, what follows it, its parameter, and no variant of it."""


def _fuses(x: Tensor, weight: Tensor) -> bool:
    """Return True if a convolution and its activation can be one operation: inference on a CPU."""
    return (
        x.device.type == "cpu"
        and x.dtype == weight.dtype == torch.float32
        and not (torch.is_grad_enabled() and (x.requires_grad or weight.requires_grad))
        and not torch.is_autocast_enabled("cpu")
        and bool(torch.backends.mkldnn.enabled)
        and _has_fused_convolutions()
    )


@lru_cache(maxsize=1)
def _has_fused_convolutions() -> bool:
    """Return True if this build of torch has the operations, which are not part of its API."""
    x, weight = torch.linspace(-1, 1, 16).view(1, 1, 4, 4), torch.ones(1, 1, 2, 2)
    try:
        fused = torch.ops.mkldnn._convolution_pointwise(
            x, weight, None, [0, 0], [1, 1], [1, 1], *_LRELU
        )
        transposed = torch.ops.mkldnn._convolution_transpose_pointwise(
            x, weight, None, [0, 0], [0, 0], [2, 2], [1, 1], *_LRELU
        )
    except (AttributeError, RuntimeError, TypeError):
        return False
    return torch.allclose(fused, lrelu(F.conv2d(x, weight))) and torch.allclose(
        transposed, lrelu(F.conv_transpose2d(x, weight, stride=2))
    )


class _LearningConv(torch.autograd.Function):
    """A convolution whose gradients come quickly on a CPU.

    Channels-last is the faster layout for the result and for the gradient of the input, but
    the gradient of the kernel takes twice as long in it as in the planar layout.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, *how: int) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how = [(value, value) for value in how]
        return F.conv2d(x, weight, bias, *how)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        wanted = ctx.needs_input_grad

        def part(output: Tensor, x: Tensor, weight: Tensor, mask: tuple[bool, ...]) -> Any:
            return torch.ops.aten.convolution_backward(
                output, x, weight, None, *ctx.how, False, (0, 0), 1, mask
            )

        for_x = part(gradient, x, weight, (True, False, False))[0] if wanted[0] else None
        gradient_, x_, weight_ = (tensor.contiguous() for tensor in (gradient, x, weight))
        for_weight = part(gradient_, x_, weight_, (False, True, False))[1] if wanted[1] else None
        for_bias = gradient.sum(dim=(0, 2, 3)) if wanted[2] else None
        return for_x, for_weight, for_bias, None, None, None


class Conv(nn.Conv2d):
    """A square convolution that learns quickly on a CPU too."""

    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        (stride, _), (dilation, _) = self.stride, self.dilation
        padding = int(self.padding[0])
        return conv2d(x, weight, bias, stride=stride, padding=padding, dilation=dilation)

    def activated(self, x: Tensor) -> Tensor:
        """Return the leaky ReLU of the convolution."""
        return self.convolved(self.padded(x))

    def convolved(self, x: Tensor) -> Tensor:
        """Return the same for an input that :meth:`padded` returned."""
        (stride, _), (dilation, _) = self.stride, self.dilation
        padding = int(self.padding[0])
        return conv2d_lrelu(
            x, self.weight, self.bias, stride=stride, padding=padding,
            dilation=dilation,
        )  # fmt: skip

    def padded(self, x: Tensor) -> Tensor:
        """Return the input as the convolution takes it."""
        return x


def same_conv(
    inputs: int, outputs: int, size: int, *, dilation: int = 1, bias: bool = True
) -> Conv:
    """Make a stride-1 convolution that keeps the size, padded symmetrically with zeros."""
    padding = dilation * (size - 1) // 2
    return Conv(inputs, outputs, size, padding=padding, dilation=dilation, bias=bias)


class StridedConv(Conv):
    """3x3 convolution of stride 2 under one of the two padding rules."""

    def __init__(self, inputs: int, outputs: int, *, symmetric: bool) -> None:
        super().__init__(inputs, outputs, 3, stride=2, padding=1 if symmetric else 0)
        self.symmetric = symmetric

    def forward(self, x: Tensor) -> Tensor:
        """Halve the size."""
        return super().forward(self.padded(x))

    def padded(self, x: Tensor) -> Tensor:
        """Pad by the authors' rule (SAME): 0 before and 1 after on even sizes."""
        if self.symmetric:
            return x
        height, width = x.shape[-2:]
        return F.pad(x, (width % 2, 1, height % 2, 1))


class ConcatConv(Conv):
    """Convolution over a concatenation, which never builds the concatenation.

    Convolution is linear, so the result is the sum of one convolution per part;
    a part that did not change need not be computed again (:meth:`partial`).
    """

    def __init__(self, parts: Sequence[int], outputs: int, size: int) -> None:
        super().__init__(sum(parts), outputs, size, padding=(size - 1) // 2)
        self.parts = tuple(parts)

    def part_weight(self, index: int) -> Tensor:
        """Return the slice of the kernel that sees part ``index``."""
        start = sum(self.parts[:index])
        return self.weight[:, start : start + self.parts[index]]

    def partial(self, index: int, x: Tensor, *, bias: bool = False) -> Tensor:
        """Convolve part ``index`` alone, without the bias unless asked."""
        given = self.bias if bias else None
        return self._conv_forward(x, self.part_weight(index), given)

    def forward(self, inputs: Iterable[Tensor]) -> Tensor:
        """Convolve the concatenation of the inputs, each of which is needed only once."""
        parts = (self.partial(i, x, bias=i == 0) for i, x in enumerate(inputs))
        total = next(parts)
        for part in parts:
            total = total.add_(part)
        return total


class ColourHead(ConcatConv):
    """A :class:`ConcatConv` with so few outputs that a CPU evaluates it row by row of its kernel.

    A convolution to three channels leaves most of a CPU's vector unit idle. So the rows of
    the kernel become output channels of a kernel one row high, and their results are added
    up, each shifted by its row: the same multiplications in half the time.
    """

    LANES = 8
    by_row = True
    """False: evaluated in one piece, for graphs that are to run elsewhere."""

    def partial(self, index: int, x: Tensor, *, bias: bool = False) -> Tensor:
        """Convolve part ``index`` alone, without the bias unless asked."""
        weight = self.part_weight(index)
        if not self.by_row or x.device.type != "cpu" or needs_gradient(weight):
            return super().partial(index, x, bias=bias)
        outputs, inputs, size, _ = weight.shape
        rows = weight.transpose(1, 2).transpose(0, 1).reshape(size * outputs, inputs, 1, size)
        idle = -len(rows) % self.LANES
        rows = F.pad(rows, (0, 0, 0, 0, 0, 0, 0, idle))
        half, height = (size - 1) // 2, x.shape[-2]
        stacked = F.conv2d(x, rows, None, padding=half)
        shifted = [
            stacked[:, row * outputs : (row + 1) * outputs, row : row + height]
            for row in range(size)
        ]
        total = shifted[0] + shifted[1]
        for part in shifted[2:]:
            total = total.add_(part)
        return total.add_(self.bias[:, None, None]) if bias and self.bias is not None else total


def input_halo(layer: nn.Conv2d | nn.ConvTranspose2d, halo: int = 0) -> int:
    """Return how many cells around its region a layer must see to be exact ``halo`` cells around.

    Cells of the input are counted at its own resolution. A region begins at a multiple of the
    stride, so that it is made of whole cells on both sides of the layer.
    """
    (size, _), (stride, _), before = layer.kernel_size, layer.stride, int(layer.padding[0])
    if isinstance(layer, nn.ConvTranspose2d):
        return (halo + size - 1 - before) // stride
    after = layer.dilation[0] * (size - 1) - before - (stride - 1)
    return stride * halo + max(before, after)


class UpsamplingConv(nn.ConvTranspose2d):
    """The 4x4 transposed convolution that doubles the size."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 4, stride=2, padding=1)

    def activated(self, x: Tensor) -> Tensor:
        """Return the leaky ReLU of the convolution."""
        if _fuses(x, self.weight):
            fused: Tensor = torch.ops.mkldnn._convolution_transpose_pointwise(
                x, self.weight, self.bias, [1, 1], [0, 0], [2, 2], [1, 1], *_LRELU
            )
            return fused
        return lrelu(self(x))


def initialise(module: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw all weights as the authors do: normal with std 0.04, biases zero."""
    for child in module.modules():
        if isinstance(child, nn.Conv2d | nn.ConvTranspose2d | nn.Linear):
            nn.init.normal_(child.weight, std=INIT_STD, generator=generator)
            if child.bias is not None:
                nn.init.zeros_(child.bias)
