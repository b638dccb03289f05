"""Pairs of blurred and sharp images: the record, and those that lie in files.

Files are checked by their headers when opened, and read when asked for; radius maps are 16-bit
TIFF with the scale in the description. Not for: where a dataset keeps its files (dpdd, folders).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tifffile

from napari_kpac.core.errors import ConfigError, FileError, ImageError, KpacError
from napari_kpac.core.files import replacing
from napari_kpac.datasets.matching import Faults, same_size
from napari_kpac.images import description_of, image_size, read_image
from napari_kpac.optics.pixels import MIN_SIDE_PX, from_unit, to_unit

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Pair:
    """One scene: images of the same size, (H, W, 3) float32 in 0..1."""

    name: str
    blurred: Floats
    sharp: Floats
    views: tuple[Floats, Floats] | None = None
    """Left and right dual-pixel views, where the dataset has them."""
    radius: Floats | None = None
    """(H, W), the signed radius of the blur in pixels, where it is known."""


class Pairs(Protocol):
    """A dataset of pairs, read one at a time when asked for."""

    @property
    def dual(self) -> bool:
        """Whether every pair has its dual-pixel views."""

    def __len__(self) -> int:
        """Return the number of pairs."""

    def name(self, index: int) -> str:
        """Return what pair ``index`` is called, without reading its images."""

    def __getitem__(self, index: int) -> Pair:
        """Read pair ``index``."""


def read_rgb(path: Path, bits: int = 16) -> Floats:
    """Read an image as (H, W, 3) in 0..1; grey becomes RGB, and alpha is left out.

    With 8 bits, the values are rounded to the 256 levels of an 8-bit image.
    """
    pixels = read_image(path)
    if pixels.ndim == 3 and pixels.shape[2] in (2, 4):
        pixels = pixels[:, :, :-1]
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    try:
        values = to_unit(pixels)
    except KpacError as error:
        raise FileError(f"{path}: cannot be used ({error})") from error
    if bits == 8 and pixels.dtype != np.uint8:
        values = to_unit(from_unit(values, np.uint8))
    return values if values.ndim == 3 else np.repeat(values[:, :, None], 3, axis=2)


SCALE = 1 / 256
OFFSET = -128.0
MEANING = "radius in pixels = scale * value + offset; negative is nearer than the plane of focus"


def write_radius(path: Path, radius: npt.NDArray[np.float32]) -> Path:
    """Write a signed radius map, to 1/512 of a pixel."""
    stored = np.rint((radius - OFFSET) / SCALE)
    if stored.min() < 0 or stored.max() > np.iinfo(np.uint16).max:
        raise ImageError(
            f"radii of {radius.min():g}..{radius.max():g} pixels do not fit into a radius map,"
            f" which holds {OFFSET:g}..{-OFFSET:g}; use smaller radii"
        )
    description = json.dumps({"scale": SCALE, "offset": OFFSET, "unit": "px", "meaning": MEANING})
    with replacing(path) as temporary:
        tifffile.imwrite(
            temporary,
            stored.astype(np.uint16),
            description=description,
            metadata=None,
            compression="zlib",
        )
    return path


def read_radius(path: Path) -> npt.NDArray[np.float32]:
    """Read a signed radius map in pixels."""
    scale, offset = _scale(path)
    try:
        radius: npt.NDArray[np.float32] = (read_image(path) * scale + offset).astype(np.float32)
    except FileError as error:
        raise _no_map(path, error) from error
    return radius


def radius_size(path: Path) -> tuple[int, int]:
    """Return height and width of a radius map, from its header alone."""
    _scale(path)
    try:
        return image_size(path)
    except FileError as error:
        raise _no_map(path, error) from error


def _scale(path: Path) -> tuple[float, float]:
    described = description_of(path)
    try:
        scale, offset = float(described["scale"]), float(described["offset"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _no_map(path, "it says nothing of its scale") from error
    if not np.isfinite((scale, offset)).all():
        raise _no_map(path, f"its scale is {scale:g}, its offset {offset:g}")
    return scale, offset


def _no_map(path: Path, why: object) -> FileError:
    return FileError(f"{path} is no radius map: {why}; make it again")


@dataclass(frozen=True)
class PairFiles:
    """The files of one pair."""

    blurred: Path
    sharp: Path
    views: tuple[Path, Path] | None = None
    radius: Path | None = None

    def sound(self, faults: Faults, smallest: int = MIN_SIDE_PX) -> bool:
        """Return True if all files can be read and have one size; note those that do not."""
        images = (self.blurred, self.sharp, *(self.views or ()))
        measures = dict.fromkeys(images, image_size)
        if self.radius is not None:
            measures[self.radius] = radius_size
        return same_size(measures, faults, smallest)

    def read(self, bits: int) -> Pair:
        """Read the pair."""
        pair = Pair(
            self.blurred.stem,
            read_rgb(self.blurred, bits),
            read_rgb(self.sharp, bits),
            self.views and (read_rgb(self.views[0], bits), read_rgb(self.views[1], bits)),
            None if self.radius is None else read_radius(self.radius),
        )
        maps = [pair.blurred, pair.sharp, *(pair.views or ())]
        maps += [] if pair.radius is None else [pair.radius]
        if len({values.shape[:2] for values in maps}) > 1:
            raise FileError(f"{self.blurred}: the sizes within the pair differ; open it again")
        return pair


class FilePairs:
    """Pairs in files, read one at a time.

    Attributes
    ----------
    skipped
        Files that could not be used, and why.
    """

    def __init__(
        self,
        files: Sequence[PairFiles],
        faults: Faults,
        *,
        dual: bool = False,
        bits: int = 8,
        skip_bad: bool = False,
        smallest: int = MIN_SIDE_PX,
    ) -> None:
        if bits not in (8, 16):
            raise ConfigError(f"images are read with 8 or 16 bits, not {bits}")
        self.dual = dual
        self.bits = bits
        self._files = [pair for pair in files if pair.sound(faults, smallest)]
        self.skipped = faults.settle(skip_bad, left=len(self._files))

    def __len__(self) -> int:
        return len(self._files)

    def name(self, index: int) -> str:
        """Return what pair ``index`` is called: its blurred file, without the ending."""
        return self._files[index].blurred.stem

    def __getitem__(self, index: int) -> Pair:
        return self._files[index].read(self.bits)
