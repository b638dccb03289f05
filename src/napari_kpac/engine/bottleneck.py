"""The bottleneck with memory: blocks are run again only from the first that changed.

Not for: encoding and decoding (staged.py), or who asks (session.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from napari_kpac.engine.modulation import BlockModulation
from napari_kpac.engine.pixels import Rect
from napari_kpac.engine.plan import ATTENTION_HALO, block_halo
from napari_kpac.engine.staged import StagedRun
from napari_kpac.network.layers import lrelu

ENTER_HALO = 2
"""Cells around a rectangle on which the decoder's first stage depends: two 3x3 convolutions."""


@dataclass
class BlockCache:
    """What one block made of its present input."""

    alpha: Tensor
    """As the network gave it, before modulation."""
    beta: Tensor
    branches: list[Tensor] = field(default_factory=list)
    """Empty where memory is short; they are computed again then."""
    partials: list[Tensor] = field(default_factory=list)
    """The fusion's sum, branch by branch, for the alpha of the network, without its bias;
    empty until gains move."""
    used: BlockModulation | None = None
    """The modulation that ``fused`` was made with."""
    fused: Tensor | None = None
    gathered: Tensor | None = None
    """What the decoder's first convolution makes of ``fused``."""
    place: Rect | None = None
    """The cells that it covers; None: the whole picture."""


