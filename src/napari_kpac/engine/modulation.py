"""Modulation: how a person steers the network by gains, overrides, labels and strength.

Not for: running it (bottleneck.py, session.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import ConfigError
from napari_kpac.engine.arrays import as_array
from napari_kpac.engine.pixels import Rect, Strength
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
        An integer image of the same height and width. For a stack it may have the stack's
        leading axes, so that every plane has labels of its own; an axis of one entry counts for
        all planes along it. Lazy arrays are read plane by plane.
    label_gains
        ``{label: gains}``: inside that label these gains stand in for ``gains``.
    strength
        Factor of the residual: 0 gives the input, bit by bit, 1 the network's result.
    label_strength
        ``{label: strength}``: inside that label this stands in for ``strength``. It acts on
        the pixels of the label and on no other, while gains also reach a little beyond.
    """

    gains: Gains | None = None
    override: Mapping[tuple[int, int], Override] = field(default_factory=dict)
    labels: npt.NDArray[Any] | None = None
    label_gains: Mapping[int, Gains] = field(default_factory=dict)
    strength: float = 1.0
    label_strength: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, gains in self._named_gains().items():
            _check_gains(gains, name)
        _check_strength(self.strength, "strength")
        for label, strength in self.label_strength.items():
            _check_strength(strength, f"label_strength[{label}]")
        for name in ("label_gains", "label_strength"):
            if getattr(self, name) and self.labels is None:
                raise ConfigError(f"{name} need a label image: give labels=")
        if self.labels is not None:
            labels = as_array(self.labels)
            if len(labels.shape) < 2 or np.dtype(labels.dtype).kind not in "uib":
                raise ConfigError(
                    f"labels must be an integer image of height and width, got {labels.dtype} "
                    f"of shape {tuple(labels.shape)}"
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

    def at(self, index: tuple[int, ...]) -> Modulation:
        """Return the modulation of one plane of a stack, with that plane's labels."""
        if self.labels is None or len(np.shape(self.labels)) == 2:
            return self
        labels = as_array(self.labels)
        place = tuple(0 if size == 1 else n for size, n in zip(labels.shape, index, strict=False))
        return replace(self, labels=np.asarray(labels[place]))

    def strength_in(self, rect: Rect) -> Strength:
        """Return the strength in a rectangle of a plane: a map where labels have their own."""
        own = {k: value for k, value in self.label_strength.items() if value != self.strength}
        if not own:
            return float(self.strength)
        labels = np.asarray(self.labels)[rect.slices]
        found = np.full(labels.shape, self.strength, np.float64)
        for label, strength in own.items():
            found[labels == label] = strength
        return found

    def check_labels(self, size: tuple[int, int], leading: tuple[int, ...] = ()) -> None:
        """Raise unless the labels fit an image of that size, or a stack with leading axes."""
        if self.labels is None:
            return
        shape = tuple(np.shape(self.labels))
        own = shape[:-2]
        fits = not own or (
            len(own) == len(leading)
            and all(n in (1, whole) for n, whole in zip(own, leading, strict=True))
        )
        if shape[-2:] != size or not fits:
            raise ConfigError(f"labels have shape {shape}, the image has {(*leading, *size)}")

    def check(
        self,
        config: KPACConfig,
        size: tuple[int, int] | None = None,
        leading: tuple[int, ...] = (),
    ) -> None:
        """Raise unless this fits a network, and an image of that size or a stack of them."""
        shape = (config.blocks, len(config.dilations))
        for name, gains in self._named_gains().items():
            if np.shape(gains) not in (shape, shape[1:]):
                raise ConfigError(
                    f"{name} has shape {np.shape(gains)}; this network has {shape[0]} block(s) of "
                    f"{shape[1]} dilations, so {shape[1:]} or {shape} is needed"
                )
        if size is not None:
            self.check_labels(size, leading)
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


def _check_strength(strength: Any, name: str) -> None:
    if not isinstance(strength, int | float | np.number) or not 0 <= strength <= MAX_GAIN:
        raise ConfigError(f"{name}={strength!r}: must be a number from 0 to {MAX_GAIN:g}")


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and a == b
