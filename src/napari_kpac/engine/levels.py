"""Levels of the encoder and the decoder over one tile, a band of rows at a time.

A feature map of a tile at full resolution has 192 bytes per pixel: written and read whole, it goes
through main memory, and every page of it is faulted in anew. So the layers between two
resolutions are run on bands of rows whose maps fit into the cache, each with as many rows around
it as its result depends on, and only what the next resolution needs is kept, in buffers that are
used again for the next tile. After every band the work may be left, so that cancelling never waits
for a whole tile. Not for: tiles themselves (stages.py), the layers (network).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.engine.pixels import Rect
from napari_kpac.network import KPACNet
from napari_kpac.network.layers import input_halo
from napari_kpac.network.net import EncoderLevel

T = TypeVar("T")
InBands = Generator[None, None, T]
"""Work on a tile that yields after every band, and returns its result."""

BAND_BYTES = 8 * 2**20
"""Of a feature map: several of them fit into the last-level cache of a processor together."""
MIN_BAND_ROWS = 16
"""Fewer rows would compute more of their surroundings than the cache saves."""


class Workspace:
    """Buffers for the large tensors of a tile, made once and used for every tile.

    Each has a name. What was there is overwritten when the name is asked for again, so a tensor
    from here lives until the next tile at the longest. Not for several threads at once.
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Tensor] = {}

    def map(self, name: str, like: Tensor, channels: int, height: int, width: int) -> Tensor:
        """Return a channels-last map (1, channels, height, width), its values undefined."""
        size = channels * height * width
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < size or (buffer.dtype, buffer.device) != (
            like.dtype, like.device
        ):  # fmt: skip
            self._buffers.pop(name, None)
            buffer = self._buffers[name] = torch.empty(size, dtype=like.dtype, device=like.device)
        return buffer[:size].view(1, height, width, channels).permute(0, 3, 1, 2)

    @property
    def size(self) -> int:
        """Bytes of all buffers."""
        return sum(each.nbytes for each in self._buffers.values())

    def clear(self) -> None:
        """Free all buffers."""
        self._buffers.clear()


class EncodedTile(NamedTuple):
    """What the encoder makes of a tile."""

    features: Tensor | None
    """The bottleneck's; None where only halves were asked for."""
    halves: dict[int, Tensor]
    """What the decoder makes of the skips, by level."""


