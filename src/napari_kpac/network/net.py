"""The KPAC network, in stages with explicit state: encode, blocks, decode.

Not for: tiling and caching of those stages (engine), weight files (weights).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from napari_kpac.core.errors import ConfigError
from napari_kpac.network.block import BlockState, KPACBlock
from napari_kpac.network.config import KPACConfig
from napari_kpac.network.layers import (
    LEAK,
    ColourHead,
    ConcatConv,
    StridedConv,
    UpsamplingConv,
    initialise,
    input_halo,
    lrelu,
    same_conv,
)

Modulate = Callable[[int, Tensor], Tensor]
"""Takes the index of a block and its alpha, returns the alpha to use instead."""


class Encoded(NamedTuple):
    """Output of the encoder."""

    features: Tensor
    """The bottleneck: at 1/4 (2 levels) or 1/8 (3 levels) of the image size."""
    skips: tuple[Tensor, ...]
    """Output of every level above the bottleneck, full resolution first."""


class EncoderLevel(nn.Module):
    """Two convolutions; the first one halves the size, except at level 0."""

    def __init__(self, inputs: int, outputs: int, *, first: bool, symmetric: bool) -> None:
        super().__init__()
        self.enter = (
            same_conv(inputs, outputs, 5)
            if first
            else StridedConv(inputs, outputs, symmetric=symmetric)
        )
        self.refine = same_conv(outputs, outputs, 3)

    def input_halo(self, halo: int) -> int:
        """Return how many cells the level must see around a region (see ``layers.input_halo``)."""
        return input_halo(self.enter, input_halo(self.refine, halo))

    def forward(self, x: Tensor) -> Tensor:
        """Run the level."""
        return self.refined(self.entered(x))

    def entered(self, x: Tensor) -> Tensor:
        """Run the first layer of the level."""
        return self.enter.activated(x)

    def refined(self, x: Tensor) -> Tensor:
        """Run the second layer of the level."""
        return self.refine.activated(x)


class DecoderLevel(nn.Module):
    """Doubles the size, then convolves the concatenation with the encoder's skip.

    Convolution is linear, so the half of it that sees only the skip stands by itself
    (:meth:`skip_half`) and need not be repeated when only the bottleneck changes.
    The last level gives a colour residual and has no activation.
    """

    def __init__(self, inputs: int, skip: int, *, last: bool) -> None:
        super().__init__()
        self.up = UpsamplingConv(inputs, skip)
        self.merge = ColourHead((skip, skip), 3, 5) if last else ConcatConv((skip, skip), skip, 3)
        self.last = last

    def input_halo(self, halo: int) -> int:
        """Return how many cells the level must see around a region, at its lower resolution."""
        return input_halo(self.up, input_halo(self.merge, halo))

    def skip_half(self, skip: Tensor) -> Tensor:
        """Convolve the encoder's skip alone."""
        return self.merge.partial(1, skip)

    def forward(self, x: Tensor, half: Tensor) -> Tensor:
        """Run the level on its input and the other half of its sum."""
        merged = self.merge.partial(0, self.up.activated(x), bias=True).add_(half)
        return merged if self.last else lrelu(merged)


class Encoder(nn.Module):
    """Level 0 at full resolution; every further level halves the size."""

    def __init__(self, config: KPACConfig) -> None:
        super().__init__()
        widths = (3 * config.views, *config.level_channels)
        symmetric = config.stride_padding == "symmetric"
        self.levels = nn.ModuleList(
            EncoderLevel(a, b, first=index == 0, symmetric=symmetric)
            for index, (a, b) in enumerate(pairwise(widths))
        )

    def forward(self, x: Tensor) -> Encoded:
        """Run all levels and keep their outputs."""
        outputs = []
        for level in self.levels:
            x = level(x)
            outputs.append(x)
        return Encoded(outputs[-1], tuple(outputs[:-1]))


