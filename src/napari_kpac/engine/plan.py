"""How an image is cut up so that it fits into the memory it is given.

Only the encoder and the decoder are cut into tiles; the bottleneck is held whole, so the
result does not depend on the plan. Not for: carrying the plan out (stages.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from napari_kpac.core.errors import DeviceError
from napari_kpac.core.options import Tile
from napari_kpac.engine.pixels import Rect
from napari_kpac.network import KPACConfig

SMALLEST_TILE = 64
TILES = (1024, 768, 512, 384, 256, 128, SMALLEST_TILE)
"""Larger ones would save little overlap, and cancelling answers only after a tile."""
USABLE_SHARE = 0.85
"""The rest of the budget is for what an allocator cannot put to use."""
SCRATCH_SHARE = 0.7
"""Of what is usable: a bottleneck that takes more goes to a file."""
BAND_SHARE = 0.08
"""Of the budget, for the blocks while they work on a band of the bottleneck."""
COMFORTABLE_TILE = 512
"""Below this side the overlap of tiles costs more than keeping the skips saves."""

_MAPS_AT_ONCE = 4.0
"""Full-resolution feature maps that a pass over a tile needs at a time: the output of the
second convolution, its padded copy, what the next level makes of it, and what convolutions
need for themselves; as measured."""
_OVERHEAD = 100 * 2**20


@dataclass(frozen=True)
class Plan:
    """A decision on tiles and on what is kept."""

    height: int
    width: int
    """Of the padded image."""
    tile: int
    """Side of a tile; at least as large as the image where nothing is cut."""
    kept_skips: tuple[int, ...]
    """Levels whose skips are kept between encoding and decoding; others are recomputed."""
    band: int
    """Rows of the bottleneck that the blocks process at a time."""
    scratch: bool
    """Whether the bottleneck lies in a memory-mapped file."""
    budget: int
    """Bytes that the plan was made for."""

    @property
    def is_whole(self) -> bool:
        """Whether the image is processed in one piece."""
        return self.tile >= max(self.height, self.width)

    def tiles(self) -> Iterator[Rect]:
        """Iterate over the tiles, row by row."""
        for top in range(0, self.height, self.tile):
            for left in range(0, self.width, self.tile):
                yield Rect(
                    top,
                    min(top + self.tile, self.height),
                    left,
                    min(left + self.tile, self.width),
                )

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return -(-self.height // self.tile) * -(-self.width // self.tile)

    @property
    def steps(self) -> int:
        """Number of steps that an image takes: every tile twice, and the blocks."""
        return 2 * self.tile_count + 1

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the record: what may touch the last bits, and nothing that varies."""
        values = {**asdict(self), "kept_skips": list(self.kept_skips)}
        del values["budget"]
        return values

    def needs_no_more_than(self, other: Plan) -> bool:
        """Tell whether this plan is for the same image and takes at most as much memory."""
        return (
            (self.height, self.width) == (other.height, other.width)
            and (self.tile <= other.tile or other.is_whole)
            and set(self.kept_skips) <= set(other.kept_skips)
            and 1 <= self.band <= other.band
            and self.tile >= 1
            and self.scratch >= other.scratch
        )

    def smaller(self, config: KPACConfig) -> Plan:
        """Return a plan that needs less memory, or raise where there is none.

        Skips are given up first, then tiles are halved; at their smallest, the bottleneck goes
        to a file.
        """
        budget = self.budget // 2
        if self.kept_skips and not self.is_whole:
            return replace(self, kept_skips=(), budget=budget)
        side = min(self.tile, max(self.height, self.width)) // 2
        if side >= SMALLEST_TILE:
            tile = max(side - side % config.multiple, config.multiple)
            band = max(8, self.band // 2)
            return replace(self, tile=tile, kept_skips=(), band=band, budget=budget)
        if not self.scratch:
            return replace(self, kept_skips=(), band=8, scratch=True, budget=budget)
        raise DeviceError(
            f"out of memory even with tiles of {self.tile} pixels; close other programs, "
            "choose another device, or process a part of the image"
        )


def make_plan(
    padded: tuple[int, int],
    config: KPACConfig,
    *,
    halo: int,
    tile: Tile = "auto",
    budget: int,
    item_size: int = 4,
    held: int = 0,
) -> Plan:
    """Choose tiles and what to keep for an image and a budget.

    The largest tile is taken with which everything fits; skips are kept, shallow levels
    given up first, as long as that leaves room for a tile of comfortable size. ``halo`` are
    the pixels around a tile that the encoder must see (``KPACNet.halos``), ``held`` are bytes
    of the budget that are spoken for: the image itself and its result.
    """
    height, width = padded
    cost = _Cost(config, height * width, item_size)
    every = tuple(range(config.levels))
    rows = height // config.multiple
    band = min(rows, max(8, int(BAND_SHARE * budget / cost.per_band_row(width))))
    common = {"height": height, "width": width, "band": band, "budget": budget}
    if tile is None:
        return Plan(tile=max(padded), kept_skips=every, scratch=False, **{**common, "band": rows})
    if tile != "auto":
        side = tile - tile % config.multiple or config.multiple
        return Plan(tile=side, kept_skips=every, scratch=False, **common)
    usable = int(budget * USABLE_SHARE) - held - band * cost.per_band_row(width)
    whole = cost.tile(height, width) + cost.kept(every) + cost.bottleneck()
    if whole <= usable:
        return Plan(tile=max(padded), kept_skips=every, scratch=False, **common)
    scratch = cost.bottleneck() > SCRATCH_SHARE * usable
    left = usable - (0 if scratch else cost.bottleneck())
    for smallest, skips in (
        (COMFORTABLE_TILE, every),
        *((COMFORTABLE_TILE, every[first:]) for first in every[1:]),
        (SMALLEST_TILE, ()),
    ):
        for side in TILES:
            grown = side + 2 * halo
            if side >= smallest and cost.tile(grown, grown) + cost.kept(skips) <= left:
                return Plan(tile=side, kept_skips=skips, scratch=scratch, **common)
    return Plan(tile=SMALLEST_TILE, kept_skips=(), scratch=scratch, **common)


def tile_cost(config: KPACConfig, height: int, width: int, item_size: int) -> int:
    """Bytes that a pass over a tile of that size needs."""
    return _Cost(config, height * width, item_size).tile(height, width)


def band_cost(config: KPACConfig, rows: int, columns: int, item_size: int) -> int:
    """Bytes that a block needs for a band of that many cells."""
    return rows * _Cost(config, 0, item_size).per_band_row(columns * config.multiple)


@dataclass(frozen=True)
class _Cost:
    """Bytes that things need."""

    config: KPACConfig
    pixels: int
    item_size: int

    @property
    def feature_map(self) -> int:
        """Of a full-resolution feature map, per pixel."""
        return self.config.channels * self.item_size

    def tile(self, height: int, width: int) -> int:
        """Of a pass over a tile."""
        return int(height * width * self.feature_map * _MAPS_AT_ONCE) + _OVERHEAD

    def kept(self, levels: tuple[int, ...]) -> int:
        """Of the skip halves of some levels; that of level 0 is a colour image."""
        widths = (3, *self.config.level_channels[1:])
        return sum(self.pixels // 4**k * widths[k] * self.item_size for k in levels)

    def bottleneck(self) -> int:
        """Of what is held whole: two feature maps of the bottleneck and all alphas."""
        cells = self.pixels // self.config.multiple**2
        alphas = self.config.blocks * len(self.config.dilations)
        return cells * (2 * self.config.wide + alphas) * self.item_size

    def per_band_row(self, width: int) -> int:
        """Of a row of the bottleneck while a block works on it."""
        return width // self.config.multiple * 6 * self.config.wide * self.item_size
