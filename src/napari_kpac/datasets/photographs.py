"""Training pairs made on the fly: a crop of a sharp photograph, and the same out of focus.

Not for: pairs that lie in files (dpdd, folders), or how blur looks (optics).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch.nn.functional import interpolate

from napari_kpac.datasets.faults import Faults
from napari_kpac.datasets.pair import Floats, Pair
from napari_kpac.datasets.photos import read_photo
from napari_kpac.errors import KpacError
from napari_kpac.optics import radius_map, random_aperture
from napari_kpac.optics.batch import Noise, defocus_batch
from napari_kpac.optics.pixels import from_unit, to_unit
from napari_kpac.pictures import picture_size

CACHE = 10**9
"""Bytes of decoded photographs that are kept."""
TRIES = 6
"""Places that are looked at for a patch that is sharp in the photograph."""
SMALLEST = 0.75
"""Smallest of the largest radii of scenes that are not in focus all over."""


@dataclass(frozen=True)
class Blurring:
    """How the crops are put out of focus."""

    largest: float = 12.0
    """Largest radius in pixels; each scene draws its own, so that small radii are frequent."""
    in_focus: float = 0.05
    """Share of the scenes that are in focus all over."""
    layers: int = 12
    """Layers of a radius map at most."""
    shrink: float = 0.5
    """Photographs are made smaller by a factor drawn from this number to 1."""
    sharpness: float = 0.3
    """Patches less sharp than this (see :func:`sharpness`) are passed over."""
    shot: float = 2e-4
    read: float = 2e-3
    highlights: float = 2.0
    noise: float = 0.03
    """Largest sigma of noise that is added to the blurred picture."""
    noisy: float = 0.25
    """Share of the scenes that get such noise."""
    dual: bool = False


class Photographs:
    """Sharp photographs, of which any number of different crops can be made into pairs."""

    def __init__(
        self,
        photos: Sequence[Path],
        blurring: Blurring | None = None,
        *,
        size: int = 1,
        skip_bad: bool = False,
    ) -> None:
        """Check that every photograph can be read and is large enough for crops of ``size``."""
        self.blurring = blurring or Blurring()
        self._kept: OrderedDict[Path, npt.NDArray[np.uint8]] = OrderedDict()
        faults = Faults()
        needed = size + 2 * _margin(self.blurring.largest)
        self.photos = [photo for photo in photos if _large_enough(photo, needed, faults)]
        self.skipped = faults.settle(skip_bad, len(self.photos))

    def crop(self, rng: np.random.Generator, size: int) -> Pair:
        """Make a pair of ``size`` x ``size`` pixels; the generator alone decides which."""
        how = self.blurring
        focused = rng.uniform() < how.in_focus or how.largest == 0
        reach = 0.0 if focused else rng.uniform(min(SMALLEST, how.largest), how.largest)
        margin = _margin(reach)
        photo = self.photos[int(rng.integers(len(self.photos)))]
        sharp = self._patch(photo, size + 2 * margin, rng)
        radius = radius_map(sharp.shape[1:], rng, largest=reach)  # type: ignore[arg-type]
        shot, read, stops = rng.uniform(0, 1, 3) * (how.shot, how.read, how.highlights)
        made = defocus_batch(
            sharp[None],
            radius[None],
            [random_aperture(rng)],
            layers=how.layers,
            noise=[Noise(shot, read)],
            highlights=[stops],
            dual=how.dual,
            generator=torch.Generator().manual_seed(int(rng.integers(2**31))),
        )
        sigma = rng.uniform(0, how.noise) if rng.uniform() < how.noisy else 0.0
        inner = slice(margin, margin + size)

        def finished(batch: torch.Tensor) -> Floats:
            pixels = batch[0, :, inner, inner].permute(1, 2, 0).numpy()
            stored = to_unit(from_unit(pixels, np.uint8))
            if sigma:
                stored += np.float32(sigma) * rng.standard_normal(stored.shape, np.float32)
            return stored

        views = None
        if made.left is not None and made.right is not None:
            views = finished(made.left), finished(made.right)
        target = sharp[:, inner, inner].permute(1, 2, 0).contiguous().numpy()
        return Pair(
            photo.name, finished(made.image), target, views, made.radius[0, inner, inner].numpy()
        )

    def _patch(self, photo: Path, size: int, rng: np.random.Generator) -> torch.Tensor:
        """Cut a sharp patch (3, size, size), made smaller, mirrored and turned."""
        pixels = self._read(photo)
        short = min(pixels.shape[:2])
        scale = max(rng.uniform(self.blurring.shrink, 1), size / short)
        side = min(short, round(size / scale))
        best, found = -1.0, pixels[:side, :side]
        for _ in range(TRIES):
            y = int(rng.integers(pixels.shape[0] - side + 1))
            x = int(rng.integers(pixels.shape[1] - side + 1))
            patch = pixels[y : y + side, x : x + side]
            sharp = sharpness(patch)
            if sharp > best:
                best, found = sharp, patch
            if best >= self.blurring.sharpness:
                break
        turns, mirrored = int(rng.integers(4)), bool(rng.integers(2))
        if mirrored:
            found = found[:, ::-1]
        turned = np.ascontiguousarray(np.rot90(found, turns).transpose(2, 0, 1))
        patch_ = torch.from_numpy(turned).float()[None] / 255
        if side != size:
            patch_ = interpolate(patch_, size=(size, size), mode="bicubic", antialias=True)
        return patch_[0].clamp_(0, 1)

    def _read(self, photo: Path) -> npt.NDArray[np.uint8]:
        if photo in self._kept:
            self._kept.move_to_end(photo)
            return self._kept[photo]
        pixels = from_unit(read_photo(photo), np.uint8)
        self._kept[photo] = pixels
        while sum(kept.nbytes for kept in self._kept.values()) > CACHE and len(self._kept) > 1:
            self._kept.popitem(last=False)
        return pixels


def sharpness(pixels: npt.NDArray[np.uint8]) -> float:
    """Tell how sharp the strongest edges of an RGB picture are: 0 not at all, towards 1 very.

    The share of its gradient that the picture loses to a little blur (1 2 1 both ways), over
    the tenth of the pixels with the strongest gradients. What is out of focus loses little;
    what has no edges counts as not sharp.
    """
    luma = pixels[:, :, 1].astype(np.float32)
    soft = luma[:, :-2] + 2 * luma[:, 1:-1] + luma[:, 2:]
    soft = (soft[:-2] + 2 * soft[1:-1] + soft[2:]) / 16
    before, after = _gradient(luma[1:-1, 1:-1]), _gradient(soft)
    strong = before >= np.partition(before.ravel(), -(before.size // 10))[-(before.size // 10)]
    total = float(before[strong].mean())
    return 1 - float(after[strong].mean()) / total if total > 4 else 0.0


def _margin(radius: float) -> int:
    """Give the room around a crop that its blur needs."""
    return math.ceil(radius) + 2


def _large_enough(photo: Path, needed: int, faults: Faults) -> bool:
    try:
        size = picture_size(photo)
    except KpacError as error:
        faults.add(photo, str(error))
        return False
    if min(size) < needed:
        faults.add(
            photo, f"has a side of {min(size)} pixels; crops with room for the blur need {needed}"
        )
    return min(size) >= needed


def _gradient(values: Floats) -> Floats:
    rise = values[1:, :-1] - values[:-1, :-1]
    run = values[:-1, 1:] - values[:-1, :-1]
    size: Floats = np.abs(rise) + np.abs(run)
    return size
