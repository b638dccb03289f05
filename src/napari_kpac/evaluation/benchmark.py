"""The fixed synthetic benchmark: the same blurred crops of photographs every time.

Not for: scores (metrics), or pairs for training (datasets).

The rule: of each photograph, by name, two crops of 384x384 pixels. A crop is the first of a few
seeded places of which a quarter or more has texture, or the one with most. It is blurred together
with the 32 pixels around it, then cut out. Kinds of scenes, kinds of apertures and the bin of
radii that a case has to fill go round, each at its own pace, so that all meet; what a kind leaves
open is drawn from a seed of the photograph's place in the list. A radius map goes up to twice its
bin, 12 px at most, and is drawn again until a quarter of the crop lies in the bin. Noise is mild,
as in ``synthesise``; nothing is brighter than white; the result has 8 bits.

Uniform blur instead of scenes: the same crops with a disc of one radius all over each. The radii
fill 1 to 12 px evenly on a logarithmic scale (multiples of the golden ratio, modulo 1).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.units import spread_radius
from napari_kpac.datasets.options import SensorOptions
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.datasets.photographs import photos_of_split, read_photo
from napari_kpac.evaluation.metrics import BINS, Mask, inside
from napari_kpac.evaluation.options import Blur
from napari_kpac.optics import (
    Aperture,
    aperture,
    defocus,
    radius_map,
    random_aperture,
    scene,
)
from napari_kpac.optics.pixels import to_unit

DERIVATIVE_SIGMA_PX = 1.0
SMOOTHING_SIGMA_PX = 2.0
MIN_GRADIENT = 0.02
"""Per pixel, black being 0 and white 1, from which on there is texture."""


def textured(sharp: npt.NDArray[np.float32]) -> Mask:
    """Return a mask of the pixels of a sharp image (H, W, C) that have texture."""
    gradient = gaussian_gradient_magnitude(sharp.mean(axis=2), DERIVATIVE_SIGMA_PX)
    mask: Mask = gaussian_filter(gradient, SMOOTHING_SIGMA_PX) > MIN_GRADIENT
    return mask


CROP_SIDE_PX = 384
MARGIN_PX = 32
CROPS_PER_PHOTO = 2
MAX_PLACES = 12
"""Places of a crop that are tried."""
MIN_TEXTURED = 0.25
"""Share of a crop's pixels with texture that is enough."""
MIN_FILLED = 0.25
"""Share of a crop's pixels whose radius lies in the bin that the case has to fill."""
MAX_DRAWS = 200
"""Radius maps that are tried."""
UNIFORM_RADII_PX = (1.0, BINS[-1].high)
MAX_SHOT, MAX_READ = SensorOptions.shot, SensorOptions.read
"""Noise; see ``napari_kpac.optics.synthesis.Noise``."""


class SyntheticCases:
    """The benchmark as a dataset of pairs, each made when it is asked for.

    Parameters
    ----------
    root
        Folder of sharp photographs.
    split
        Which of them, by the folder's MANIFEST.csv; without one, all.
    limit
        Use only the first photographs.
    seed
        Another seed makes another benchmark.
    dual
        Make the dual-pixel views as well.
    blur
        ``scenes`` with depth, or ``uniform``: one radius all over each crop.
    """

    def __init__(
        self,
        root: Path,
        split: str = "val",
        *,
        limit: int | None = None,
        seed: int = 0,
        dual: bool = False,
        blur: Blur = "scenes",
    ) -> None:
        if limit is not None and limit < 1:
            raise ConfigError(f"at least one photograph is needed, not {limit}")
        self._photos = photos_of_split(root, split)[:limit]
        self._seed = seed
        self.dual = dual
        self._blur = blur
        self._photo = lru_cache(maxsize=1)(_read_photo)

    def __len__(self) -> int:
        return CROPS_PER_PHOTO * len(self._photos)

    def name(self, index: int) -> str:
        """Return what a case is called."""
        return f"{self._photos[index // CROPS_PER_PHOTO].stem}-{index % CROPS_PER_PHOTO + 1}"

    def __getitem__(self, index: int) -> Pair:
        """Make a case."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        photo = self._photo(self._photos[index // CROPS_PER_PHOTO])
        rng = np.random.default_rng((self._seed, index))
        top, left = _place(photo, rng)
        around = CROP_SIDE_PX + MARGIN_PX
        wide = photo[
            max(top - MARGIN_PX, 0) : top + around, max(left - MARGIN_PX, 0) : left + around
        ]
        rows, columns = (
            slice(min(start, MARGIN_PX), min(start, MARGIN_PX) + CROP_SIDE_PX)
            for start in (top, left)
        )
        size = (wide.shape[0], wide.shape[1])
        if self._blur == "uniform":
            radius, opening = _uniform(size, index), Aperture("disc")
        else:
            radius, opening = _scene(size, (rows, columns), index, rng)
        shot, read = rng.uniform(0, 1, 2) * (MAX_SHOT, MAX_READ)
        made = defocus(
            wide,
            radius,
            opening,
            int(rng.integers(2**31)),
            shot=float(shot),
            read=float(read),
            dual=self.dual,
            dtype=np.uint8,
        )
        blurred, *views = (
            to_unit(view[rows, columns])
            for view in (made.image, made.left, made.right)
            if view is not None
        )
        return Pair(
            name=self.name(index),
            blurred=blurred,
            sharp=np.ascontiguousarray(wide[rows, columns]),
            views=(views[0], views[1]) if views else None,
            radius=np.ascontiguousarray(made.radius[rows, columns]),
        )


def _uniform(size: tuple[int, int], index: int) -> Floats:
    """Return a map of the one radius of a case."""
    return np.full(size, spread_radius(index, *UNIFORM_RADII_PX), np.float32)


def _scene(
    size: tuple[int, int], crop: tuple[slice, slice], index: int, rng: np.random.Generator
) -> tuple[Floats, Aperture]:
    """Draw the radius map of a case, with its bin filled where it is cropped, and its aperture."""
    kinds = len(scene.KINDS)
    wanted = BINS[index % len(BINS)]
    for _ in range(MAX_DRAWS):
        radius = radius_map(
            size,
            rng,
            largest=min(2 * wanted.high, BINS[-1].high),
            kind=scene.KINDS[index % kinds],
        )
        filled = inside(radius[crop], *wanted)
        if filled is not None and filled.mean() >= MIN_FILLED:
            break
    return radius, random_aperture(rng, aperture.KINDS[(index + index // kinds) % kinds])


def _read_photo(path: Path) -> Floats:
    photo = read_photo(path)
    if min(photo.shape[:2]) < CROP_SIDE_PX:
        raise FileError(
            f"the photograph {path} is smaller than the benchmark's crops of"
            f" {CROP_SIDE_PX}x{CROP_SIDE_PX}; take it out of the folder"
        )
    return photo


def _place(photo: Floats, rng: np.random.Generator) -> tuple[int, int]:
    """Choose a crop with texture, away from the border where the photograph is large enough."""
    texture = textured(photo)
    starts = []
    for room in (side - CROP_SIDE_PX for side in photo.shape[:2]):
        margin = min(MARGIN_PX, room // 2)
        starts.append((margin, room - margin + 1))
    best, most = (0, 0), -1.0
    for _ in range(MAX_PLACES):
        top, left = (int(rng.integers(low, high)) for low, high in starts)
        share = float(texture[top : top + CROP_SIDE_PX, left : left + CROP_SIDE_PX].mean())
        if share > most:
            best, most = (top, left), share
        if most >= MIN_TEXTURED:
            break
    return best
