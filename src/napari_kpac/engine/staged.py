"""Carries out a plan on one picture: encode tile by tile, blocks on the whole, decode by tile.

Tiles read as much of their surroundings as their result depends on, so every pixel is what
it would be in one piece. Not for: files, whole stacks, or caching between renders.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from napari_kpac.engine.allocator import keep_below
from napari_kpac.engine.device import make_sure, precision
from napari_kpac.engine.modulation import BlockModulation
from napari_kpac.engine.pixels import PlaneReader, Rect
from napari_kpac.engine.plan import (
    ATTENTION_HALO,
    Plan,
    band_cost,
    block_halo,
    decoder_halo,
    decoder_halos,
    encoder_halo,
    skip_halo,
    tile_cost,
)
from napari_kpac.files import reserve
from napari_kpac.network import KPACBlock, KPACNet
from napari_kpac.network.layers import lrelu

MakeStore = Callable[[int, int, int], Tensor]
"""Allocates a feature map of a whole picture: channels, height, width."""


@contextmanager
def stores(plan: Plan, device: torch.device, dtype: torch.dtype) -> Iterator[MakeStore]:
    """Give a maker of whole feature maps: in memory, or in files that vanish afterwards."""
    if not plan.scratch:

        def in_memory(channels: int, height: int, width: int) -> Tensor:
            shape = (1, channels, height, width)
            return torch.empty(shape, dtype=dtype, device=device, memory_format=torch.channels_last)

        yield in_memory
        return
    with tempfile.TemporaryDirectory(prefix="napari-kpac-", ignore_cleanup_errors=True) as folder:

        def on_disk(channels: int, height: int, width: int) -> Tensor:
            name = Path(folder) / f"{len(list(Path(folder).iterdir()))}.raw"
            kind = np.float64 if dtype == torch.float64 else np.float32
            name.touch()
            reserve(name, height * width * channels * np.dtype(kind).itemsize)
            values = np.memmap(name, kind, "r+", shape=(1, height, width, channels))
            return torch.from_numpy(values).permute(0, 3, 1, 2)

        yield on_disk


MARGIN = 1.5
"""A network of few channels needs more for a tile than plans count."""


class StagedRun:
    """The stages of one network on one picture, each over any rectangle of it."""

    def __init__(
        self, net: KPACNet, reader: PlaneReader, plan: Plan, device: torch.device,
        make: MakeStore, *, mixed: bool = False,
    ) -> None:  # fmt: skip
        self.net = net
        self.config = net.config
        self.reader = reader
        self.plan = plan
        self.device = device
        self.make = make
        self.mixed = mixed
        self.cell = self.config.multiple
        self.cells = (plan.height // self.cell, plan.width // self.cell)
        self.features: Tensor | None = None
        self.halves: dict[int, Tensor] = {}

    def encode(self, levels: Sequence[int]) -> Iterator[Rect]:
        """Encode all tiles, keeping the halves of these skip levels; yields each tile done."""
        for tile in self.plan.tiles():
            self._encode_tile(tile, levels)
            yield tile

    def decode_rect(self, entered: Tensor, rect: Rect, halves: dict[int, Tensor]) -> Tensor:
        """Compute the residual of a rectangle, on the CPU.

        ``entered`` is the decoder's first stage, whole or at least around the rectangle;
        edges of the rectangle are multiples of the cell size.
        """
        outer = rect.grown(decoder_halo(self.config), self.plan.height, self.plan.width)
        return self.decode_outer(self._part(entered, outer, self.cell), rect, outer, halves)

    @torch.no_grad()
    def decode_outer(
        self, entered: Tensor, rect: Rect, outer: Rect, halves: dict[int, Tensor]
    ) -> Tensor:
        """Compute the residual of ``rect`` from the decoder's first stage over ``outer``."""
        self._make_sure_of_tile(outer)
        missing = [level for level in range(self.config.levels) if level not in halves]
        fresh = self._recompute(outer, missing) if missing else {}
        x, place = entered, outer
        with precision(self.device, self.mixed):
            for index, halo in enumerate(decoder_halos(self.config)):
                level = self.config.levels - 1 - index
                # On the way up less and less of the surroundings is needed.
                needed = rect.grown(halo, self.plan.height, self.plan.width)
                x = _crop(x, needed.inside(place), 2 ** (level + 1))
                if level in fresh:
                    half = _crop(fresh.pop(level), needed.inside(outer), 2**level)
                else:
                    half = self._part(halves[level], needed, 2**level)
                x, place = self.net.decoder.levels[index](x, half), needed
        return _crop(x, rect.inside(place)).to("cpu", self.reader.dtype)

    @torch.no_grad()
    def attention(self, index: int, x: Tensor, rect: Rect | None = None) -> Tensor:
        """Compute alpha of a block over a rectangle of cells (default: all), band by band."""
        block = self.block(index)
        return self._by_band(block.alpha, ATTENTION_HALO, rect, len(block.dilations), x)

    @torch.no_grad()
    def beta(self, index: int, x: Tensor) -> Tensor:
        """Compute beta of a block; it depends on the whole picture."""
        return self.block(index).beta_of_mean(x.mean(dim=(2, 3)).to(self.device))

    def block(self, index: int) -> KPACBlock:
        """Return a block of the network."""
        return cast(KPACBlock, self.net.blocks[index])

    @torch.no_grad()
    def bottleneck(
        self, modulations: Sequence[BlockModulation] | None
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Run all blocks and the decoder's first stage, keeping no more than two feature maps.

        Takes the encoder's features over (they are gone afterwards); returns the decoder's
        first stage, the alphas (as used) and the betas.
        """
        decoder = self.net.decoder
        x = self.take_features()
        gathered = self.make(self.config.wide, *self.cells)

        def first(part: Tensor) -> Tensor:
            return decoder.gather.partial(0, part, bias=True)

        self._by_band(first, 1, None, self.config.wide, x, out=gathered)
        alphas, betas = [], []
        for index in range(self.config.blocks):
            block = self.block(index)
            alpha, beta = self.attention(index, x), self.beta(index, x)
            if modulations is not None:
                alpha = modulations[index].apply(alpha)

            def fuse(part: Tensor, weights: Tensor, block: KPACBlock = block,
                     beta: Tensor = beta) -> Tensor:  # fmt: skip
                total = None
                for i in range(len(block.dilations)):
                    weighted = block.weigh(i, block.branch(i, part), weights, beta)
                    if total is None:
                        total = block.fusion.partial(0, weighted, bias=True)
                    else:
                        total.add_(block.fusion.partial(i, weighted))
                return lrelu(cast(Tensor, total))

            def gather(part: Tensor, index: int = index) -> Tensor:
                return decoder.gather.partial(index + 1, part)

            halo = block_halo(self.config)
            self._by_band(fuse, halo, None, self.config.wide, x, alpha, out=x)
            self._by_band(gather, 1, None, self.config.wide, x, out=gathered, add=True)
            alphas.append(alpha)
            betas.append(beta)
        del x

        def refine(part: Tensor) -> Tensor:
            return lrelu(decoder.refine(part))

        lrelu(gathered)
        self._by_band(refine, 1, None, self.config.wide, gathered, out=gathered)
        return gathered, alphas, betas

    def take_features(self) -> Tensor:
        """Hand the encoder's features over and keep no hold of them."""
        assert self.features is not None  # noqa: S101 - encode() comes first
        features, self.features = self.features, None
        return features

    @torch.no_grad()
    def _encode_tile(self, tile: Rect, levels: Sequence[int]) -> None:
        outer = tile.grown(encoder_halo(self.config), self.plan.height, self.plan.width)
        self._make_sure_of_tile(outer)
        x = self._read(outer)
        with precision(self.device, self.mixed):
            for level, stage in enumerate(self.net.encoder.levels):
                x = stage(x)
                if level in levels:
                    half = self.net.decoder.skip_half(level, x)
                    self.halves[level] = self._keep(
                        self.halves.get(level), half, tile, outer, 2**level
                    )
        self.features = self._keep(self.features, x, tile, outer, self.cell)

    def _recompute(self, outer: Rect, levels: Sequence[int]) -> dict[int, Tensor]:
        """Compute the halves of some skips for a rectangle, by encoding once more."""
        wider = outer.grown(skip_halo(self.config), self.plan.height, self.plan.width)
        x = self._read(wider)
        found = {}
        with precision(self.device, self.mixed):
            for level in range(max(levels) + 1):
                x = self.net.encoder.levels[level](x)
                if level in levels:
                    half = self.net.decoder.skip_half(level, x)
                    found[level] = _crop(half, outer.inside(wider), 2**level)
        return found

    def _make_sure_of_tile(self, rect: Rect) -> None:
        needed = tile_cost(self.config, rect.height, rect.width, self.reader.dtype.itemsize)
        keep_below(self.plan.budget - needed)
        make_sure(self.device, int(MARGIN * needed))

    def _read(self, rect: Rect) -> Tensor:
        x = self.reader.read(rect)
        if self.device.type == "cuda":
            x = x.pin_memory()
        return x.to(self.device, non_blocking=True)

    def _keep(
        self, store: Tensor | None, part: Tensor, tile: Rect, outer: Rect, cell: int
    ) -> Tensor:
        """Put a tile's part into the whole map; the only tile of a picture is the whole map."""
        part = _crop(part, tile.inside(outer), cell).to(self.reader.dtype)
        if self.plan.tile_count == 1 and not self.plan.scratch:
            return part
        if store is None:
            store = self.make(part.shape[1], self.plan.height // cell, self.plan.width // cell)
        rows, columns = tile.divided(cell).slices
        store[:, :, rows, columns] = part
        return store

    def _part(self, whole: Tensor, rect: Rect, cell: int) -> Tensor:
        rows, columns = rect.divided(cell).slices
        return whole[:, :, rows, columns].to(self.device)

    def _by_band(
        self, function: Callable[..., Tensor], halo: int, rect: Rect | None, channels: int,
        *inputs: Tensor, out: Tensor | None = None, add: bool = False,
    ) -> Tensor:  # fmt: skip
        """Apply a local function to rows of the bottleneck, a band at a time.

        Each band sees ``halo`` more rows of every input than it gives. ``out`` may be the
        first input: what later bands still need of it is put aside in time.
        """
        rect = rect or Rect(0, self.cells[0], 0, self.cells[1])
        across = Rect(0, 1, rect.left, rect.right).grown(halo, 1, self.cells[1])
        if out is None and (rect.height <= self.plan.band):
            return self._band(function, halo, rect, across, None, inputs)
        if out is None:
            out = torch.empty(
                (1, channels, rect.height, rect.width), dtype=inputs[0].dtype, device=self.device
            )
        above: Tensor | None = None
        for top in range(rect.top, rect.bottom, self.plan.band):
            band = Rect(top, min(top + self.plan.band, rect.bottom), rect.left, rect.right)
            result = self._band(function, halo, band, across, above, inputs)
            if out is inputs[0]:
                above = _tail(above, inputs[0], band, halo)
            place = out[:, :, band.top - rect.top : band.bottom - rect.top]
            place.add_(result) if add else place.copy_(result)
        return out

    def _band(
        self, function: Callable[..., Tensor], halo: int, band: Rect, across: Rect,
        above: Tensor | None, inputs: Sequence[Tensor],
    ) -> Tensor:  # fmt: skip
        outer = band.grown(halo, *self.cells)._replace(left=across.left, right=across.right)
        needed = band_cost(self.config, outer.height, outer.width, self.reader.dtype.itemsize)
        make_sure(self.device, needed)
        rows, columns = outer.slices
        parts = [whole[:, :, rows, columns].to(self.device) for whole in inputs]
        if above is not None:
            # These rows of the first input have been written over; their copies stand in.
            gone = band.top - outer.top
            rest = parts[0][:, :, gone:]
            parts[0] = torch.cat((above[:, :, above.shape[2] - gone :], rest), dim=2)
        return _crop(function(*parts), band.inside(outer))


def _tail(above: Tensor | None, whole: Tensor, band: Rect, halo: int) -> Tensor:
    """Copy the last rows of a band before they are written over."""
    recent = whole[:, :, max(band.bottom - halo, band.top) : band.bottom].clone()
    if above is None or recent.shape[2] >= halo:
        return recent
    return torch.cat((above, recent), dim=2)[:, :, -halo:]


def _crop(x: Tensor, rect: Rect, cell: int = 1) -> Tensor:
    rows, columns = rect.divided(cell).slices
    return x[:, :, rows, columns]
