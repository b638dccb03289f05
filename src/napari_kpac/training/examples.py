"""Batches of crops, each a function of the seed and its number alone.

So a run goes on exactly where it stopped, and any number of processes share a batch without a
word between them. Not for: where pairs come from (datasets).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from napari_kpac.datasets.augmentation import augment
from napari_kpac.datasets.opening import open_pairs
from napari_kpac.datasets.options import Augmentation, DataOptions
from napari_kpac.datasets.pair import Pair, Pairs
from napari_kpac.datasets.photographs import Blurring, Photographs
from napari_kpac.datasets.photos import find_photos, photos_of_split, split_of
from napari_kpac.errors import ConfigError
from napari_kpac.training.options import TrainOptions

TRAINING, VALIDATION = 0, 1
"""Streams of random numbers."""

T = TypeVar("T")
Crop = Callable[[np.random.Generator], Pair]


@dataclass(frozen=True)
class Examples:
    """Crops as the network wants them: (B, 3, H, W) in [-1, 1]."""

    blurred: Tensor
    sharp: Tensor
    views: tuple[Tensor, Tensor] | None
    radius: Tensor | None
    """(B, H, W), magnitudes in pixels."""

    def to(self, device: torch.device) -> Examples:
        """Move to a device, in the layout in which convolutions are fast."""

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device).contiguous(memory_format=torch.channels_last)

        views = self.views and (moved(self.views[0]), moved(self.views[1]))
        radius = None if self.radius is None else self.radius.to(device)
        return Examples(moved(self.blurred), moved(self.sharp), views, radius)


@dataclass(frozen=True)
class Data:
    """The two parts of a dataset, as sources of crops."""

    train: Crop
    validation: Crop
    about: str
    """What the data is, for the model's card."""
    skipped: dict[str, str]
    """Files that cannot be used, and why."""

    def batch(self, options: TrainOptions, step: int, rank: int = 0, world: int = 1) -> Examples:
        """Make the share of one process of a step's batch."""
        share = options.batch // world
        first = (0 if options.fixed_batch else step) * options.batch + rank * share
        return collate(self._crops(self.train, options.seed, TRAINING, range(first, first + share)))

    def held_out(self, options: TrainOptions, index: int) -> Examples:
        """Make one of the crops for validation."""
        if options.fixed_batch:
            wanted = [index % options.batch]
            return collate(self._crops(self.train, options.seed, TRAINING, wanted))
        return collate(self._crops(self.validation, options.seed, VALIDATION, [index]))

    @staticmethod
    def _crops(crop: Crop, seed: int, stream: int, indices: Sequence[int]) -> list[Pair]:
        return [crop(np.random.default_rng((seed, stream, index))) for index in indices]


def collate(pairs: Sequence[Pair]) -> Examples:
    """Make a batch of pairs of the same size."""

    def stacked(pictures: Sequence[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2) * 2 - 1

    views = radius = None
    if all(pair.views is not None for pair in pairs):
        sides = list(zip(*(pair.views for pair in pairs if pair.views), strict=True))
        views = stacked(sides[0]), stacked(sides[1])
    if all(pair.radius is not None for pair in pairs):
        radius = torch.from_numpy(
            np.stack([np.abs(pair.radius) for pair in pairs if pair.radius is not None])
        )
    return Examples(
        stacked([pair.blurred for pair in pairs]),
        stacked([pair.sharp for pair in pairs]),
        views,
        radius,
    )


def open_data(options: TrainOptions) -> Data:
    """Open what the options name; what is wrong with it is said before anything is trained."""
    if not options.root:
        raise ConfigError("no data to train on: name its folder as root")
    return _photographs(options) if options.kind == "synthetic" else _pairs(options)


def _photographs(options: TrainOptions) -> Data:
    root = Path(options.root)
    if split_of(root) is None:
        parts = _parted(find_photos([root]), options.held_out)
    else:
        parts = photos_of_split(root, "train"), photos_of_split(root, "val")
    how = Blurring(
        largest=options.largest,
        shrink=options.shrink,
        noise=options.noise,
        noisy=options.noisy,
        dual=options.dual,
    )
    size = options.crop
    train, held = (
        Photographs(part, how, size=size, skip_bad=options.skip_bad) for part in parts
    )  # fmt: skip
    about = (
        f"synthetic defocus of 0 to {options.largest:g} px on {len(train.photos)} sharp"
        f" photographs ({root.name})"
    )
    return Data(
        lambda rng: train.crop(rng, size),
        lambda rng: held.crop(rng, size),
        about,
        {**train.skipped, **held.skipped},
    )


def _pairs(options: TrainOptions) -> Data:
    def opened(split: str) -> Pairs:
        return open_pairs(
            DataOptions(
                kind=options.kind,
                root=options.root,
                sharp=options.sharp,
                split=split,
                dual=options.dual,
                bits=options.bits,
                skip_bad=options.skip_bad,
            )
        )

    train = opened("train")
    if options.kind == "dpdd":
        held = opened("val")
        parts = list(range(len(train))), list(range(len(held)))
    else:
        held, parts = train, _parted(range(len(train)), options.held_out)
    how = Augmentation(crop=options.crop, noise=options.noise)

    def crop(pairs: Pairs, indices: Sequence[int]) -> Crop:
        return lambda rng: augment(pairs[indices[int(rng.integers(len(indices)))]], how, rng)

    about = f"{len(parts[0])} pairs ({options.kind}, {Path(options.root).name})"
    skipped = {**getattr(train, "skipped", {}), **getattr(held, "skipped", {})}
    return Data(crop(train, parts[0]), crop(held, parts[1]), about, skipped)


def _parted(items: Sequence[T], share: float) -> tuple[list[T], list[T]]:
    """Part items evenly into those for training and those for validation; one each at least."""
    if len(items) < 2:
        return list(items), list(items)
    count = min(len(items) - 1, max(1, round(share * len(items))))
    held = {round((i + 0.5) * len(items) / count - 0.5) for i in range(count)}
    train = [item for i, item in enumerate(items) if i not in held]
    return train, [item for i, item in enumerate(items) if i in held]
