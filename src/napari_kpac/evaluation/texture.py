"""Where a picture has texture: only there can anybody tell blurred from sharp.

Not for: measures of blur (detection).

The rule: the gradient magnitude of the grey picture (mean of the channels, black 0, white 1) by
Gaussian derivatives of sigma 1, smoothed by a Gaussian of sigma 2, is above 0.02 per pixel. It
is taken on the sharp photograph, so that blur does not remove its own evidence.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, gaussian_gradient_magnitude

from napari_kpac.evaluation.metrics import Mask

DERIVATIVE = 1.0
SMOOTHING = 2.0
STEEPNESS = 0.02


def textured(sharp: npt.NDArray[np.float32]) -> Mask:
    """Mark the pixels of a sharp picture (H, W, C) that have texture."""
    gradient = gaussian_gradient_magnitude(sharp.mean(axis=2), DERIVATIVE)
    mask: Mask = gaussian_filter(gradient, SMOOTHING) > STEEPNESS
    return mask
