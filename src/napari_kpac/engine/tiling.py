"""Plans of tiles: how an image is cut up so that it fits into memory, and no step takes long.

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
from napari_kpac.network import KPACConfig, Work

MIN_TILE_PX = 64
TILES_PX = (1024, 768, 512, 384, 256, 128, MIN_TILE_PX)
"""Larger ones would save little overlap. A piece of another shape has no more pixels either."""
MAX_STEP_SECONDS = 1.5
"""Progress and cancelling answer after a step: a tile, or a band of the bottleneck."""
COMFORTABLE_TILE_PX = 512
"""Below this side the overlap of tiles costs more than keeping the skips saves."""
MIN_BAND_ROWS = 8
USABLE_SHARE = 0.85
"""The rest of the budget is for what an allocator cannot put to use."""
SCRATCH_SHARE = 0.7
"""Of what is usable: a bottleneck that takes more goes to a file."""
BAND_SHARE = 0.08
"""Of the budget, for the blocks while they work on a band of the bottleneck."""

_MAPS_AT_ONCE = 4.0
"""Full-resolution feature maps that a pass over a tile needs at a time: the output of the
second convolution, its padded copy, what the next level makes of it, and what convolutions
need for themselves; as measured."""
_MAPS_AT_ONCE_IN_BANDS = 1.5
"""The same where levels are run in bands (``levels.py``): what they leave to the next level."""
_OVERHEAD_BYTES = 100 * 2**20


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

    def tiles(self, rect: Rect | None = None) -> Iterator[Rect]:
        """Iterate over the tiles of the image, or of a rectangle, row by row."""
        rect = rect or Rect(0, self.height, 0, self.width)
        for top in range(rect.top, rect.bottom, self.tile):
            for left in range(rect.left, rect.right, self.tile):
                bottom, right = top + self.tile, left + self.tile
                yield Rect(top, min(bottom, rect.bottom), left, min(right, rect.right))

    @property
    def tile_count(self) -> int:
        """Number of tiles."""
        return -(-self.height // self.tile) * -(-self.width // self.tile)

    @property
    def shortage_note(self) -> str:
        """Text that tells how the work goes on with this plan after memory ran short."""
        place = ", and with a file for the features" if self.scratch else ""
        return f"memory ran short; going on with tiles of {self.tile} pixels{place}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the record: what may touch the last bits, nothing that varies."""
        values = {**asdict(self), "kept_skips": list(self.kept_skips)}
        del values["budget"]
        return values

    def needs_no_more_than(self, other: Plan) -> bool:
        """Return True if this is for the same image and takes at most as much memory."""
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
        less = replace(self, kept_skips=(), budget=self.budget // 2)
        if self.kept_skips and not self.is_whole:
            return less
        side = min(self.tile, max(self.height, self.width)) // 2
        if side >= MIN_TILE_PX:
            tile = max(side - side % config.multiple, config.multiple)
            return replace(less, tile=tile, band=max(MIN_BAND_ROWS, self.band // 2))
        if not self.scratch:
            return replace(less, band=MIN_BAND_ROWS, scratch=True)
        raise DeviceError(
            f"out of memory even with tiles of {self.tile} pixels; close other programs, "
            "choose another device, or process a part of the image"
        )


@dataclass(frozen=True)
class MemoryCost:
    """Bytes that the stages of a network need."""

    config: KPACConfig
    item_size: int
    """Bytes of a value."""
    banded: bool = True
    """Whether the levels are run in bands, as on a CPU."""

    def tile(self, height: int, width: int) -> int:
        """Return what a pass over a tile needs."""
        feature_map = height * width * self.config.channels * self.item_size
        maps = _MAPS_AT_ONCE_IN_BANDS if self.banded else _MAPS_AT_ONCE
        return int(feature_map * maps) + _OVERHEAD_BYTES

    def skips(self, pixels: int, levels: tuple[int, ...]) -> int:
        """Return what the skip halves of some levels need; that of level 0 is a colour image."""
        widths = (3, *self.config.level_channels[1:])
        return sum(pixels // 4**level * widths[level] * self.item_size for level in levels)

    def bottleneck(self, pixels: int) -> int:
        """Return what is held whole: two feature maps of the bottleneck and all alphas."""
        cells = pixels // self.config.multiple**2
        alphas = self.config.blocks * len(self.config.dilations)
        return cells * (2 * self.config.wide + alphas) * self.item_size

    def band(self, rows: int, columns: int) -> int:
        """Return what a block needs for a band of that many cells."""
        return rows * columns * 6 * self.config.wide * self.item_size


@dataclass(frozen=True)
class TimeCost:
    """Seconds that the stages of a network take, from their work and the rate of the device."""

    work: Work
    rate: float
    """Floating-point operations per second, as estimated (``Backend.flops_per_second``)."""

    def tile(self, pixels: int, *, kept: bool) -> float:
        """Return how long the longer of the two passes over a tile takes.

        Where its skips are not ``kept``, decoding computes them once more.
        """
        decode = self.work.decode + (0 if kept else self.work.skips)
        return 2 * pixels * max(self.work.encode, decode) / self.rate

    def rows(self, columns: int) -> int:
        """Return how many rows of the bottleneck fit into a step, the halo of a block excluded."""
        rows = MAX_STEP_SECONDS * self.rate / (2 * columns * self.work.block)
        return int(rows) - 2 * self.work.block_halo


def make_plan(
    padded: tuple[int, int],
    config: KPACConfig,
    *,
    halo: int,
    tile: Tile = "auto",
    budget: int,
    item_size: int = 4,
    held: int = 0,
    banded: bool = True,
    time: TimeCost | None = None,
) -> Plan:
    """Choose tiles and what to keep for an image and a budget.

    The largest tile is taken with which everything fits and no step takes too long; skips are
    kept, shallow levels given up first, as long as that leaves room for a tile of comfortable
    size. ``halo`` are the pixels around a tile that the encoder must see (``KPACNet.halos``),
    ``held`` are bytes of the budget that are taken by the image itself and its result,
    ``banded`` tells whether the levels are run in bands. Without
    ``time`` all steps count as short. A tile that is asked for is taken as it is.
    """
    height, width = padded
    rows, columns = height // config.multiple, width // config.multiple
    cost, pixels = MemoryCost(config, item_size, banded), height * width
    every = tuple(range(config.levels))
    band = min(rows, max(MIN_BAND_ROWS, int(BAND_SHARE * budget / cost.band(1, columns))))
    whole = Plan(height, width, max(padded), every, band, scratch=False, budget=budget)
    if tile is None:
        return replace(whole, band=rows)
    if tile != "auto":
        return replace(whole, tile=tile - tile % config.multiple or config.multiple)
    if time is not None:
        whole = replace(whole, band=min(band, max(MIN_BAND_ROWS, time.rows(columns))))
    bottleneck = cost.bottleneck(pixels)
    usable = int(budget * USABLE_SHARE) - held - cost.band(band, columns)

    def is_quick(pixels: int, kept: tuple[int, ...]) -> bool:
        return time is None or time.tile(pixels, kept=kept == every) <= MAX_STEP_SECONDS

    if (
        pixels <= TILES_PX[0] ** 2
        and is_quick(pixels, every)
        and cost.tile(height, width) + cost.skips(pixels, every) + bottleneck <= usable
    ):
        return whole
    scratch = bottleneck > SCRATCH_SHARE * usable
    left = usable - (0 if scratch else bottleneck)
    choices = [(COMFORTABLE_TILE_PX, every[first:]) for first in every]
    for smallest, skips in (*choices, (MIN_TILE_PX, ())):
        for side in TILES_PX:
            grown = side + 2 * halo
            fits = cost.tile(grown, grown) + cost.skips(pixels, skips) <= left
            if side >= smallest and fits and is_quick(grown**2, skips):
                return replace(whole, tile=side, kept_skips=skips, scratch=scratch)
    return replace(whole, tile=MIN_TILE_PX, kept_skips=(), scratch=scratch)
