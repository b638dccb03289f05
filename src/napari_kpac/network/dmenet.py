"""DMENet (Lee et al., CVPR 2019): a network that estimates the defocus of every pixel.

Written from published descriptions; the widths and biases follow from the parameters that are
counted for it: 26,939,819 with its five auxiliary heads, 25,349,025 without. Not for: running it on
large images (engine.dmenet), weight files (weights), or what deblurs with its maps (optics).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_kpac.core.errors import ConfigError
from napari_kpac.network.config import check_fields, is_whole
from napari_kpac.network.layers import ConcatConv, Conv, lrelu, same_conv

MEANS_BGR = (103.939, 116.779, 123.68)
"""Subtracted from pixels in 0..255: what VGG-19 was trained with."""
VGG_CONVS = (2, 2, 4, 4, 4)
"""Convolutions of VGG-19 at each resolution, full resolution first."""
DECODER_CONVS = (3, 3, 3, 1)
"""Convolutions of the decoder at each resolution, the lowest first."""
RESIDUAL_BLOCKS = 7
FULL_SCALE_PX = 15.0
"""Diameter of the blur that the network calls 1."""
NORM_EPSILON, NORM_MOMENTUM = 1e-5, 0.1


def sigma_of(defocus: Tensor) -> Tensor:
    """Return sigma in pixels of the network's output d in 0..1: max(0, (15 d - 1) / 2)."""
    return ((FULL_SCALE_PX * defocus - 1) / 2).clamp(min=0)


def defocus_of(radius: Tensor) -> Tensor:
    """Return what the network should say of blur of a radius in pixels, at most 1 (14 px).

    A Gaussian's radius is twice its sigma.
    """
    return ((radius + 1) / FULL_SCALE_PX).clamp(0, 1)


@dataclass(frozen=True)
class DMENetConfig:
    """Shape of a DMENet; the defaults are the published network.

    Parameters
    ----------
    width
        Channels of the first level, an even number. The other levels are 2, 4, 8 and 8 times as
        wide.
    auxiliary
        Whether the network has the heads that only training uses.
    """

    KIND: ClassVar[str] = "dmenet"

    width: int = 64
    auxiliary: bool = True

    def __post_init__(self) -> None:
        if not is_whole(self.width, range(2, 513, 2)):
            raise ConfigError(f"DMENetConfig.width = {self.width!r}: must be even, from 2 to 512")
        if not isinstance(self.auxiliary, bool):
            raise ConfigError(f"DMENetConfig.auxiliary = {self.auxiliary!r}: must be true or false")

    @property
    def multiple(self) -> int:
        """Image sides must be multiples of this number."""
        return int(2 ** (len(VGG_CONVS) - 1))

    @property
    def levels(self) -> int:
        """Number of times that the size is halved."""
        return len(VGG_CONVS) - 1

    @property
    def views(self) -> int:
        """Images that go in."""
        return 1

    @property
    def encoder_widths(self) -> tuple[int, ...]:
        """Channels at each resolution of the encoder, full resolution first."""
        return tuple(factor * self.width for factor in (1, 2, 4, 8, 8))

    @property
    def decoder_widths(self) -> tuple[int, ...]:
        """Channels at each resolution of the decoder, the lowest first."""
        return tuple(factor * self.width for factor in (4, 2, 1, 1))

    @property
    def head_widths(self) -> tuple[int, ...]:
        """Channels that the auxiliary heads take: of the encoder's end, then of the decoder."""
        return (self.encoder_widths[-1], *self.decoder_widths) if self.auxiliary else ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DMENetConfig:
        """Make a configuration from what :meth:`to_dict` returns; an unknown field is an error."""
        return cls(**check_fields(cls, values))


class MirroredConv(Conv):
    """3x3 convolution that mirrors the image at its border, border pixels included."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve; one pixel mirrored so is that pixel repeated."""
        return super().forward(F.pad(x, (1, 1, 1, 1), mode="replicate"))


class ShiftNorm(nn.Module):
    """Batch norm that shifts and does not scale: beta without gamma."""

    mean: Tensor
    variance: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(channels))
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("variance", torch.ones(channels))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the batch while learning, otherwise by what was seen then."""
        return F.batch_norm(
            x, self.mean, self.variance, None, self.beta, self.training, NORM_MOMENTUM, NORM_EPSILON
        )


class ConvUnit(nn.Module):
    """Convolution over a concatenation, batch norm, leaky ReLU."""

    def __init__(self, parts: Sequence[int], outputs: int, size: int = 3) -> None:
        super().__init__()
        self.conv = ConcatConv(parts, outputs, size)
        self.norm = ShiftNorm(outputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run the unit on its parts."""
        return lrelu(self.norm(self.conv(inputs)))


class EncoderLevel(nn.Module):
    """The convolutions of VGG-19 at one resolution."""

    def __init__(self, inputs: int, outputs: int, count: int) -> None:
        super().__init__()
        widths = (inputs, *[outputs] * count)
        self.convs = nn.ModuleList(MirroredConv(a, b) for a, b in pairwise(widths))

    def forward(self, x: Tensor) -> Tensor:
        """Run the level."""
        for conv in self.convs:
            x = F.relu_(conv(x))
        return x