def encode(
    net: KPACNet, x: Tensor, halves: Collection[int], workspace: Workspace, *, features: bool = True
) -> InBands[EncodedTile]:
    """Run the encoder on a tile, band by band.

    Parameters
    ----------
    net
        The network.
    x
        The tile (1, 3 or 6, h, w) in network values; its sides are multiples of a cell.
    halves
        Levels whose skip halves are wanted.
    workspace
        Holds what is returned until the next tile.
    features
        False: only the halves are wanted.
    """
    levels = cast("list[EncoderLevel]", list(net.encoder.levels))
    width = x.shape[-1]
    # Strided convolutions that want a column of zeros after the last one find it there: all
    # maps on the way down have it, so that none has to be copied for it.
    x = F.pad(x, (0, net.config.columns_after))
    found: dict[int, Tensor] = {}
    last = len(levels) - 1 if features else max(halves, default=-1)
    for number, level in enumerate(levels[: last + 1]):
        if number == len(levels) - 1:
            return EncodedTile(level.refined(x)[..., : width // 2**number], found)
        more = number < last
        x = yield from _encode_level(net, number, level, x, workspace, found, halves, more=more)
    return EncodedTile(None, found)


def _encode_level(
    net: KPACNet,
    number: int,
    level: EncoderLevel,
    x: Tensor,
    workspace: Workspace,
    found: dict[int, Tensor],
    halves: Collection[int],
    *,
    more: bool,
) -> InBands[Tensor]:
    """Run a level in bands; returns the first layer of the next one, puts its half into found.

    ``x`` is the image at level 0, and further down what the level's first layer made, each with
    the column of zeros.
    """
    zeros = net.config.columns_after
    height, width = x.shape[-2], x.shape[-1] - zeros
    after = cast("EncoderLevel", net.encoder.levels[number + 1])
    merge = net.decoder.level(number).merge
    around = max(input_halo(merge), input_halo(after.enter))
    around += around % 2  # rows begin at a multiple of the next level's stride
    halo = level.input_halo(around) if number == 0 else input_halo(level.refine, around)
    following: Tensor | None = None
    channels = level.refine.out_channels
    for band in bands(x, height, width, channels):
        inner = band.grown(around, height, width)
        outer = inner.grown(halo - around, height, width)
        part = rows(x, outer)
        if number == 0:
            part = _clear(level.entered(part), width)
        skip = rows(_clear(level.refined(part), width), inner.inside(outer))
        if number in halves:
            half = net.decoder.skip_half(number, skip)
            if number not in found:
                size = (merge.out_channels, height, width)
                found[number] = workspace.map(f"half {number}", half, *size)
            rows(found[number], band).copy_(rows(half, band.inside(inner))[..., :width])
        if more:
            # Elsewhere the row after the last one is thrown away.
            last = zeros if inner.bottom == height else 0
            entered = after.enter.convolved(F.pad(skip, (0, 0, 0, last)) if last else skip)
            if following is None:
                size = (after.enter.out_channels, height // 2, width // 2 + zeros)
                following = _clear(workspace.map(f"enter {number + 1}", entered, *size), width // 2)
            target = rows(following, _halved(band))[..., : width // 2]
            target.copy_(rows(entered, _halved(band.inside(inner))))
        yield
    return x if following is None else following


def decode_level(
    net: KPACNet, number: int, x: Tensor, half: Tensor, workspace: Workspace
) -> InBands[Tensor]:
    """Run the decoder's level that ends at an encoder level (0: full resolution) on a tile.

    ``x`` lies at half the resolution of ``half`` and of the result.
    """
    level = net.decoder.level(number)
    height, width = half.shape[-2:]
    channels = level.up.out_channels
    parts = list(bands(x, height, width, channels))
    if len(parts) == 1:
        result: Tensor = level(x, half)
        yield
        return result
    halo = level.input_halo(0)
    out: Tensor | None = None
    for band in parts:
        lower = _halved(band).grown(halo, height // 2, width // 2)
        outer = lower.times(2)
        made = level(rows(x, lower), rows(half, outer))
        if out is None:
            size = (level.merge.out_channels, height, width)
            out = workspace.map(f"decoded {number}", made, *size)
        rows(out, band).copy_(rows(made, band.inside(outer)))
        yield
    assert out is not None  # noqa: S101 - there is at least one band
    return out


def bands(x: Tensor, height: int, width: int, channels: int) -> Iterator[Rect]:
    """Cut a map on the device of ``x`` into bands that fit into the cache, of even height.

    A graphics card gets one band: it is faster with few large operations.
    """
    count = max(MIN_BAND_ROWS, BAND_BYTES // (width * channels * x.element_size()) // 2 * 2)
    if x.device.type != "cpu":
        count = height
    for top in range(0, height, count):
        yield Rect(top, min(top + count, height), 0, width)


def rows(x: Tensor, rect: Rect) -> Tensor:
    """Return the rows of a rectangle that is as wide as the map."""
    return x[:, :, rect.top : rect.bottom]


def _clear(x: Tensor, width: int) -> Tensor:
    """Write zeros into all columns from ``width`` on."""
    if x.shape[-1] > width:
        x[..., width:].zero_()
    return x


def _halved(rect: Rect) -> Rect:
    """Return a band at half the resolution."""
    return rect.divided(2)


__all__ = ["EncodedTile", "InBands", "Workspace", "decode_level", "encode"]
