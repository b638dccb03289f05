"""Stages of the network on one plane, by a plan: encode and decode by tile, blocks by band.

Tiles read as much of their surroundings as their result depends on, so every pixel is what
it would be in one piece. Not for: what happens between encoder and decoder (bottleneck.py),
files, or whole stacks.
"""

from __future__ import annotations

import tempfile
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.files import reserve
from napari_kpac.engine.backend import Backend
from napari_kpac.engine.levels import InBands, Workspace, decode_level, encode
from napari_kpac.engine.pixels import PlaneReader, Rect
from napari_kpac.engine.tiling import MemoryCost, Plan
from napari_kpac.network import KPACNet, Stage

T = TypeVar("T")
Counted = Generator[bool, None, T]
"""Work that may be left wherever it yields: True after a tile or a band, which are counted, and
False within one. Returns its result."""
Bands = Counted[Tensor]
"""The same for a stage that returns a map."""

SAFETY_FACTOR = 1.5
"""A network of few channels needs more for a tile than plans count."""


class Stages:
    """The stages of one network on one plane, each over any rectangle of it.

    To be closed after use, for whole feature maps may lie in temporary files.

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
        self, net: KPACNet, reader: PlaneReader, plan: Plan, backend: Backend,
        *, spare: list[Workspace] | None = None,
    ) -> None:  # fmt: skip
        self.net = net
        self.config = net.config
        self.reader = reader
        self.plan = plan
        self.backend = backend
        self.device = backend.device
        self._spare = [] if spare is None else spare
        self._workspace: Workspace | None = None
        self.cell = self.config.multiple
        self.cells = (plan.height // self.cell, plan.width // self.cell)
        self.halves: dict[int, Tensor] = {}
        self._features: Tensor | None = None
        self._image: Tensor | None = None
        """The whole image on an accelerator that has room for it."""
        self._cost = MemoryCost(
            self.config, reader.dtype.itemsize, banded=not backend.is_accelerator
        )
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def close(self) -> None:
        """Remove temporary files and drop what is kept; encoding begins anew afterwards."""
        self.halves, self._features, self._image = {}, None, None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
        if self._workspace is not None:
            self._spare.append(self._workspace)
            self._workspace = None

    @property
    def workspace(self) -> Workspace:
        """Buffers that belong to these stages until they are closed."""
        if self._workspace is None:
            # Taken and not shared: planes of one image may be processed in several threads.
            self._workspace = self._spare.pop() if self._spare else Workspace()
        return self._workspace

    def empty_map(self, channels: int, height: int, width: int) -> Tensor:
        """Allocate a feature map of the whole plane, in memory or in a temporary file."""
        dtype = self.reader.dtype
        if not self.plan.scratch:
            shape = (1, channels, height, width)
            return torch.empty(
                shape, dtype=dtype, device=self.device, memory_format=torch.channels_last
            )
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(
                prefix="napari-kpac-", ignore_cleanup_errors=True
            )
        folder = Path(self._folder.name)
        path = folder / f"{len(list(folder.iterdir()))}.raw"
        kind = np.float64 if dtype == torch.float64 else np.float32
        path.touch()
        reserve(path, height * width * channels * np.dtype(kind).itemsize)
        values = np.memmap(path, kind, "r+", shape=(1, height, width, channels))
        return torch.from_numpy(values).permute(0, 3, 1, 2)

    def encode(self) -> Counted[None]:
        """Encode all tiles, keeping the halves of the plan's skips."""
        for tile in self.plan.tiles():
            yield from self._encode_tile(tile)
            yield True

    def take_features(self) -> Tensor:
        """Return the encoder's features and keep no hold of them."""
        assert self._features is not None  # noqa: S101 - encode() comes first
        features, self._features = self._features, None
        return features

    @torch.no_grad()
    def features(self, rect: Rect) -> Bands:
        """Encode a rectangle alone, whose edges are multiples of a cell.

        Nothing is kept for decoding.
        """
        whole: Tensor | None = None
        for tile in self.plan.tiles(rect):
            outer = self._grown(tile, self.net.halos.encode)
            self._check_memory_for_tile(outer)
            made = yield from self._computed(
                encode(self.net, self._read(outer), (), self.workspace)
            )
            x = made.features
            assert x is not None  # noqa: S101 - asked for
            part = cut(x, tile.inside(outer), self.cell).to(self.reader.dtype)
            if whole is None:
                cells = rect.divided(self.cell)
                whole = torch.empty(
                    (1, part.shape[1], cells.height, cells.width), dtype=part.dtype,
                    device=self.device, memory_format=torch.channels_last,
                )  # fmt: skip
            cut(whole, tile.inside(rect), self.cell).copy_(part)
            yield True
        assert whole is not None  # noqa: S101 - there is at least one tile
        return whole

    def around(self, rect: Rect) -> Rect:
        """Return the pixels on which the residual of a rectangle depends, given the bottleneck."""
        return self._grown(rect, self.net.halos.decode[0])

    @torch.no_grad()
    def decode(self, entered: Tensor, rect: Rect, place: Rect | None = None) -> Bands:
        """Compute the residual of a rectangle, on the device; it is overwritten by the next.

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
        x = self.on_device(cut(entered, cells if place is None else cells.inside(place)))
        self._check_memory_for_tile(outer)
        missing = [level for level in range(self.config.levels) if level not in self.halves]
        fresh = (yield from self._recompute(outer, missing)) if missing else {}
        covered = outer
        for index, halo in enumerate(self.net.halos.decode):
            level = self.config.levels - 1 - index
            # On the way up less and less of the surroundings is needed.
            needed = self._grown(rect, halo)
            x = cut(x, needed.inside(covered), 2 ** (level + 1))
            if level in fresh:
                half = cut(fresh.pop(level), needed.inside(outer), 2**level)
            else:
                half = self.on_device(cut(self.halves[level], needed, 2**level))
            steps = decode_level(self.net, level, x, half, self.workspace)
            x, covered = (yield from self._computed(steps)), needed
        return cut(x, rect.inside(covered))

    def decode_all(self, entered: Tensor, rect: Rect, place: Rect | None = None) -> Bands:
        """Compute the residual of a rectangle tile by tile, on the CPU.

        Its edges are multiples of the cell size. An accelerator sends it in one piece.
        """
        shape, dtype = (1, 3, rect.height, rect.width), self.reader.dtype
        at_once = self.keeps_image
        where = self.device if at_once else torch.device("cpu")
        whole = torch.empty(shape, dtype=dtype, device=where, memory_format=torch.channels_last)
        for tile in self.plan.tiles(rect):
            part = yield from self.decode(entered, tile, place)
            if self.backend.is_accelerator and not at_once:
                part = self.backend.download(part, dtype)
            cut(whole, tile.inside(rect)).copy_(part)
            yield True
        return self.backend.download(whole, dtype) if at_once else whole

    @property
    def keeps_image(self) -> bool:
        """Whether the image and its residual lie on an accelerator as a whole."""
        return self.backend.is_accelerator and not self.plan.scratch

    @property
    def bands(self) -> int:
        """Number of bands in which the bottleneck is processed."""
        return -(-self.cells[0] // self.plan.band)

    def by_band(
        self, stage: Stage, *inputs: Tensor, out: Tensor | None = None, add: bool = False
    ) -> Bands:
        """Run a stage over the bottleneck, or a part of it, a band of rows at a time.

        Parameters
        ----------
        stage
            What is run.
        *inputs
            Maps of the bottleneck, or of more cells around it; all of one height and width.
        out
            Where the result goes; may be the first input: what later bands still need of it
            is put aside in time. None: a new map.
        add
            Add to ``out`` instead of overwriting it.
        """
        height, width = inputs[0].shape[-2:]
        above: Tensor | None = None
        for top in range(0, height, self.plan.band):
            band = Rect(top, min(top + self.plan.band, height), 0, width)
            result = yield from self._band(stage, band, above, inputs)
            if out is None:
                if band.height == height:
                    yield True
                    return result
                shape = (1, result.shape[1], height, width)
                out = torch.empty(
                    shape, dtype=inputs[0].dtype, device=self.device,
                    memory_format=torch.channels_last,
                )  # fmt: skip
            if out is inputs[0]:
                above = _tail(above, inputs[0], band, stage.halo)
            place = out[:, :, band.top : band.bottom]
            place.add_(result) if add else place.copy_(result)
            del result
            yield True
        assert out is not None  # noqa: S101 - there is at least one band
        return out

    @torch.no_grad()
    def _band(
        self, stage: Stage, band: Rect, above: Tensor | None, inputs: Sequence[Tensor]
    ) -> Bands:
        outer = band.grown(stage.halo, *inputs[0].shape[-2:])
        self.backend.check_available(self._cost.band(outer.height, outer.width))
        parts = [self.on_device(cut(whole, outer)) for whole in inputs]
        if above is not None:
            # These rows of the first input have been written over; their copies stand in.
            gone = band.top - outer.top
            rest = parts[0][:, :, gone:]
            parts[0] = torch.cat((above[:, :, above.shape[2] - gone :], rest), dim=2)
        if stage.steps is None:
            result = stage.run(*parts)
        else:
            result = yield from _within(stage.steps(*parts))
        return cut(result, band.inside(outer))

    @torch.no_grad()
    def _encode_tile(self, tile: Rect) -> Counted[None]:
        outer = self._grown(tile, self.net.halos.encode)
        self._check_memory_for_tile(outer)
        made = yield from self._computed(
            encode(self.net, self._read(outer), self.plan.kept_skips, self.workspace)
        )
        for level, half in made.halves.items():
            kept = self.halves.get(level)
            self.halves[level] = self._keep(kept, half, tile, outer, 2**level)
        assert made.features is not None  # noqa: S101 - asked for
        self._features = self._keep(self._features, made.features, tile, outer, self.cell)

    def _recompute(self, outer: Rect, levels: Sequence[int]) -> Counted[dict[int, Tensor]]:
        """Compute the halves of some skips for a rectangle, by encoding once more."""
        wider = self._grown(outer, self.net.halos.skips)
        x = self._read(wider)
        made = yield from self._computed(
            encode(self.net, x, levels, self.workspace, features=False)
        )
        found = made.halves
        return {level: cut(half, outer.inside(wider), 2**level) for level, half in found.items()}

    def _computed(self, steps: InBands[T]) -> Counted[T]:
        """Take the steps of a part of a tile, in half precision where that is wanted."""
        return _within(steps, self.backend)

    def _keep(
        self, whole: Tensor | None, part: Tensor, tile: Rect, outer: Rect, cell: int
    ) -> Tensor:
        """Put a tile's part into the whole map; the only tile of a plane is the whole map."""
        part = cut(part, tile.inside(outer), cell).to(self.reader.dtype)
        if self.plan.tile_count == 1 and not self.plan.scratch:
            return part.clone(memory_format=torch.channels_last)
        if whole is None:
            size = (self.plan.height // cell, self.plan.width // cell)
            whole = self.empty_map(part.shape[1], *size)
        cut(whole, tile, cell).copy_(part)
        return whole

    def _read(self, rect: Rect) -> Tensor:
        if not self.keeps_image:
            return self.backend.upload(self.reader.read(rect))
        if self._image is None:
            every = Rect(0, self.plan.height, 0, self.plan.width)
            self._image = self.backend.upload(self.reader.read(every))
        return cut(self._image, rect)

    def on_device(self, x: Tensor) -> Tensor:
        """Return a part of a map on the device: what lies in a file has to get there."""
        return self.backend.upload(x) if self.plan.scratch else x

    def _grown(self, rect: Rect, halo: int) -> Rect:
        return rect.grown(halo, self.plan.height, self.plan.width)

    def _check_memory_for_tile(self, rect: Rect) -> None:
        needed = self._cost.tile(rect.height, rect.width)
        self.backend.check_available(int(SAFETY_FACTOR * needed))


def _within(steps: InBands[T], backend: Backend | None = None) -> Counted[T]:
    """Take steps that are not counted, each in the precision of the backend if there is one."""
    while True:
        # Not longer than a step: whoever takes the next one has a precision of its own.
        context: AbstractContextManager[Any] = nullcontext()
        if backend is not None:
            context = backend.computing()
        with context:
            try:
                next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
        yield False


def _tail(above: Tensor | None, whole: Tensor, band: Rect, halo: int) -> Tensor:
    """Copy the last rows of a band before they are written over."""
    recent = whole[:, :, max(band.bottom - halo, band.top) : band.bottom].clone()
    if above is None or recent.shape[2] >= halo:
        return recent
    return torch.cat((above, recent), dim=2)[:, :, -halo:]


def cut(x: Tensor, rect: Rect, cell: int = 1) -> Tensor:
    """Return a rectangle of a map with that many pixels per cell."""
    rows, columns = rect.divided(cell).slices
    return x[:, :, rows, columns]