class DecoderLevel(nn.Module):
    """Doubles the size, takes the skip in and convolves."""

    def __init__(self, deep: int, skip: int, outputs: int, count: int) -> None:
        super().__init__()
        self.enter = ConvUnit((deep, skip), outputs)
        self.refine = nn.Sequential(*(ConvUnit((outputs,), outputs) for _ in range(count - 1)))

    def forward(self, x: Tensor, skip: Tensor) -> Tensor:
        """Run the level."""
        x = F.interpolate(x, scale_factor=2.0, mode="nearest")
        refined: Tensor = self.refine(self.enter(x, skip))
        return refined


class ResidualUnit(nn.Module):
    """A 1x1 unit plus two 3x3 units."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.shortcut = ConvUnit((channels,), channels, 1)
        self.first = ConvUnit((channels,), channels)
        self.second = ConvUnit((channels,), channels)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        added: Tensor = self.shortcut(x) + self.second(self.first(x))
        return added


class AuxiliaryHead(nn.Module):
    """Estimates defocus from features of one resolution; only training looks at it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.narrow = ConvUnit((channels,), channels // 2)
        self.output = same_conv(channels // 2, 1, 3)
        self.norm = ShiftNorm(1)

    def forward(self, x: Tensor) -> Tensor:
        """Estimate d at the resolution of the features."""
        return torch.sigmoid(self.norm(self.output(self.narrow(x))))


class DMENet(nn.Module):
    """Estimates d in 0..1 for every pixel; ``sigma_of`` makes pixels of it.

    VGG-19 up to conv5_4 is the encoder. The decoder doubles the size four times, seven residual
    blocks and three convolutions refine the map at full resolution.
    """

    STAGES = len(VGG_CONVS) + len(DECODER_CONVS) + RESIDUAL_BLOCKS + 1
    """Parts of a forward pass (see :meth:`stages`)."""

    card: Any = None
    """The model card, where the network comes from a file."""

    def __init__(self, config: DMENetConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or DMENetConfig()
        widths, deep = config.encoder_widths, config.encoder_widths[-1]
        self.encoder = nn.ModuleList(
            EncoderLevel(inputs, outputs, count)
            for (inputs, outputs), count in zip(pairwise((3, *widths)), VGG_CONVS, strict=True)
        )
        inputs = (deep, *config.decoder_widths)
        self.decoder = nn.ModuleList(
            DecoderLevel(below, skip, outputs, count)
            for (below, outputs), skip, count in zip(
                pairwise(inputs), reversed(widths[:-1]), DECODER_CONVS, strict=True
            )
        )
        width = config.width
        self.residual = nn.ModuleList(ResidualUnit(width) for _ in range(RESIDUAL_BLOCKS))
        self.gather = ConvUnit((width,), width)
        self.narrow = ConvUnit((width,), width // 2)
        self.output = same_conv(width // 2, 1, 3)
        self.heads = nn.ModuleList(AuxiliaryHead(channels) for channels in config.head_widths)
        initialise_he(self)

    @property
    def halo(self) -> int:
        """Pixels around a region on which its map depends; regions begin at multiples of 16."""
        halo = 3 + 2 * RESIDUAL_BLOCKS
        for count in reversed(DECODER_CONVS):
            halo = -(-(halo + count) // 2)
        for count in reversed(VGG_CONVS):
            halo = (halo + count) * 2
        return halo // 2

    def forward(self, image: Tensor, *, auxiliary: bool = False) -> tuple[Tensor, ...]:
        """Estimate the defocus of images (batch, 3, H, W) in 0..1; sides are multiples of 16.

        Returns
        -------
        tuple of Tensor
            d in 0..1, (batch, 1, H, W); with ``auxiliary`` also what each head says, the lowest
            resolution first.
        """
        said: list[Tensor] = []
        stages = self.stages(image, said if auxiliary else None)
        while True:
            try:
                next(stages)
            except StopIteration as stop:
                return (stop.value, *said)

    def stages(
        self, image: Tensor, said: list[Tensor] | None = None
    ) -> Generator[None, None, Tensor]:
        """Do the same in :attr:`STAGES` parts: yields after each, returns d.

        What the auxiliary heads say is added to the list ``said``.
        """
        heads = iter(self.heads if said is not None else ())

        def listen(features: Tensor) -> None:
            for head in heads:
                assert said is not None  # noqa: S101 - for the type checker
                said.append(head(features))
                break

        x = image.flip(1) * 255 - image.new_tensor(MEANS_BGR).view(1, 3, 1, 1)
        skips: list[Tensor] = []
        for level in self.encoder:
            x = level(F.max_pool2d(x, 2) if skips else x)
            skips.append(x)
            yield
        skips.pop()
        listen(x)
        for level in self.decoder:
            x = level(x, skips.pop())
            listen(x)
            yield
        for block in self.residual:
            x = block(x)
            yield
        x = torch.sigmoid(self.output(self.narrow(self.gather(x))))
        yield
        return x


def initialise_he(net: nn.Module, generator: torch.Generator | None = None) -> None:
    """Draw all kernels as He et al. do: VGG-19's 16 convolutions have no norm to keep the scale."""
    for child in net.modules():
        if isinstance(child, nn.Conv2d):
            nn.init.kaiming_normal_(child.weight, nonlinearity="relu", generator=generator)
            if child.bias is not None:
                nn.init.zeros_(child.bias)


def build_dmenet(config: DMENetConfig | None = None, *, seed: int | None = None) -> DMENet:
    """Make an untrained DMENet; the same seed gives the same weights."""
    with torch.device("cpu"):
        net = DMENet(config)
    if seed is not None:
        initialise_he(net, torch.Generator().manual_seed(seed))
    return net
