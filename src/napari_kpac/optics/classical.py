"""Classical deblurring in two steps: estimate the blur, then deconvolve level by level.

Not for: deblurring with the network (engine).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.optics.aperture import Aperture, find_aperture
from napari_kpac.optics.ebdb import defocus_map
from napari_kpac.optics.hyper_laplacian import EXPONENT, deconvolve
from napari_kpac.optics.kernels import GAUSSIAN_REACH, psf
from napari_kpac.optics.light import to_linear, to_srgb
from napari_kpac.optics.pixels import Floats, check_map, from_unit, to_unit

SHARP = 0.3
"""Sigma in pixels below which nothing is removed."""
STEP = 0.1
"""Pixels of sigma that two levels of blur are apart at least."""


@dataclass(frozen=True)
class TwoStepOptions:
    """How the blur is removed once it is known."""

    aperture: str | Aperture = "gaussian"
    levels: int = 32
    """How many blurs are told apart, at quantiles of the map."""
    exponent: float = EXPONENT
    """Of the prior on gradients."""
    weight: float = 2000.0
    """Of the data against the prior; smaller for noisier images, and smaller than for a
    blur that is the same everywhere, since at outlines the blur is of two sizes at once."""

    def __post_init__(self) -> None:
        if self.levels < 1:
            raise ConfigError(f"at least one level of blur is needed, not {self.levels}")


@dataclass(frozen=True)
class TwoStep:
    """A deblurred image and the blur that was removed."""

    image: npt.NDArray[Any]
    """Same shape and type as the input."""
    sigma: Floats
    """(H, W): blur in pixels of sigma, as estimated or given."""


def two_step(
    image: npt.ArrayLike,
    options: TwoStepOptions | None = None,
    *,
    sigma: npt.ArrayLike | None = None,
) -> TwoStep:
    """Deblur an image without a network.

    Parameters
    ----------
    image
        Grey (H, W) or sRGB (H, W, 3); uint8, uint16, or floats in 0..1.
    options
        How the blur is removed.
    sigma
        The blur in pixels of sigma, one number or a map, where it is known; otherwise it is
        estimated (EBDB).

    Returns
    -------
    TwoStep
        The image, and the defocus map.
    """
    return finish(two_step_steps(image, options, sigma=sigma))


def two_step_steps(
    image: npt.ArrayLike,
    options: TwoStepOptions | None = None,
    *,
    sigma: npt.ArrayLike | None = None,
) -> Steps[TwoStep]:
    """Deblur as `two_step` does, yielding after each level of blur."""
    options = options or TwoStepOptions()
    aperture = find_aperture(options.aperture)
    pixels = to_unit(image)
    if sigma is None:
        # What is estimated is never a reason to fail: its kernel must fit into the image.
        fitting = (min(pixels.shape[:2]) - 1) // 2 / GAUSSIAN_REACH
        blur = np.minimum(defocus_map(pixels).sigma, np.float32(fitting))
    else:
        blur = check_map(sigma, pixels.shape[:2], "defocus map")
        if blur.min() < 0:
            raise ConfigError(f"a blur is 0 or more pixels of sigma, not {blur.min():g}")
    light = to_linear(pixels)
    restored = light.copy()
    widths, level = _quantised(blur, options.levels)
    for i, width in enumerate(widths):
        here = level == i
        if width >= SHARP:
            box = _box(here, margin=int(np.ceil(8 * width)) + 8)
            kernel = psf(aperture, 2 * width)
            part = deconvolve(light[box], kernel, exponent=options.exponent, weight=options.weight)
            restored[box][here[box]] = part[here[box]]
        yield Progress(i + 1, len(widths), "deconvolving")
    encoded = to_srgb(np.clip(restored, 0, 1))
    return TwoStep(from_unit(encoded, np.asarray(image).dtype), blur)


def _quantised(blur: Floats, most: int) -> tuple[list[float], npt.NDArray[np.int64]]:
    """Sort pixels into levels at quantiles of the blur, none narrower than `STEP`."""
    bounds = [float(blur.min())]
    for bound in np.quantile(blur, np.arange(1, most) / most):
        if bound - bounds[-1] >= STEP:
            bounds.append(float(bound))
    level = np.searchsorted(bounds, blur, side="right") - 1
    present, level = np.unique(level, return_inverse=True)
    level = level.reshape(blur.shape)
    return [float(np.median(blur[level == i])) for i in range(len(present))], level


def _box(mask: npt.NDArray[np.bool_], margin: int) -> tuple[slice, slice]:
    """Give the smallest rectangle around a mask, with a margin."""
    spans = []
    for axis in (0, 1):
        places = np.flatnonzero(mask.any(axis=1 - axis))
        start, stop = int(places[0]) - margin, int(places[-1]) + 1 + margin
        spans.append(slice(max(start, 0), min(stop, mask.shape[axis])))
    return spans[0], spans[1]
