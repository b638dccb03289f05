"""A rectangle of a plane without encoding the rest: beta from a sample of the plane.

Alpha and pixels of a rectangle depend on a few hundred pixels around it; beta depends on the mean
features of the whole plane. Here that mean is estimated from crops that are spread evenly over the
plane, so the result is close to the exact one and comes after a fraction of its time. Not for:
exact renders (session.py, bottleneck.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from napari_kpac.engine.bottleneck import BlockCache
from napari_kpac.engine.modulation import BlockModulation
from napari_kpac.engine.pixels import Rect
from napari_kpac.engine.stages import Counted, Stages, cut

CROP_PX = 256
MARGIN_PX = 64
"""Around a crop, so that the border of what was cut out does not reach the estimate of beta."""
SAMPLE_PX = 2_000_000
"""Pixels of all crops together."""


class Sampled(NamedTuple):
    """What the decoder begins with, and what the blocks made on the way."""

    entered: Tensor
    place: Rect
    """The cells that ``entered`` covers."""
    caches: list[BlockCache]


class SampledBottleneck:
    """Blocks and decoder's entry around a rectangle, with beta from a sample of the plane.

    Tiles, bands and crops are counted.
    """

    def __init__(self, stages: Stages) -> None:
        self.stages = stages
        self.net = stages.net
        self._crops = crops(stages.plan.height, stages.plan.width, stages.cell)
        self._features: list[Tensor] = []
        self._mods: Sequence[BlockModulation] | None = None
        self._betas: list[Tensor] = []

    def saves_time(self, local: Rect) -> bool:
        """Return True if this encodes less than half of what an exact render does.

        ``local`` is what is needed of the decoder's input, in cells.
        """
        around = self._needed(local)
        pixels = sum(each.height * each.width for each in self._crops)
        pixels += around.height * around.width * self.stages.cell**2
        return 2 * pixels < self.stages.plan.height * self.stages.plan.width

    def steps(self, local: Rect) -> int:
        """Return how many steps :meth:`render` counts where nothing is kept yet."""
        around, plan = self._needed(local), self.stages.plan
        blocks = self.net.config.blocks
        tiles = [self._grown(crop) for crop in self._crops] + [around.times(self.stages.cell)]
        encoding = sum(1 for rect in tiles for _ in plan.tiles(rect))
        bands = -(-around.height // plan.band)
        return encoding + (blocks - 1) * len(self._crops) + (2 + 3 * blocks) * bands

    @torch.no_grad()
    def render(self, mods: Sequence[BlockModulation], local: Rect) -> Counted[Sampled]:
        """Compute what the decoder begins with in ``local``, and the attention there."""
        net, stages = self.net, self.stages
        betas = yield from self._estimate(mods)
        outer = self._needed(local)
        x = yield from stages.features(outer.times(stages.cell))
        total = yield from stages.by_band(net.gather(0), x)
        caches = []
        for index, (mod, beta) in enumerate(zip(mods, betas, strict=True)):
            alpha = yield from stages.by_band(net.attention(index), x)
            used = mod.cropped(outer).apply(alpha)
            x = yield from stages.by_band(net.fuse(index, beta), x, used)
            yield from stages.by_band(net.gather(index + 1), x, out=total, add=True)
            caches.append(BlockCache(alpha, beta, place=outer))
        entered = yield from stages.by_band(net.refine(), total)
        return Sampled(cut(entered, local.inside(outer)), local, caches)

    def _needed(self, local: Rect) -> Rect:
        """Return the cells of the encoder's features on which ``local`` depends."""
        halo = self.net.gather(0).halo + self.net.refine().halo
        halo += sum(self.net.block_halo(index) for index in range(self.net.config.blocks))
        return local.grown(halo, *self.stages.cells)

    def _estimate(self, mods: Sequence[BlockModulation]) -> Counted[list[Tensor]]:
        """Estimate beta of every block; kept until a modulation changes."""
        net, stages = self.net, self.stages
        if self._mods is not None and all(
            a.same_as(b) for a, b in zip(self._mods, mods, strict=True)
        ):
            return self._betas
        for crop in self._crops[len(self._features) :]:
            self._features.append((yield from stages.features(self._grown(crop))))
        maps, betas = list(self._features), []
        for index in range(net.config.blocks):
            beta = net.block(index).beta_of_mean(self._mean(maps))
            betas.append(beta)
            if index == net.config.blocks - 1:
                break
            for number, crop in enumerate(self._crops):
                cells = self._grown(crop).divided(stages.cell)
                alpha = net.attention(index).run(maps[number])
                used = mods[index].cropped(cells).apply(alpha)
                maps[number] = net.fuse(index, beta).run(maps[number], used)
                yield True
        self._mods, self._betas = mods, betas
        return betas

    def _mean(self, maps: Sequence[Tensor]) -> Tensor:
        """Return the mean over all crops, without their margins."""
        total, count = torch.zeros((), device=self.stages.device), 0
        for crop, features in zip(self._crops, maps, strict=True):
            part = cut(features, crop.inside(self._grown(crop)), self.stages.cell)
            total = total + part.sum(dim=(2, 3))
            count += part.shape[2] * part.shape[3]
        return total / count

    def _grown(self, crop: Rect) -> Rect:
        return crop.grown(MARGIN_PX, self.stages.plan.height, self.stages.plan.width)


def crops(height: int, width: int, cell: int) -> list[Rect]:
    """Spread crops evenly over a plane; their edges are multiples of a cell."""
    wanted = SAMPLE_PX / CROP_PX**2
    rows = max(1, min(round(sqrt(wanted * height / width)), height // CROP_PX))
    columns = max(1, min(round(wanted / rows), width // CROP_PX))

    def starts(size: int, number: int) -> list[int]:
        spare = max(size - CROP_PX, 0)
        return [int(spare * (i + 0.5) / number) // cell * cell for i in range(number)]

    return [
        Rect(top, min(top + CROP_PX, height), left, min(left + CROP_PX, width))
        for top in starts(height, rows)
        for left in starts(width, columns)
    ]
