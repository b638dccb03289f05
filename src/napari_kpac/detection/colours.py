"""A perceptually uniform colour map, and a map laid over a picture in it.

Not for: writing files (export.py).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from skimage.color import deltaE_ciede2000, lab2rgb, rgb2gray

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.detection.planes import Picture

# From sharp to blurred, in CIELAB: nearly black, violet, red, orange, pale yellow.
_STATIONS = ((4, 2, -8), (24, 38, -42), (46, 62, -8), (68, 45, 36), (95, -6, 30))
STEPS = 256
_FINE = 4096


@cache
def colour_table() -> npt.NDArray[np.float64]:
    """Return (256, 3) colours in 0..1, dark for 0 and light for 1.

    A path through CIELAB that only gets lighter, cut into steps of the same perceived
    difference (CIEDE2000).
    """
    fine = np.linspace(0, len(_STATIONS) - 1, _FINE)
    path = np.stack(
        [np.interp(fine, range(len(_STATIONS)), axis) for axis in zip(*_STATIONS, strict=True)],
        axis=-1,
    )
    travelled = np.append(0, np.cumsum(deltaE_ciede2000(path[:-1], path[1:])))
    places = np.linspace(0, travelled[-1], STEPS)
    even = np.stack([np.interp(places, travelled, axis) for axis in path.T], axis=-1)
    colours: npt.NDArray[np.float64] = np.clip(lab2rgb(even), 0, 1)
    colours.flags.writeable = False
    return colours


def coloured(values: npt.NDArray[np.floating]) -> npt.NDArray[np.float64]:
    """Give each value of 0..1 its colour, (..., 3) in 0..1; NaN counts as 0."""
    steps = np.rint(np.clip(np.nan_to_num(values), 0, 1) * (STEPS - 1)).astype(np.intp)
    colours: npt.NDArray[np.float64] = colour_table()[steps]
    return colours


def overlaid(
    picture: Picture, values: npt.NDArray[np.floating], opacity: float
) -> npt.NDArray[np.uint8]:
    """Lay the colours of a map (H, W) over a picture (H, W, channels): 8-bit RGB.

    The picture is shown in grey, so that all colour comes from the map.
    """
    if not 0 <= opacity <= 1:
        raise ConfigError(f"opacity={opacity!r}: must lie within 0..1")
    if picture.shape[:2] != values.shape:
        raise ImageError(
            f"the picture is of {picture.shape[:2]} pixels and the map of {values.shape}"
        )
    below = np.clip(picture, 0, 1)
    grey = rgb2gray(below) if below.shape[-1] == 3 else below[..., 0]
    mixed = (1 - opacity) * grey[..., None] + opacity * coloured(values)
    pixels: npt.NDArray[np.uint8] = np.rint(mixed * 255).astype(np.uint8)
    return pixels
