"""Local variance as a measure of blur: the plain comparison that needs no network.

Not for: the network's measures (sources.py).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.ndimage import uniform_filter

from napari_kpac.detection.planes import Picture

FLOOR = (1 / 255) ** 2
"""Variance of about one grey level of 8 bits: below this, detail cannot be told from noise."""
LARGEST = 0.25
"""Variance of half black, half white: values in 0..1 cannot vary more."""


def local_variance_blur(picture: Picture, window: int) -> npt.NDArray[np.float32]:
    """Measure blur by the lack of local variance.

    The variance v of the pixels in a square window around each pixel, averaged over the
    channels, is put on a logarithmic scale between two fixed ends:

    ``blur = 1 - log(1 + v / FLOOR) / log(1 + LARGEST / FLOOR)``

    so a constant area gives 1 and the strongest texture possible gives 0. The ends do not
    depend on the picture: slices of a stack can be compared, and a crop gives what the
    whole picture gives there.

    Parameters
    ----------
    picture
        (H, W, channels); what lies outside 0..1 is cut off.
    window
        Side of the window in pixels; the picture is reflected at its border.
    """
    values = np.clip(picture.astype(np.float64), 0, 1)
    variance = np.zeros(values.shape[:2])
    for channel in np.moveaxis(values, -1, 0):
        # Around the mean of the picture, so that little is lost when squares are subtracted.
        centred = channel - channel.mean()
        variance += uniform_filter(centred**2, window) - uniform_filter(centred, window) ** 2
    variance = np.clip(variance / values.shape[-1], 0, LARGEST)
    sharpness = np.log1p(variance / FLOOR) / np.log1p(LARGEST / FLOOR)
    blur: npt.NDArray[np.float32] = (1 - sharpness).astype(np.float32)
    return blur