class Decoder(nn.Module):
    """From the concatenated bottleneck back to a residual in image space."""

    def __init__(self, config: KPACConfig, parts: int) -> None:
        super().__init__()
        self.gather = ConcatConv([config.wide] * parts, config.wide, 3)
        self.refine = same_conv(config.wide, config.wide, 3)
        widths = config.level_channels[::-1]
        self.levels = nn.ModuleList(
            DecoderLevel(inputs, skip, last=index == config.levels - 1)
            for index, (inputs, skip) in enumerate(pairwise(widths))
        )

    def enter(self, features: Sequence[Tensor]) -> Tensor:
        """Aggregate the bottleneck: the encoder's features, then every block's output."""
        return self.refined(self.gather(features))

    def refined(self, gathered: Tensor) -> Tensor:
        """Activate and refine what was gathered; the argument stays as it is."""
        return self.refine.activated(F.leaky_relu(gathered, LEAK))

    def level(self, number: int) -> DecoderLevel:
        """Return the level that ends where an encoder level does (0 = full resolution)."""
        return cast("DecoderLevel", self.levels[len(self.levels) - 1 - number])

    def skip_half(self, level: int, skip: Tensor) -> Tensor:
        """Convolve the skip of an encoder level (0 = full resolution) for its use on the way up."""
        return self.level(level).skip_half(skip)

    def forward(self, features: Sequence[Tensor], skips: Sequence[Tensor]) -> Tensor:
        """Run the decoder; the result is the residual to add to the image."""
        halves = [self.skip_half(level, skip) for level, skip in enumerate(skips)]
        x = self.enter(features)
        for level, half in zip(self.levels, reversed(halves), strict=True):
            x = level(x, half)
        return x


class Stage(NamedTuple):
    """A part of the network that works on any region of its inputs."""

    run: Callable[..., Tensor]
    """Maps (batch, channels, h, w) to a map of the same height and width."""
    halo: int
    """Cells around a region that it must be given for its result there to be exact."""
    steps: Callable[..., Generator[None, None, Tensor]] | None = None
    """The same as ``run`` in parts, with a yield after each; None where it has only one."""


@dataclass(frozen=True)
class Halos:
    """Pixels around a tile on which the high-resolution stages depend, from their layers."""

    encode: int
    """Of the bottleneck's features and of all skip halves; a multiple of the cell size."""
    skips: int
    """Of the skip halves alone; a multiple of the cell size."""
    decode: tuple[int, ...]
    """Of the result, for the input of each decoder level, the deepest first."""


@dataclass(frozen=True)
class Work:
    """Multiply-accumulates of the stages, from their layers."""

    encode: float
    """Per pixel: of the encoder and all skip halves."""
    skips: float
    """Per pixel: of the skip halves alone, with the levels of the encoder that they need."""
    decode: float
    """Per pixel: of the decoder's levels, given the skip halves."""
    block: int
    """Per cell of the bottleneck: of a block's branches and their fusion."""
    block_halo: int
    """Cells around a region that these must see."""


