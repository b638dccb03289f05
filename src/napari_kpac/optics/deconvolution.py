"""Deconvolution with a hyper-Laplacian prior, of one blur or of blur that varies.

Not for: finding the blur (ebdb), or deblurring with the network (engine).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft2, next_fast_len, rfft2
from scipy.ndimage import find_objects
from skimage.restoration.uft import ir2tf

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.options import Deconvolution
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.optics.aperture import (
    GAUSSIAN_REACH,
    Aperture,
    check_kernel,
    find_aperture,
    psf,
)
from napari_kpac.optics.ebdb import defocus_map
from napari_kpac.optics.pixels import (
    Doubles,
    Floats,
    check_image,
    check_map,
    from_unit,
    to_linear,
    to_srgb,
    to_unit,
)

EXPONENT = 0.8
WEIGHT = 5000.0
"""Gains most with noise of about half a percent of white."""
FIRST_BETA = 1.0
BETA_GROWTH = 2 * np.sqrt(2)
LAST_BETA = 256.0
TABLE_SIZE = 1 << 14
"""Entries of the look-up table of the gradient step."""
MAX_GRADIENT = 2.0
"""Largest gradient in the table."""
SHARP_SIGMA_PX = 0.3
"""Below this blur nothing is removed."""
SIGMA_STEP_PX = 0.1
"""Two levels of blur are at least so far apart."""


def deconvolve(
    image: npt.NDArray[Any],
    kernel: Doubles,
    *,
    exponent: float = EXPONENT,
    weight: float = WEIGHT,
) -> Floats:
    """Undo a known blur, expecting gradients that are mostly small and sometimes large.

    Minimises ``weight / 2 * |kernel * x - image|^2 + sum |gradient of x|^exponent`` by
    half-quadratic splitting (Krishnan and Fergus, 2009).

    Parameters
    ----------
    image
        Grey (H, W) or colour (H, W, C) floats, about 0..1.
    kernel
        A plane of odd size that sums to 1 and is smaller than the image.
    exponent
        Of the prior, above 0 and below 2; the literature uses 1/2, 2/3, 4/5, 1 and 1.5.
    weight
        Of the data against the prior: smaller for noisier images.
    """
    check_image(image)
    check_kernel(kernel)
    if any(side > size for side, size in zip(kernel.shape, image.shape[:2], strict=True)):
        raise ImageError(
            f"a kernel of shape {kernel.shape} is larger than the image {image.shape[:2]}"
        )
    if not 0 < exponent < 2:
        raise ConfigError(f"the exponent of the prior lies between 0 and 2, not at {exponent}")
    if not 0 < weight < np.inf:
        raise ConfigError(f"the weight of the data must be above 0, not {weight}")
    planes = np.moveaxis(np.atleast_3d(image).astype(np.float32), 2, 0)
    padded, inside = _tapered(planes, kernel)
    size = padded.shape[1:]

    transfer = _transfer(kernel, size)
    differences = (
        _transfer(np.array([[0, -1, 1]]), size),
        _transfer(np.array([[0], [-1], [1]]), size),
    )
    spectrum = rfft2(padded)
    data = weight * np.conj(transfer) * spectrum
    data_power = weight * np.abs(transfer) ** 2
    prior_power = sum(np.abs(difference) ** 2 for difference in differences)
    beta = FIRST_BETA
    while beta < LAST_BETA:
        wanted = data.copy()
        for difference in differences:
            gradient = irfft2(spectrum * difference, size)
            wanted += beta * np.conj(difference) * rfft2(shrink(gradient, beta, exponent))
        spectrum = wanted / (data_power + beta * prior_power)
        beta *= BETA_GROWTH
    estimate = irfft2(spectrum, size)
    restored: Floats = np.moveaxis(estimate[inside], 0, 2).astype(np.float32)
    return restored.reshape(image.shape)


def shrink(gradient: npt.NDArray[Any], beta: float, exponent: float) -> npt.NDArray[Any]:
    """Solve the gradient step: minimise ``|w|^exponent + beta / 2 * (w - gradient)^2``."""
    magnitude = np.abs(gradient)
    within = np.minimum(magnitude, MAX_GRADIENT)
    table = _shrink_table(beta, exponent).astype(gradient.dtype)
    found = table[np.rint(within * ((TABLE_SIZE - 1) / MAX_GRADIENT)).astype(np.int32)]
    # Beyond the table, gradients are so large that they are hardly changed any more.
    solved: npt.NDArray[Any] = np.copysign(found + (magnitude - within), gradient)
    return solved


@lru_cache(maxsize=64)
def _shrink_table(beta: float, exponent: float) -> Doubles:
    """Return the minimum for gradients from 0 on: the largest root of the derivative, or zero."""
    values = np.linspace(0, MAX_GRADIENT, TABLE_SIZE)

    def slope(w: Doubles) -> Doubles:
        steep: Doubles = exponent * w ** (exponent - 1) + beta * (w - values)
        return steep

    lowest = 1e-12
    if exponent < 1:
        # The slope has its smallest value here; a root exists only where that is not positive.
        lowest = (exponent * (1 - exponent) / beta) ** (1 / (2 - exponent))
    low, high = np.full_like(values, lowest), np.maximum(values, lowest)
    exists = slope(low) <= 0
    for _ in range(50):
        middle = (low + high) / 2
        below = slope(middle) < 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    better = high**exponent + beta / 2 * (high - values) ** 2 < beta / 2 * values**2
    return np.where(exists & better, high, 0.0)


def _tapered(planes: Floats, kernel: Doubles) -> tuple[Floats, tuple[slice, ...]]:
    """Pad by mirroring, and blur the padding towards its ends so that they meet smoothly."""
    pads, ramps = [(0, 0)], []
    for side, reach in zip(planes.shape[1:], kernel.shape, strict=True):
        before = reach + 8
        after = next_fast_len(side + 2 * before, real=True) - side - before
        place = np.arange(-before, side + after)
        outside = np.maximum(-place / before, (place - side + 1) / after).clip(0, 1)
        pads.append((before, after))
        ramps.append(0.5 + 0.5 * np.cos(np.pi * outside))
    padded, keep = np.pad(planes, pads, mode="symmetric"), np.outer(*ramps)
    size = padded.shape[1:]
    blurred = irfft2(rfft2(padded) * _transfer(kernel, size) ** 3, size)
    tapered = (keep * padded + (1 - keep) * blurred).astype(np.float32)
    inside = tuple(slice(b, b + n) for (b, _), n in zip(pads, planes.shape, strict=True))
    return tapered, inside


def _transfer(kernel: npt.NDArray[Any], size: tuple[int, ...]) -> npt.NDArray[np.complex64]:
    transfer: npt.NDArray[np.complex64] = ir2tf(kernel.astype(np.float32), size)
    return transfer


@dataclass(frozen=True)
class TwoStepOptions:
    """How the blur is removed once it is known."""

    aperture: str | Aperture = "gaussian"
    levels: int = 32
    """How many blurs are told apart, at quantiles of the map."""
    exponent: float = EXPONENT
    """Of the prior on gradients."""
    weight: float = 1000.0
    """Of the data against the prior; smaller for noisier images, and smaller than for a
    blur that is the same everywhere, since at outlines the blur is of two sizes at once."""
    step: float = SIGMA_STEP_PX
    """Two levels are at least so far apart, in pixels of sigma; 0 keeps every quantile."""
    linear_light: bool = True
    """Whether the values are taken for sRGB and deconvolved in linear light, or as they are."""

    def __post_init__(self) -> None:
        if self.levels < 1:
            raise ConfigError(f"at least one level of blur is needed, not {self.levels}")
        if not 0 <= self.step < np.inf:
            raise ConfigError(f"levels of blur are 0 or more pixels apart, not {self.step}")


TWO_STEP_SETTINGS: Mapping[Deconvolution, TwoStepOptions] = {
    "default": TwoStepOptions(),
    "paper": TwoStepOptions(exponent=1.5, weight=16.8, levels=32, step=0, linear_light=False),
}
"""Ours, and those with which the literature compares defocus maps on DPDD."""


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
    return finish(restore_steps(image, options, sigma=sigma))


def restore_steps(
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
        blur = fitting_blur(defocus_map(pixels).sigma)
    else:
        blur = check_map(sigma, pixels.shape[:2], "defocus map")
        if blur.min() < 0:
            raise ConfigError(f"a blur is 0 or more pixels of sigma, not {blur.min():g}")
    light = to_linear(pixels) if options.linear_light else pixels
    restored = light.copy()
    widths, level = _quantised(blur, options.levels, options.step)
    for i, (width, spans) in enumerate(zip(widths, find_objects(level + 1), strict=True)):
        if width >= SHARP_SIGMA_PX:
            margin = int(np.ceil(8 * width)) + 8
            box = tuple(slice(max(span.start - margin, 0), span.stop + margin) for span in spans)
            kernel = psf(aperture, 2 * width)
            part = deconvolve(light[box], kernel, exponent=options.exponent, weight=options.weight)
            here = level[box] == i
            restored[box][here] = part[here]
        yield Progress(i + 1, len(widths), "deconvolving")
    restored = np.clip(restored, 0, 1)
    encoded = to_srgb(restored) if options.linear_light else restored
    return TwoStep(from_unit(encoded, np.asarray(image).dtype), blur)


def fitting_blur(sigma: Floats) -> Floats:
    """Return an estimated blur, cut off where its kernel would be larger than the image.

    What is estimated is never a reason to fail; a blur that is given may be.
    """
    largest = (min(sigma.shape) - 1) // 2 / GAUSSIAN_REACH
    fitting: Floats = np.minimum(sigma, np.float32(largest))
    return fitting


def _quantised(blur: Floats, most: int, step: float) -> tuple[list[float], npt.NDArray[np.int64]]:
    """Sort pixels into levels at quantiles of the blur, none narrower than ``step``."""
    bounds = [float(blur.min())]
    for bound in np.quantile(blur, np.arange(1, most) / most):
        if bound > bounds[-1] and bound - bounds[-1] >= step:
            bounds.append(float(bound))
    level = np.searchsorted(bounds, blur, side="right") - 1
    present, level = np.unique(level, return_inverse=True)
    level = level.reshape(blur.shape)
    return [float(np.median(blur[level == i])) for i in range(len(present))], level
