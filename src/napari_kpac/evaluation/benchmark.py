"""The fixed synthetic benchmark: the same blurred crops of photographs every time.

Not for: scores (bins, metrics), or pairs for training (datasets).

The rule: of each photograph, by name, two crops of 384x384 pixels. A crop is the first of a
few seeded places of which a quarter or more has texture, or the one with most. It is blurred
together with the 32 pixels around it, then cut out. Kinds of scenes, kinds of apertures and the
bin of radii that a case has to fill go round, each at its own pace, so that all meet; what a
kind leaves open is drawn from a seed of the photograph's place in the list. A radius map goes up
to twice its bin, 12 px at most, and is drawn again until a quarter of the crop lies in the bin.
Noise is mild, as in ``synthesise``; nothing is brighter than white; the result has 8 bits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.datasets.options import SensorOptions
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.datasets.photographs import photos_of_split, read_photo
from napari_kpac.evaluation.bins import BINS, inside
from napari_kpac.evaluation.metrics import Mask
from napari_kpac.optics import aperture, defocus, radius_map, random_aperture, scene
from napari_kpac.optics.pixels import to_unit

DERIVATIVE = 1.0
SMOOTHING = 2.0
STEEPNESS = 0.02


def textured(sharp: npt.NDArray[np.float32]) -> Mask:
    """Mark the pixels of a sharp image (H, W, C) that have texture."""
    gradient = gaussian_gradient_magnitude(sharp.mean(axis=2), DERIVATIVE)
    mask: Mask = gaussian_filter(gradient, SMOOTHING) > STEEPNESS
    return mask


SIDE = 384
MARGIN = 32
PER_PHOTO = 2
CANDIDATES = 12
TEXTURE = 0.25
"""Share of a crop's pixels with texture that is enough."""
FILLED = 0.25
"""Share of a crop's pixels whose radius lies in the bin that the case has to fill."""
DRAWS = 200
"""Radius maps tried at most."""
SHOT, READ = SensorOptions.shot, SensorOptions.read
"""Noise at most; see ``napari_kpac.optics.synthesis.Noise``."""


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
        self._read: tuple[Path, Floats] | None = None

    def __len__(self) -> int:
        return PER_PHOTO * len(self._photos)

    def name(self, index: int) -> str:
        """Return what a case is called."""
        return f"{self._photos[index // PER_PHOTO].stem}-{index % PER_PHOTO + 1}"

    def __getitem__(self, index: int) -> Pair:
        """Make a case."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        photo = self._photo(self._photos[index // PER_PHOTO])
        rng = np.random.default_rng((self._seed, index))
        top, left = _place(photo, rng)
        wide = photo[
            max(top - MARGIN, 0) : top + SIDE + MARGIN, max(left - MARGIN, 0) : left + SIDE + MARGIN
        ]
        rows = slice(min(top, MARGIN), min(top, MARGIN) + SIDE)
        columns = slice(min(left, MARGIN), min(left, MARGIN) + SIDE)
        kinds = len(scene.KINDS)
        for _ in range(DRAWS):
            radius = _scene(wide, index, rng)
            filled = inside(radius[rows, columns], *BINS[index % len(BINS)])
            if filled is not None and filled.mean() >= FILLED:
                break
        opening = random_aperture(rng, aperture.KINDS[(index + index // kinds) % kinds])
        shot, read = rng.uniform(0, 1, 2) * (SHOT, READ)
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

    def _photo(self, path: Path) -> Floats:
        if self._read is None or self._read[0] != path:
            photo = read_photo(path)
            if min(photo.shape[:2]) < SIDE:
                raise FileError(
                    f"the photograph {path} is smaller than the benchmark's crops of"
                    f" {SIDE}x{SIDE}; take it out of the folder"
                )
            self._read = path, photo
        return self._read[1]


def _scene(wide: Floats, index: int, rng: np.random.Generator) -> Floats:
    """Draw a radius map of the kind and reach that are a case's turn."""
    return radius_map(
        (wide.shape[0], wide.shape[1]),
        rng,
        largest=min(2 * BINS[index % len(BINS)].high, BINS[-1].high),
        kind=scene.KINDS[index % len(scene.KINDS)],
    )


def _place(photo: Floats, rng: np.random.Generator) -> tuple[int, int]:
    """Choose a crop with texture, away from the border where the photograph is large enough."""
    texture = textured(photo)
    best, most = (0, 0), -1.0
    for _ in range(CANDIDATES):
        top, left = (_start(side, rng) for side in photo.shape[:2])
        share = float(texture[top : top + SIDE, left : left + SIDE].mean())
        if share > most:
            best, most = (top, left), share
        if most >= TEXTURE:
            break
    return best


def _start(side: int, rng: np.random.Generator) -> int:
    room = side - SIDE
    low = min(MARGIN, room // 2)
    return int(rng.integers(low, room - low + 1))
