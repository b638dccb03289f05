"""Pairs of blurred and sharp images: radius maps in files, checks of alignment, augmentation.

Radius maps are 16-bit TIFF with the scale in the description. Not for: where a dataset keeps its
files (folders), or which pairs are drawn (training).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import tifffile
from scipy.ndimage import gaussian_filter
from skimage.transform import resize

from napari_kpac.core.errors import FileError, ImageError, KpacError
from napari_kpac.core.files import replacing
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.options import Augmentation
from napari_kpac.images import description_of, image_size, read_image
from napari_kpac.optics.pixels import from_unit, to_unit

Floats = npt.NDArray[np.float32]

RADIUS_SCALE, RADIUS_OFFSET_PX = 1 / 256, -128.0
RADIUS_MEANING = (
    "radius in pixels = scale * value + offset; negative is nearer than the plane of focus"
)

CHECKED_PAIRS = 32
"""Pairs of a dataset whose alignment is checked, evenly spaced."""
CHECKED_SIDE_PX = 512
"""Of the middle of an image that is compared."""
MAX_SHIFT_PX = 3
MIN_CORRELATION = 0.5
MIN_RISE = 0.1
"""Share of what a correlation lacks of 1 by which a shift must raise it. Strong blur of a texture
that repeats itself moves the best place a little without any shift."""
SIGMA_PX = 4.0
"""Both images are smoothed first, so that the blur itself does not matter."""


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


def write_radius(path: Path, radius: Floats) -> Path:
    """Write a signed radius map, to 1/512 of a pixel."""
    stored = np.rint((radius - RADIUS_OFFSET_PX) / RADIUS_SCALE)
    if stored.min() < 0 or stored.max() > np.iinfo(np.uint16).max:
        raise ImageError(
            f"radii of {radius.min():g}..{radius.max():g} pixels do not fit into a radius map,"
            f" which holds {RADIUS_OFFSET_PX:g}..{-RADIUS_OFFSET_PX:g}; use smaller radii"
        )
    description = json.dumps(
        {"scale": RADIUS_SCALE, "offset": RADIUS_OFFSET_PX, "unit": "px", "meaning": RADIUS_MEANING}
    )
    with replacing(path) as temporary:
        tifffile.imwrite(
            temporary,
            stored.astype(np.uint16),
            description=description,
            metadata=None,
            compression="zlib",
        )
    return path


def read_radius(path: Path) -> Floats:
    """Read a signed radius map in pixels."""
    scale, offset = _scale(path)
    try:
        radius: Floats = (read_image(path) * scale + offset).astype(np.float32)
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


def check_aligned(pairs: Pairs, indices: Sequence[int]) -> Steps[None]:
    """Look at pairs, yielding after each, and raise if images are shifted or show other scenes.

    The FileError at the end names all such pairs.
    """
    places = np.unique(np.linspace(0, len(indices) - 1, CHECKED_PAIRS).round().astype(int))
    found = []
    for done, index in enumerate((indices[place] for place in places), start=1):
        name = pairs.name(index)
        problem = misalignment(pairs[index])
        if problem:
            found.append(f"{name}: {problem}")
        yield Progress(done, len(places), f"comparing the images of {name}")
    if found:
        raise FileError(
            f"{len(found)} of {len(places)} pairs that were looked at do not agree pixel by pixel;"
            " align them, or take them out:\n  " + "\n  ".join(found)
        )


def misalignment(pair: Pair) -> str:
    """Return what is wrong with a pair; an empty text where its images agree."""
    blurred, sharp = (_smooth(image) for image in (pair.blurred, pair.sharp))
    spread = float(blurred.std() * sharp.std())
    if spread < 1e-6:  # nothing to compare
        return ""
    spectrum = np.fft.rfft2(blurred) * np.conj(np.fft.rfft2(sharp))
    correlation = np.fft.irfft2(spectrum, s=blurred.shape) / (blurred.size * spread)
    peak = float(correlation.max())
    if peak < MIN_CORRELATION:
        return f"the images show different scenes (correlation {peak:.2f})"
    small = range(-MAX_SHIFT_PX, MAX_SHIFT_PX + 1)
    near = float(correlation.take(small, axis=0, mode="wrap").take(small, 1, mode="wrap").max())
    if peak - near <= MIN_RISE * max(0.0, 1 - peak):
        return ""
    # A peak at s says that the sharp image lies at -s.
    place = np.unravel_index(int(np.argmax(correlation)), correlation.shape)
    y, x = (
        int(size - at if at > size // 2 else -at)
        for at, size in zip(place, correlation.shape, strict=True)
    )
    return f"the sharp image is shifted by about {x}, {y} px (x, y)"


def _smooth(image: Floats) -> Floats:
    """Return the smoothed middle of an image, around its mean and faded out at the border."""
    height, width = image.shape[:2]
    rows, columns = (min(CHECKED_SIDE_PX, side) for side in (height, width))
    top, left = (height - rows) // 2, (width - columns) // 2
    middle = image[top : top + rows, left : left + columns].mean(axis=2)
    values: Floats = gaussian_filter(middle, min(SIGMA_PX, min(rows, columns) / 8))
    window = np.outer(np.hanning(rows + 2)[1:-1], np.hanning(columns + 2)[1:-1])
    faded: Floats = ((values - values.mean()) * window).astype(np.float32)
    faded -= faded.mean()
    return faded


def augment(pair: Pair, options: Augmentation, rng: np.random.Generator) -> Pair:
    """Return a random square piece of a pair; what belongs together stays together.

    A mirrored scene swaps its dual-pixel views, and views are never turned by 90 degrees, since
    their disparity is horizontal. The radius map is scaled with the images.

    Parameters
    ----------
    pair
        Images of at least ``options.crop_size`` pixels a side; they are not changed.
    options
        What is done.
    rng
        Decides everything: the same state gives the same piece.

    Raises
    ------
    ImageError
        If the pair is smaller than the crop.
    """
    # Every number is drawn for every pair, so that options do not shift those that follow.
    scale, top, left = rng.uniform(size=3)
    mirror, upend, quarters = rng.integers((2, 2, 4))
    strength = rng.uniform()
    size, (height, width) = options.crop_size, pair.sharp.shape[:2]
    if min(height, width) < size:
        raise ImageError(
            f"the pair {pair.name} has {width}x{height} pixels, too few for crops of"
            f" {size}; use smaller crops or leave it out"
        )
    low, high = options.scale
    factor = math.exp(math.log(low) + scale * (math.log(high) - math.log(low)))
    side = min(height, width, max(1, round(size / factor)))
    row, column = int(top * (height - side + 1)), int(left * (width - side + 1))
    if not options.flips:
        mirror = upend = 0
    if not options.rotations:
        quarters = 0
    elif pair.views is not None:
        quarters = 2 * (quarters % 2)

    def piece(values: Floats, order: int = 1) -> Floats:
        cut = values[row : row + side, column : column + side]
        if side != size:
            smooth = order > 0 and size < side
            cut = resize(cut, (size, size), order=order, anti_aliasing=smooth)
        cut = cut[:, ::-1] if mirror else cut
        cut = cut[::-1] if upend else cut
        return np.array(np.rot90(cut, quarters), np.float32, order="C")

    views = pair.views and (piece(pair.views[0]), piece(pair.views[1]))
    if views is not None and bool(mirror) != (quarters == 2):
        views = views[1], views[0]
    blurred, views = _noisy(piece(pair.blurred), views, np.float32(strength * options.noise), rng)
    radius = None
    if pair.radius is not None:
        # Not smoothed: between near and far lies an edge, not a sharp rim.
        radius = piece(pair.radius, order=0) * np.float32(size / side)
    return Pair(pair.name, blurred, piece(pair.sharp), views, radius)


def _noisy(
    blurred: Floats,
    views: tuple[Floats, Floats] | None,
    sigma: np.float32,
    rng: np.random.Generator,
) -> tuple[Floats, tuple[Floats, Floats] | None]:
    """Add noise without clipping; that of the centre is the mean of that of its views."""
    if not sigma:
        return blurred, views
    first: Floats = sigma * rng.standard_normal(blurred.shape, np.float32)
    if views is None:
        return blurred + first, None
    second: Floats = sigma * rng.standard_normal(blurred.shape, np.float32)
    return blurred + np.float32(0.5) * (first + second), (views[0] + first, views[1] + second)