class CachedBottleneck:
    """Everything between encoder and decoder of one encoded picture, stage by stage.

    ``check`` is called between stages and may raise to give up; what is kept stays
    consistent whenever it does.
    """

    def __init__(self, run: StagedRun, features: Tensor, check: Callable[[], None]) -> None:
        self.run = run
        self.config = run.config
        self.features = features
        self.check = check
        self.first_half = self._gather(0, features, bias=True)
        self.caches: list[BlockCache | None] = [None] * self.config.blocks

    @property
    def is_lean(self) -> bool:
        """Whether memory is too short to keep what every branch of every block made."""
        config = self.config
        per_cell = config.blocks * len(config.dilations) * (config.channels + config.wide)
        cells = self.run.cells[0] * self.run.cells[1]
        return cells * per_cell * self.run.reader.dtype.itemsize > self.run.plan.budget // 3

    @torch.no_grad()
    def render(self, mods: Sequence[BlockModulation], local: Rect | None) -> tuple[Tensor, Rect]:
        """Run the blocks as far as needed, then the decoder's first stage.

        Returns that stage and the rectangle of cells that it covers. ``local`` is what is
        needed of it. All blocks but the last are needed whole, for beta is a global mean.
        """
        last = self.config.blocks - 1
        x = self.features
        for index, mod in enumerate(mods):
            self.check()
            cache = self.caches[index]
            if cache is None or cache.place is not None:
                if index == last and local is not None:
                    self.caches[index] = self._run_local(index, x, mod, local)
                    break
                cache = self.caches[index] = self._run_block(index, x)
            if cache.used is None or not cache.used.same_as(mod):
                cache.fused = self._fuse(index, cache, mod, x)
                cache.used, cache.gathered = mod, None
                # At once, for the render may be cancelled before it gets to them.
                self.caches[index + 1 :] = [None] * (last - index)
            assert cache.fused is not None  # noqa: S101 - made just above
            x = cache.fused
        return self._enter(local)

    def _run_block(self, index: int, x: Tensor) -> BlockCache:
        """Compute all that a block knows before modulation, over the whole picture."""
        block = self.run.block(index)
        cache = BlockCache(self.run.attention(index, x), self.run.beta(index, x))
        if self.is_lean:
            return cache
        for i in range(len(block.dilations)):
            self.check()
            cache.branches.append(block.branch(i, x.to(self.run.device)))
        return cache

    def _fuse(self, index: int, cache: BlockCache, mod: BlockModulation, x: Tensor) -> Tensor:
        """Aggregate the branches under a modulation.

        The first time one convolution does it. When gains then move, the share of every
        branch is worked out once, and from there on they only need a weighted sum.
        """
        fusion = self.run.block(index).fusion
        if cache.used is None or not mod.is_scalar or not cache.branches:
            weighted = self._weighted(index, cache, mod.apply(cache.alpha), x)
            return lrelu(fusion.whole(torch.cat(list(weighted), dim=1)))
        if not cache.partials:
            weighted = self._weighted(index, cache, cache.alpha, x)
            cache.partials = [fusion.partial(i, branch) for i, branch in enumerate(weighted)]
        assert fusion.bias is not None  # noqa: S101 - the fusion has one
        total = torch.empty_like(cache.partials[0]).copy_(fusion.bias[None, :, None, None])
        for partial, gain in zip(cache.partials, mod.gains, strict=True):
            total.add_(partial, alpha=float(gain))
        return lrelu(total)

    def _weighted(
        self, index: int, cache: BlockCache, alpha: Tensor, x: Tensor
    ) -> Iterator[Tensor]:
        """Weigh every branch by alpha and beta; branches that were not kept are run again."""
        block = self.run.block(index)
        for i in range(len(block.dilations)):
            branch = cache.branches[i] if cache.branches else block.branch(i, x)
            yield block.weigh(i, branch, alpha, cache.beta)

    def _run_local(self, index: int, x: Tensor, mod: BlockModulation, local: Rect) -> BlockCache:
        """Run a block only where its output is needed: in ``local`` and a little around it."""
        wanted = local.grown(ENTER_HALO, *self.run.cells)
        outer = wanted.grown(block_halo(self.config) + ATTENTION_HALO, *self.run.cells)
        block = self.run.block(index)
        part = cut(x, outer).to(self.run.device)
        alpha, beta = block.alpha(part), self.run.beta(index, x)
        fused = block.fuse(block.branches(part), cropped(mod, outer).apply(alpha), beta)
        inner = wanted.inside(outer)
        return BlockCache(cut(alpha, inner), beta, fused=cut(fused, inner), place=wanted)

    def _enter(self, local: Rect | None) -> tuple[Tensor, Rect]:
        """Run the decoder's first stage over ``local`` (None: everywhere)."""
        cells = self.run.cells
        rect = Rect(0, cells[0], 0, cells[1]) if local is None else local
        outer = rect.grown(1, *cells)
        total = cut(self.first_half, outer).clone(memory_format=torch.channels_last)
        for index, cache in enumerate(self.present()):
            assert cache.fused is not None  # noqa: S101 - the blocks were run
            if local is None and cache.gathered is None:
                cache.gathered = self._gather(index + 1, cache.fused)
            if cache.gathered is not None:
                total.add_(cut(cache.gathered, outer))
                continue
            wider = outer.grown(1, *cells)
            place = wider if cache.place is None else wider.inside(cache.place)
            part = self._gather(index + 1, cut(cache.fused, place))
            total.add_(cut(part, outer.inside(wider)))
        entered = lrelu(self.run.net.decoder.refine(lrelu(total)))
        return cut(entered, rect.inside(outer)), rect

    def present(self) -> list[BlockCache]:
        """Return what is kept of the blocks that were run."""
        return [cache for cache in self.caches if cache is not None]

    @torch.no_grad()
    def _gather(self, part: int, x: Tensor, *, bias: bool = False) -> Tensor:
        return self.run.net.decoder.gather.partial(part, x.to(self.run.device), bias=bias)


def cut(x: Tensor, rect: Rect) -> Tensor:
    """Return a rectangle of a map."""
    rows, columns = rect.slices
    return x[:, :, rows, columns]


def cropped(mod: BlockModulation, rect: Rect) -> BlockModulation:
    """Restrict a block's modulation to a rectangle of cells."""
    return replace(
        mod,
        gain_maps=None if mod.gain_maps is None else cut(mod.gain_maps, rect),
        override={
            index: value[rect.slices] if isinstance(value, Tensor) else value
            for index, value in mod.override.items()
        },
    )
