"""The networks that the paper compares KPAC with: a residual baseline and DPDNet.

Not for: KPAC itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_kpac.network.config import KPACConfig
from napari_kpac.network.layers import initialise, lrelu, same_conv
from napari_kpac.network.net import Decoder, Encoder


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = same_conv(channels, channels, 3)
        self.second = same_conv(channels, channels, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        residual: Tensor = self.second(lrelu(self.first(x)))
        return x + residual


class ResidualNet(nn.Module):
    """The paper's baseline: KPAC's 2-level encoder and decoder around ten residual blocks."""

    def __init__(self, channels: int = 48, blocks: int = 10) -> None:
        super().__init__()
        config = KPACConfig(levels=2, channels=channels)
        self.encoder = Encoder(config)
        self.blocks = nn.Sequential(*(ResidualBlock(config.wide) for _ in range(blocks)))
        self.decoder = Decoder(config, parts=2)
        initialise(self)

    def forward(self, image: Tensor, *_: object, **__: object) -> Tensor:
        """Deblur an image (batch, 3, H, W) in [-1, 1]; sides are multiples of 4.

        It can stand in KPAC's place: what is said of views and attention is passed over.
        """
        features, skips = self.encoder(image)
        residual: Tensor = self.decoder((features, self.blocks(features)), skips)
        return image + residual


def _double_conv(inputs: int, outputs: int, dropout: float = 0.0) -> nn.Module:
    """Make two 3x3 convolutions with ReLU, and dropout where the level has any."""
    return nn.Sequential(
        same_conv(inputs, outputs, 3),
        nn.ReLU(inplace=True),
        same_conv(outputs, outputs, 3),
        nn.ReLU(inplace=True),
        nn.Dropout(dropout),
    )


def _up_conv(inputs: int, outputs: int) -> nn.Module:
    """Make nearest-neighbour doubling and a 2x2 convolution, padded after (Keras' SAME)."""
    return nn.Sequential(
        nn.Upsample(scale_factor=2.0, mode="nearest"),
        nn.ZeroPad2d((0, 1, 0, 1)),
        nn.Conv2d(inputs, outputs, 2),
        nn.ReLU(inplace=True),
    )


class DPDNet(nn.Module):
    """Dual-pixel defocus deblurring network (Abuolaim and Brown, ECCV 2020).

    A U-Net on images in [0, 1]; ``views`` is 1 for its single-image version, 2 for dual pixels.
    """

    WIDTHS = (64, 128, 256, 512, 1024)
    DROPOUT = (0.0, 0.0, 0.0, 0.4, 0.4)

    def __init__(self, views: int = 2, widths: Sequence[int] = WIDTHS) -> None:
        super().__init__()
        inputs = (3 * views, *widths)
        self.down = nn.ModuleList(
            _double_conv(a, b, drop)
            for a, b, drop in zip(inputs, widths, self.DROPOUT, strict=False)
        )
        pairs = list(zip(reversed(widths[1:]), reversed(widths[:-1]), strict=True))
        self.up = nn.ModuleList(_up_conv(deep, shallow) for deep, shallow in pairs)
        self.merge = nn.ModuleList(_double_conv(2 * shallow, shallow) for _, shallow in pairs)
        self.colour = same_conv(widths[0], 3, 3)
        self.output = nn.Conv2d(3, 3, 1)
        initialise(self)

    def forward(self, x: Tensor) -> Tensor:
        """Deblur (batch, 3 * views, H, W) in [0, 1]; sides are multiples of 16."""
        skips: list[Tensor] = []
        for level in self.down:
            x = level(F.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips[:-1]), strict=True):
            x = merge(torch.cat((skip, up(x)), dim=1))
        return torch.sigmoid(self.output(F.relu_(self.colour(x))))
