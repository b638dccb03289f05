"""The fixed synthetic benchmark, the same blurred crops every time; scores by radius of the blur.

Not for: the measures themselves (metrics), or pairs for training (datasets).

The crops: of each photograph, by name, two of 384x384 pixels. A crop is the first of a few seeded
places of which a quarter or more has texture, or the one with most. It is blurred together with
the 32 pixels around it, then cut out. Kinds of scenes, kinds of apertures and the bin of radii
that a case has to fill go round, each at its own pace, so that all meet; what a kind leaves open
is drawn from a seed of the photograph's place in the list. A radius map goes up to twice its bin,
12 px at most, and is drawn again until a quarter of the crop lies in the bin. Noise is mild, as in
``synthesise``; nothing is brighter than white; the result has 8 bits.

The bins: a pixel belongs to the bin in which the magnitude of its radius lies, the lower edge
included. The squared errors of an image's pixels in a bin are pooled into one PSNR, their absolute
errors into one MAE, and the SSIM map is averaged over them. An image counts in a bin where it has
at least 1 % of its pixels; a table shows the mean over the images that count.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.units import MIN_BIN_SHARE, RADIUS_BINS, RadiusBin
from napari_kpac.datasets.options import SensorOptions
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.datasets.photographs import photos_of_split, read_photo
from napari_kpac.evaluation import metrics
from napari_kpac.evaluation.metrics import ImageArray, Mask
from napari_kpac.evaluation.options import SSIMPreset
from napari_kpac.optics import aperture, defocus, radius_map, random_aperture, scene
from napari_kpac.optics.pixels import to_unit

BINS = RADIUS_BINS
GAIN_BINS = BINS[1:4]
"""The bins of the mean gain: 1 to 8 px."""
MEASURES = ("psnr", "ssim", "mae")


def column(measure: str, where: RadiusBin) -> str:
    """Return the name of the column of a measure in a bin."""
    return f"{measure} {where.label} px"


def bin_columns() -> list[str]:
    """Return the names of all columns that :func:`bin_scores` may fill."""
    return [column(measure, where) for measure in MEASURES for where in BINS]


def inside(radius: npt.NDArray[np.float32], low: float, high: float) -> Mask | None:
    """Return a mask of the pixels with ``low <= |r| < high``; None where they are too few.

    The last bin holds its upper edge as well.
    """
    size = np.abs(radius)
    mask: Mask = (size >= low) & ((size < high) | ((size == high) & (high == BINS[-1].high)))
    return mask if mask.mean() >= MIN_BIN_SHARE else None


def bin_scores(
    result: ImageArray,
    truth: ImageArray,
    radius: npt.NDArray[np.float32],
    preset: SSIMPreset = "default",
) -> dict[str, float]:
    """Return PSNR, SSIM and MAE in every bin in which the image has enough pixels."""
    squared = metrics.squared_error(result, truth)
    absolute = metrics.absolute_error(result, truth)
    similar = metrics.ssim_map(result, truth, preset)
    scores = {}
    for where in BINS:
        mask = inside(radius, where.low, where.high)
        if mask is not None:
            scores[column("psnr", where)] = metrics.decibels(float(squared[mask].mean()))
            scores[column("ssim", where)] = float(similar[mask].mean())
            scores[column("mae", where)] = float(absolute[mask].mean())
    return scores


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
    """

    def __init__(
        self,
        root: Path,
        split: str = "val",
        *,
        limit: int | None = None,
        seed: int = 0,
        dual: bool = False,
    ) -> None:
        if limit is not None and limit < 1:
            raise ConfigError(f"at least one photograph is needed, not {limit}")
        self._photos = photos_of_split(root, split)[:limit]
        self._seed = seed
        self.dual = dual
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
        kinds = len(scene.KINDS)
        wanted = BINS[index % len(BINS)]
        for _ in range(MAX_DRAWS):
            radius = radius_map(
                (wide.shape[0], wide.shape[1]),
                rng,
                largest=min(2 * wanted.high, BINS[-1].high),
                kind=scene.KINDS[index % kinds],
            )
            filled = inside(radius[rows, columns], *wanted)
            if filled is not None and filled.mean() >= MIN_FILLED:
                break
        opening = random_aperture(rng, aperture.KINDS[(index + index // kinds) % kinds])
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