class KPACNet(nn.Module):
    """Encoder, KPAC blocks and decoder, with a global residual.

    Images are (batch, 3, H, W) in [-1, 1], H and W multiples of ``config.multiple``.
    """

    def __init__(self, config: KPACConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.blocks = nn.ModuleList(KPACBlock(config) for _ in range(config.blocks))
        self.decoder = Decoder(config, parts=1 + config.blocks)
        self.card: Any = None
        """The model card; set where weights are loaded, None for random ones."""

    def join(self, image: Tensor | None, views: Sequence[Tensor] | None) -> tuple[Tensor, Tensor]:
        """Return the network's input and the image that the residual is added to.

        Of a dual-pixel pair that is the centre image, or the mean of the two views where
        there is none.
        """
        wanted = self.config.views
        if wanted == 2:
            if views is None or len(views) != 2:
                raise ConfigError("this is a dual-pixel network: give views=(left, right)")
            left, right = views
            base = (left + right) / 2 if image is None else image
            given = torch.cat((left, right), dim=1)
        else:
            if image is None or views is not None:
                raise ConfigError("this network takes one image and no views")
            base = given = image
        for side in given.shape[-2:]:
            if side % self.config.multiple:
                raise ConfigError(
                    f"image size {tuple(given.shape[-2:])} does not fit the network: "
                    f"both sides must be multiples of {self.config.multiple}; pad the image"
                )
        return given, base

    @cached_property
    def halos(self) -> Halos:
        """Halos of the tiles, from the layers."""
        levels = cast("list[EncoderLevel]", list(self.encoder.levels))
        ups = cast("list[DecoderLevel]", list(self.decoder.levels))

        def before(level: int, halo: int) -> int:
            """Return the halo of the image, given that of a level's output."""
            for each in reversed(levels[: level + 1]):
                halo = each.input_halo(halo)
            return halo

        skips = max(before(level, input_halo(up.merge)) for level, up in enumerate(reversed(ups)))
        decode, halo = [], 0
        for steps, up in enumerate(reversed(ups), start=1):
            halo = up.input_halo(halo)
            decode.append(halo * 2**steps)

        def rounded(value: int) -> int:
            return value + -value % self.config.multiple

        features = before(len(levels) - 1, 0)
        return Halos(rounded(max(features, skips)), rounded(skips), tuple(reversed(decode)))

    @cached_property
    def work(self) -> Work:
        """Work of the stages, from the sizes of their kernels."""
        encode = [
            (level.enter.weight.numel() + level.refine.weight.numel()) / 4**number
            for number, level in enumerate(cast("list[EncoderLevel]", list(self.encoder.levels)))
        ]
        halves, decode = 0.0, 0.0
        ups = cast("list[DecoderLevel]", list(self.decoder.levels))
        for number, level in enumerate(reversed(ups)):
            halves += level.merge.part_weight(1).numel() / 4**number
            decode += level.merge.part_weight(0).numel() / 4**number
            decode += level.up.weight.numel() / 4 ** (number + 1)
        block = self.block(0)
        kernel = cast("nn.Conv2d", block.atrous[0]).weight.numel()
        return Work(
            encode=sum(encode) + halves,
            skips=sum(encode[:-1]) + halves,
            decode=decode,
            block=kernel * len(block.dilations) + block.fusion.weight.numel(),
            block_halo=block.branch_halo + input_halo(block.fusion),
        )

    def block(self, index: int) -> KPACBlock:
        """Return a block."""
        return cast("KPACBlock", self.blocks[index])

    def block_halo(self, index: int) -> int:
        """Return how many cells around a region a block must see, given its beta."""
        block = self.block(index)
        return input_halo(block.fusion) + max(block.branch_halo, self.attention(index).halo)

    def attention(self, index: int) -> Stage:
        """Return the stage from features to the alphas of a block."""
        block = self.block(index)
        return Stage(block.alpha, 0 if block.scale is None else block.scale.halo)

    def branch(self, index: int, i: int) -> Stage:
        """Return the stage from features to branch ``i`` of a block, before any attention."""
        block = self.block(index)
        return Stage(partial(block.branch, i), block.branch_halo)

    def fuse(self, index: int, beta: Tensor) -> Stage:
        """Return the stage from features, and the alphas to use, to the output of a block."""
        block = self.block(index)

        def run(x: Tensor, alpha: Tensor) -> Tensor:
            return block.fuse(block.branches(x), alpha, beta)

        def steps(x: Tensor, alpha: Tensor) -> Generator[None, None, Tensor]:
            return block.fuse_steps(block.branches(x), alpha, beta)

        return Stage(run, block.branch_halo + input_halo(block.fusion), steps)

    def fuse_branches(self, index: int, beta: Tensor) -> Stage:
        """Return the stage from the alphas to use, and all branches, to the output of a block."""
        block = self.block(index)

        def run(alpha: Tensor, *branches: Tensor) -> Tensor:
            return block.fuse(branches, alpha, beta)

        return Stage(run, input_halo(block.fusion))

    def gather(self, part: int) -> Stage:
        """Return the stage from features (0) or a block's output (1, 2, ...) to its part of a sum.

        With that sum the decoder begins.
        """
        conv = self.decoder.gather
        return Stage(partial(conv.partial, part, bias=part == 0), input_halo(conv))

    def refine(self) -> Stage:
        """Return the stage from that sum to the input of the decoder's levels."""
        return Stage(self.decoder.refined, input_halo(self.decoder.refine))

    def encode(self, x: Tensor) -> Encoded:
        """Run the first stage: image(s) to bottleneck features and skips."""
        encoded: Encoded = self.encoder(x)
        return encoded

    def step(self, index: int, x: Tensor, modulate: Modulate | None = None) -> BlockState:
        """Run a block, the second stage; ``modulate`` acts before the branches are weighted."""
        block = self.block(index)
        alpha, beta = block.alpha(x), block.beta(x)
        if modulate is not None:
            alpha = modulate(index, alpha)
        branches = tuple(block.branches(x))
        return BlockState(branches, alpha, beta, block.fuse(branches, alpha, beta))

    def decode(self, features: Sequence[Tensor], skips: Sequence[Tensor]) -> Tensor:
        """Run the third stage: bottleneck of encoder and blocks, and skips, to the residual."""
        residual: Tensor = self.decoder(features, skips)
        return residual

    def forward(
        self,
        image: Tensor | None,
        views: Sequence[Tensor] | None = None,
        modulate: Modulate | None = None,
    ) -> Tensor:
        """Deblur: the plain composition of the stages, not clipped."""
        x, base = self.join(image, views)
        encoded = self.encode(x)
        features = [encoded.features]
        for index in range(self.config.blocks):
            features.append(self.step(index, features[-1], modulate).fused)
        return base + self.decode(features, encoded.skips)


def build(config: KPACConfig | None = None, *, seed: int | None = None) -> KPACNet:
    """Make an untrained network, initialised as the authors do (normal, std 0.04)."""
    net = KPACNet(config or KPACConfig())
    generator = None if seed is None else torch.Generator().manual_seed(seed)
    initialise(net, generator)
    return net
