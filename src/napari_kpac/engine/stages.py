"""Carries out a plan on one image: encode tile by tile, blocks on the whole, decode by tile.

Tiles read as much of their surroundings as their result depends on, so every pixel is what
it would be in one piece. Not for: what happens between encoder and decoder (bottleneck.py),
files, or whole stacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.files import reserve
from napari_kpac.engine.allocator import keep_below
from napari_kpac.engine.device import make_sure, precision
from napari_kpac.engine.pixels import PlaneReader, Rect
from napari_kpac.engine.plan import Plan, band_cost, tile_cost
from napari_kpac.network import KPACNet, Stage

MakeStore = Callable[[int, int, int], Tensor]
"""Allocates a feature map of a whole image: channels, height, width."""


@contextmanager
def stores(plan: Plan, device: torch.device, dtype: torch.dtype) -> Iterator[MakeStore]:
    """Yield a maker of whole feature maps: in memory, or in files that vanish afterwards."""
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


class Stages:
    """The stages of one network on one image, each over any rectangle of it.

    Attributes
    ----------
    cell
        Pixels per cell of the bottleneck.
    cells
        Height and width of the bottleneck.
    halves
        What the decoder makes of the skips of the kept levels, by level.
    """

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
        self.halves: dict[int, Tensor] = {}
        self._features: Tensor | None = None

    def encode(self, levels: Sequence[int]) -> Iterator[Rect]:
        """Encode all tiles, keeping the halves of these skip levels; yields each tile done."""
        for tile in self.plan.tiles():
            self._encode_tile(tile, levels)
            yield tile

    def take_features(self) -> Tensor:
        """Return the encoder's features and keep no hold of them."""
        assert self._features is not None  # noqa: S101 - encode() comes first
        features, self._features = self._features, None
        return features

    def decode(self, entered: Tensor, rect: Rect, place: Rect | None = None) -> Tensor:
        """Compute the residual of a rectangle, on the CPU.

        Parameters
        ----------
        entered
            What the decoder's levels begin with, around the rectangle at least.
        rect
            In pixels; its edges are multiples of the cell size.
        place
            The cells that ``entered`` covers; None: all.
        """
        outer = self.around(rect)
        cells = outer.divided(self.cell)
        rows, columns = (cells if place is None else cells.inside(place)).slices
        return self._decode(entered[:, :, rows, columns].to(self.device), rect, outer)

    def around(self, rect: Rect) -> Rect:
        """Return the pixels on which the residual of a rectangle depends, given the bottleneck."""
        return rect.grown(self.net.halos.decode[0], self.plan.height, self.plan.width)

    @torch.no_grad()
    def _decode(self, entered: Tensor, rect: Rect, outer: Rect) -> Tensor:
        self._make_sure_of_tile(outer)
        missing = [level for level in range(self.config.levels) if level not in self.halves]
        fresh = self._recompute(outer, missing) if missing else {}
        x, place = entered, outer
        with precision(self.device, self.mixed):
            for index, halo in enumerate(self.net.halos.decode):
                level = self.config.levels - 1 - index
                # On the way up less and less of the surroundings is needed.
                needed = rect.grown(halo, self.plan.height, self.plan.width)
                x = _crop(x, needed.inside(place), 2 ** (level + 1))
                if level in fresh:
                    half = _crop(fresh.pop(level), needed.inside(outer), 2**level)
                else:
                    half = _crop(self.halves[level], needed, 2**level).to(self.device)
                x, place = self.net.decoder.levels[index](x, half), needed
        return _crop(x, rect.inside(place)).to("cpu", self.reader.dtype)

    @torch.no_grad()
    def by_band(
        self, stage: Stage, channels: int, *inputs: Tensor,
        out: Tensor | None = None, add: bool = False,
    ) -> Tensor:  # fmt: skip
        """Run a stage over the whole bottleneck, a band of rows at a time.

        Parameters
        ----------
        stage
            What is run.
        channels
            Of its result.
        *inputs
            Maps of the whole bottleneck.
        out
            Where the result goes; may be the first input: what later bands still need of it
            is put aside in time. None: a new map.
        add
            Add to ``out`` instead of overwriting it.
        """
        height, width = self.cells
        if out is None and height <= self.plan.band:
            return self._band(stage, Rect(0, height, 0, width), None, inputs)
        if out is None:
            shape = (1, channels, height, width)
            out = torch.empty(shape, dtype=inputs[0].dtype, device=self.device)
        above: Tensor | None = None
        for top in range(0, height, self.plan.band):
            band = Rect(top, min(top + self.plan.band, height), 0, width)
            result = self._band(stage, band, above, inputs)
            if out is inputs[0]:
                above = _tail(above, inputs[0], band, stage.halo)
            place = out[:, :, band.top : band.bottom]
            place.add_(result) if add else place.copy_(result)
        return out

    def _band(
        self, stage: Stage, band: Rect, above: Tensor | None, inputs: Sequence[Tensor]
    ) -> Tensor:
        outer = band.grown(stage.halo, *self.cells)
        needed = band_cost(self.config, outer.height, outer.width, self.reader.dtype.itemsize)
        make_sure(self.device, needed)
        parts = [_crop(whole, outer).to(self.device) for whole in inputs]
        if above is not None:
            # These rows of the first input have been written over; their copies stand in.
            gone = band.top - outer.top
            rest = parts[0][:, :, gone:]
            parts[0] = torch.cat((above[:, :, above.shape[2] - gone :], rest), dim=2)
        return _crop(stage.run(*parts), band.inside(outer))

    @torch.no_grad()
    def _encode_tile(self, tile: Rect, levels: Sequence[int]) -> None:
        outer = tile.grown(self.net.halos.encode, self.plan.height, self.plan.width)
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
        self._features = self._keep(self._features, x, tile, outer, self.cell)

    def _recompute(self, outer: Rect, levels: Sequence[int]) -> dict[int, Tensor]:
        """Compute the halves of some skips for a rectangle, by encoding once more."""
        wider = outer.grown(self.net.halos.skips, self.plan.height, self.plan.width)
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
        """Put a tile's part into the whole map; the only tile of an image is the whole map."""
        part = _crop(part, tile.inside(outer), cell).to(self.reader.dtype)
        if self.plan.tile_count == 1 and not self.plan.scratch:
            return part
        if store is None:
            store = self.make(part.shape[1], self.plan.height // cell, self.plan.width // cell)
        rows, columns = tile.divided(cell).slices
        store[:, :, rows, columns] = part
        return store


def _tail(above: Tensor | None, whole: Tensor, band: Rect, halo: int) -> Tensor:
    """Copy the last rows of a band before they are written over."""
    recent = whole[:, :, max(band.bottom - halo, band.top) : band.bottom].clone()
    if above is None or recent.shape[2] >= halo:
        return recent
    return torch.cat((above, recent), dim=2)[:, :, -halo:]


def _crop(x: Tensor, rect: Rect, cell: int = 1) -> Tensor:
    rows, columns = rect.divided(cell).slices
    return x[:, :, rows, columns]
