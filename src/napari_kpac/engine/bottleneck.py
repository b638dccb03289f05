"""The bottleneck: all blocks and the entry of the decoder, between encoding and decoding.

It is held whole, so that alpha and beta do not depend on tiles. Not for: encoding and decoding
(stages.py), or who asks (job.py, session.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from napari_kpac.engine.modulation import BlockModulation
from napari_kpac.engine.pixels import Rect
from napari_kpac.engine.stages import Bands, Counted, Stages, cut

Entered = Counted[tuple[Tensor, Rect]]
"""Returns the decoder's input and the cells that it covers."""


@dataclass
class BlockCache:
    """What one block made of its present input."""

    alpha: Tensor
    """As the network gave it, before modulation."""
    beta: Tensor
    branches: list[Tensor] = field(default_factory=list)
    """Empty where memory is short; they are computed again then."""
    shares: list[Tensor] = field(default_factory=list)
    """The fusion's sum, branch by branch, for the alpha of the network; empty until gains move."""
    used: BlockModulation | None = None
    """The modulation that ``fused`` was made with."""
    fused: Tensor | None = None
    gathered: Tensor | None = None
    """Its part of the sum with which the decoder begins."""
    place: Rect | None = None
    """The cells that it covers; None: the whole plane."""


class Bottleneck:
    """All that lies between encoder and decoder of one encoded plane.

    :meth:`run` computes one result and keeps as little as possible; :meth:`render` keeps
    everything that a moved slider can use again. Both may be left wherever they yield: what is
    kept stays consistent.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.net = stages.net
        self.caches: list[BlockCache | None] = [None] * self.net.config.blocks
        self._first: Tensor | None = None
        """The part of the encoder's features in the sum with which the decoder begins."""

    @property
    def steps(self) -> int:
        """How many bands :meth:`run` counts: two stages, and three for every block, in bands."""
        return (2 + 3 * self.net.config.blocks) * self.stages.bands

    @property
    def render_steps(self) -> int:
        """How many :meth:`render` counts where nothing is kept yet; later on less."""
        config = self.net.config
        branches = 0 if self.is_lean else len(config.dilations)
        return (2 + (3 + branches) * config.blocks) * self.stages.bands

    def attention(self, index: int, x: Tensor) -> Bands:
        """Compute alpha of a block, band by band."""
        return self.stages.by_band(self.net.attention(index), x)

    @torch.no_grad()
    def beta(self, index: int, x: Tensor) -> Tensor:
        """Compute beta of a block; it depends on the whole plane."""
        mean = self.stages.on_device(x.mean(dim=(2, 3)))
        return self.net.block(index).beta_of_mean(mean)

    @torch.no_grad()
    def run(
        self, mods: Sequence[BlockModulation] | None
    ) -> Counted[tuple[Tensor, list[Tensor], list[Tensor]]]:
        """Run everything once, keeping no more than two feature maps.

        Takes the encoder's features over (they are gone afterwards); returns what the decoder's
        levels begin with, the alphas (as used) and the betas.
        """
        stages, net = self.stages, self.net
        x = stages.take_features()
        gathered = stages.empty_map(net.config.wide, *stages.cells)
        yield from stages.by_band(net.gather(0), x, out=gathered)
        alphas, betas = [], []
        for index in range(net.config.blocks):
            alpha, beta = (yield from self.attention(index, x)), self.beta(index, x)
            if mods is not None:
                alpha = mods[index].apply(alpha)
            yield from stages.by_band(net.fuse(index, beta), x, alpha, out=x)
            yield from stages.by_band(net.gather(index + 1), x, out=gathered, add=True)
            alphas.append(alpha)
            betas.append(beta)
        del x
        entered = yield from stages.by_band(net.refine(), gathered, out=gathered)
        return entered, alphas, betas

    @torch.no_grad()
    def render(self, mods: Sequence[BlockModulation], local: Rect | None) -> Entered:
        """Run the blocks again from the first that changed, then the decoder's entry.

        Returns what the decoder's levels begin with and the rectangle of cells that it covers.
        ``local`` is what is needed of it. All blocks but the last are needed whole, for beta is
        a global mean.
        """
        last = self.net.config.blocks - 1
        x = self._features
        for index, mod in enumerate(mods):
            cache = self.caches[index]
            if cache is None or cache.place is not None:
                if index == last and local is not None:
                    self.caches[index] = yield from self._run_local(index, x, mod, local)
                    break
                cache = self.caches[index] = yield from self._run_block(index, x)
            if cache.used is None or not cache.used.same_as(mod):
                cache.fused = yield from self._fuse(index, cache, mod, x)
                cache.used, cache.gathered = mod, None
                # At once, for the render may be cancelled before it gets to them.
                self.caches[index + 1 :] = [None] * (last - index)
            assert cache.fused is not None  # noqa: S101 - made just above
            x = cache.fused
        return (yield from self._enter(local))

    def present(self) -> list[BlockCache]:
        """Return what is kept of the blocks that were run."""
        return [cache for cache in self.caches if cache is not None]

    @cached_property
    def _features(self) -> Tensor:
        return self.stages.take_features()

    @cached_property
    def is_lean(self) -> bool:
        """Whether memory is too short to keep what every branch of every block made."""
        config = self.net.config
        per_cell = config.blocks * len(config.dilations) * (config.channels + config.wide)
        cells = self.stages.cells[0] * self.stages.cells[1]
        return cells * per_cell * self.stages.reader.dtype.itemsize > self.stages.plan.budget // 3

    def _run_block(self, index: int, x: Tensor) -> Counted[BlockCache]:
        """Compute all that a block knows before modulation, over the whole plane."""
        cache = BlockCache((yield from self.attention(index, x)), self.beta(index, x))
        for i in range(0 if self.is_lean else len(self.net.config.dilations)):
            branch = yield from self.stages.by_band(self.net.branch(index, i), x)
            cache.branches.append(branch)
        return cache

    def _fuse(self, index: int, cache: BlockCache, mod: BlockModulation, x: Tensor) -> Bands:
        """Aggregate the branches under a modulation.

        The first time it is done as in a plain run, with the same result bit by bit. When
        gains then move, the share of every branch is worked out once, and from there on they
        only need a weighted sum.
        """
        net, by_band = self.net, self.stages.by_band
        if not cache.branches:
            stage = net.fuse(index, cache.beta)
            return (yield from by_band(stage, x, mod.apply(cache.alpha)))
        if cache.used is None or not mod.is_scalar:
            stage = net.fuse_branches(index, cache.beta)
            return (yield from by_band(stage, mod.apply(cache.alpha), *cache.branches))
        if not cache.shares:
            shares = []
            for share in net.block(index).shares(cache.branches, cache.alpha, cache.beta):
                shares.append(share)
                yield True
            cache.shares = shares
        return net.block(index).fuse_shares(cache.shares, mod.gains)

    def _run_local(
        self, index: int, x: Tensor, mod: BlockModulation, local: Rect
    ) -> Counted[BlockCache]:
        """Run a block only where its output is needed: in ``local`` and a little around it."""
        net, cells, by_band = self.net, self.stages.cells, self.stages.by_band
        beta = self.beta(index, x)
        attention, fuse = net.attention(index), net.fuse(index, beta)
        wanted = local.grown(net.gather(index + 1).halo + net.refine().halo, *cells)
        outer = wanted.grown(fuse.halo + attention.halo, *cells)
        part = self.stages.on_device(cut(x, outer))
        alpha = yield from by_band(attention, part)
        fused = yield from by_band(fuse, part, mod.cropped(outer).apply(alpha))
        inner = wanted.inside(outer)
        return BlockCache(cut(alpha, inner), beta, fused=cut(fused, inner), place=wanted)

    def _enter(self, local: Rect | None) -> Entered:
        """Run the decoder's entry over ``local`` (None: everywhere)."""
        cells, refine = self.stages.cells, self.net.refine()
        rect = local or Rect(0, cells[0], 0, cells[1])
        outer = rect.grown(refine.halo, *cells)
        if self._first is None:
            self._first = yield from self._gather(0, self._features)
        total = cut(self._first, outer).clone(memory_format=torch.channels_last)
        for part, cache in enumerate(self.present(), start=1):
            assert cache.fused is not None  # noqa: S101 - the blocks were run
            if local is None and cache.gathered is None:
                cache.gathered = yield from self._gather(part, cache.fused)
            if cache.gathered is not None:
                total.add_(cut(cache.gathered, outer))
                continue
            wider = outer.grown(self.net.gather(part).halo, *cells)
            place = wider if cache.place is None else wider.inside(cache.place)
            gathered = yield from self._gather(part, cut(cache.fused, place))
            total.add_(cut(gathered, outer.inside(wider)))
        entered = yield from self.stages.by_band(refine, total)
        return cut(entered, rect.inside(outer)), rect

    def _gather(self, part: int, x: Tensor) -> Bands:
        return self.stages.by_band(self.net.gather(part), x)
