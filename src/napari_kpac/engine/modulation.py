"""Modulation: how a person steers the network by gains, overrides, labels and strength.

Not for: running it (bottleneck.py, session.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import ConfigError
from napari_kpac.engine.pixels import Rect
from napari_kpac.network import KPACConfig

MAX_GAIN = 100.0
Gains = Sequence[float] | Sequence[Sequence[float]] | npt.NDArray[Any]
Override = float | npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Modulation:
    """Changes to alpha, the per-pixel weight of every dilation, and to the result's strength.

    Parameters
    ----------
    gains
        Factor of every alpha: one row for all blocks, or one row per block. None: all 1.
    override
        Alphas to replace before the gains act: ``{(block, i): value}`` with block and i as
        in the paper, counted from 1; the value is a number or a map of the image's size.
    labels
        An integer image of the same height and width.
    label_gains
        ``{label: gains}``: inside that label these gains stand in for ``gains``.
    strength
        Factor of the residual: 0 gives the input, 1 the network's result.
    """

    gains: Gains | None = None
    override: Mapping[tuple[int, int], Override] = field(default_factory=dict)
    labels: npt.NDArray[Any] | None = None
    label_gains: Mapping[int, Gains] = field(default_factory=dict)
    strength: float = 1.0

    def __post_init__(self) -> None:
        for name, gains in self._named_gains().items():
            _check_gains(gains, name)
        strength = self.strength
        if not isinstance(strength, int | float | np.number) or not 0 <= strength <= MAX_GAIN:
            raise ConfigError(f"strength={strength!r}: must be a number from 0 to {MAX_GAIN:g}")
        if self.label_gains and self.labels is None:
            raise ConfigError("label_gains need a label image: give labels=")
        if self.labels is not None:
            labels = np.asarray(self.labels)
            if labels.ndim != 2 or labels.dtype.kind not in "uib":
                raise ConfigError(
                    f"labels must be an integer image of height and width, got {labels.dtype} "
                    f"of shape {labels.shape}"
                )
        for (block, index), value in self.override.items():
            values = np.asarray(value, dtype=np.float64)
            if values.ndim not in (0, 2) or not np.isfinite(values).all():
                raise ConfigError(
                    f"override[{block}, {index}]: must be a finite number or a map of the image"
                )

    def _named_gains(self) -> dict[str, Gains]:
        """Return all gains that there are, by their name in messages."""
        own = {} if self.gains is None else {"gains": self.gains}
        return own | {f"label_gains[{label}]": each for label, each in self.label_gains.items()}

    @property
    def is_neutral(self) -> bool:
        """Whether alpha is left as it is (the strength may differ from 1)."""
        plain = self.gains is None or bool((np.asarray(self.gains) == 1).all())
        return plain and not self.override and not self.label_gains

    def check(self, config: KPACConfig, size: tuple[int, int] | None = None) -> None:
        """Raise unless this fits a network, and an image of that size."""
        shape = (config.blocks, len(config.dilations))
        for name, gains in self._named_gains().items():
            if np.shape(gains) not in (shape, shape[1:]):
                raise ConfigError(
                    f"{name} has shape {np.shape(gains)}; this network has {shape[0]} block(s) of "
                    f"{shape[1]} dilations, so {shape[1:]} or {shape} is needed"
                )
        if size is not None and self.labels is not None and np.shape(self.labels) != size:
            raise ConfigError(f"labels have shape {np.shape(self.labels)}, the image has {size}")
        for (block, index), value in self.override.items():
            if not (1 <= block <= shape[0] and 1 <= index <= shape[1]):
                raise ConfigError(
                    f"override[{block}, {index}]: blocks are 1..{shape[0]}, alphas 1..{shape[1]}"
                )
            if size is not None and np.ndim(value) and np.shape(value) != size:
                raise ConfigError(
                    f"override[{block}, {index}] has shape {np.shape(value)}, the image {size}"
                )


@dataclass(frozen=True, eq=False)
class BlockModulation:
    """A modulation for one block of one plane, at bottleneck resolution."""

    gains: npt.NDArray[np.float64]
    """One factor per dilation."""
    gain_maps: Tensor | None
    """(1, dilations, h, w): factors per cell, in place of ``gains``; None where uniform."""
    override: Mapping[int, float | Tensor]
    """By index (from 0): what alpha is before the gains; maps are (h, w)."""

    @property
    def is_scalar(self) -> bool:
        """Whether it only multiplies each branch by one number."""
        return self.gain_maps is None and not self.override

    def apply(self, alpha: Tensor) -> Tensor:
        """Return the alpha to use: overridden, then multiplied by the gains."""
        if self.override:
            alpha = alpha.clone()
            for index, value in self.override.items():
                alpha[:, index] = value.to(alpha) if isinstance(value, Tensor) else value
        if self.gain_maps is not None:
            return alpha * self.gain_maps.to(alpha)
        if (self.gains == 1).all():
            return alpha
        return alpha * torch.as_tensor(self.gains).to(alpha)[:, None, None]

    def cropped(self, rect: Rect) -> BlockModulation:
        """Return the same for a rectangle of cells."""
        override = {
            index: value[rect.slices] if isinstance(value, Tensor) else value
            for index, value in self.override.items()
        }
        maps = None if self.gain_maps is None else self.gain_maps[..., *rect.slices]
        return BlockModulation(self.gains, maps, override)

    def same_as(self, other: BlockModulation) -> bool:
        """Return True if both give the same alpha."""
        return (
            np.array_equal(self.gains, other.gains)
            and _same(self.gain_maps, other.gain_maps)
            and self.override.keys() == other.override.keys()
            and all(_same(value, other.override[key]) for key, value in self.override.items())
        )


def block_modulations(
    modulation: Modulation, config: KPACConfig, padded: tuple[int, int]
) -> list[BlockModulation]:
    """Return a modulation at bottleneck resolution, one record per block.

    A cell takes the mean over the pixels it stands for; padding repeats the border.
    """
    gains, size = _rows(modulation.gains, config), (padded, config.multiple)
    found = []
    for block, row in enumerate(gains):
        override = {
            index - 1: _to_cells(value, *size) if np.ndim(value) else float(value)
            for (where, index), value in modulation.override.items()
            if where == block + 1
        }
        label_rows = {
            label: _rows(own, config)[block] for label, own in modulation.label_gains.items()
        }
        maps = _gain_maps(modulation.labels, label_rows, row, *size)
        found.append(BlockModulation(row, maps, override))
    return found


def _gain_maps(
    labels: npt.NDArray[Any] | None,
    label_rows: Mapping[int, npt.NDArray[np.float64]],
    row: npt.NDArray[np.float64],
    padded: tuple[int, int],
    cell: int,
) -> Tensor | None:
    """Return gains per cell; None where no label has other gains than the rest."""
    image = np.asarray(labels)
    shares = {
        label: _to_cells(image == label, padded, cell)
        for label, own in label_rows.items()
        if not np.array_equal(own, row) and (image == label).any()
    }
    if not shares:
        return None
    rest = 1 - torch.stack(list(shares.values())).sum(dim=0)
    maps = torch.as_tensor(row)[:, None, None] * rest
    for label, share in shares.items():
        maps = maps + torch.as_tensor(label_rows[label])[:, None, None] * share
    return maps[None]


def _to_cells(values: Any, padded: tuple[int, int], cell: int) -> Tensor:
    """Return the mean of an image over each cell, its border continued to the padded size."""
    image = np.asarray(values, np.float64)
    height, width = image.shape
    whole = np.pad(image, ((0, padded[0] - height), (0, padded[1] - width)), mode="edge")
    return F.avg_pool2d(torch.from_numpy(whole)[None, None], cell)[0, 0]


def _rows(gains: Gains | None, config: KPACConfig) -> npt.NDArray[np.float64]:
    shape = (config.blocks, len(config.dilations))
    return np.broadcast_to(1.0 if gains is None else np.asarray(gains, np.float64), shape).copy()


def _check_gains(gains: Gains, name: str) -> None:
    try:
        values = np.asarray(gains, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{name}={gains!r}: must be numbers, one row or one per block") from error
    if values.ndim not in (1, 2) or not (np.abs(values) <= MAX_GAIN).all():
        raise ConfigError(
            f"{name}={gains!r}: must be one row of finite numbers up to {MAX_GAIN:g}, or one "
            "row per block"
        )


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b
