"""Deconvolution with a known kernel and a hyper-Laplacian prior (Krishnan and Fergus, 2009).

Not for: finding the kernel (ebdb), or blur that varies (classical).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.fft import irfft2, next_fast_len, rfft2

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.optics.kernels import check_kernel
from napari_kpac.optics.pixels import Doubles, Floats, check_finite

EXPONENT = 0.8
WEIGHT = 5000.0
"""Gains most with noise of about half a percent of white."""
BETA_FIRST = 1.0
BETA_GROWTH = 2 * np.sqrt(2)
BETA_LAST = 256.0
TABLE = 1 << 14
"""Entries of the look-up table of the gradient step."""
TOP = 2.0
"""Largest gradient in the table."""


def deconvolve(
    image: npt.NDArray[Any],
    kernel: Doubles,
    *,
    exponent: float = EXPONENT,
    weight: float = WEIGHT,
) -> Floats:
    """Undo a known blur, expecting gradients that are mostly small and sometimes large.

    Minimises ``weight / 2 * |kernel * x - image|^2 + sum |gradient of x|^exponent`` by
    half-quadratic splitting.

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
    if image.ndim not in (2, 3) or not image.size:
        raise ImageError(f"an image (H, W) or (H, W, C) is needed, got shape {image.shape}")
    check_finite(image, "image")
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
    beta = BETA_FIRST
    while beta < BETA_LAST:
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
    within = np.minimum(magnitude, TOP)
    table = _table(beta, exponent).astype(gradient.dtype)
    found = table[np.rint(within * ((TABLE - 1) / TOP)).astype(np.int32)]
    # Beyond the table, gradients are so large that they are hardly changed any more.
    solved: npt.NDArray[Any] = np.copysign(found + (magnitude - within), gradient)
    return solved


@lru_cache(maxsize=64)
def _table(beta: float, exponent: float) -> Doubles:
    return _shrunk(np.linspace(0, TOP, TABLE), beta, exponent)


def _shrunk(values: Doubles, beta: float, exponent: float) -> Doubles:
    """Find the minimum for values from 0 on: the largest root of the derivative, or zero."""

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
    margin = [side + 8 for side in kernel.shape]
    pads = [(0, 0)]
    for side, extra in zip(planes.shape[1:], margin, strict=True):
        length = next_fast_len(side + 2 * extra, real=True)
        pads.append((extra, length - side - extra))
    padded = np.pad(planes, pads, mode="symmetric")
    size = padded.shape[1:]
    blurred = irfft2(rfft2(padded) * _transfer(kernel, size) ** 3, size)
    keep = 1.0
    for axis, (before, after) in enumerate(pads[1:]):
        side = planes.shape[axis + 1]
        place = np.arange(before + side + after) - before
        outside = np.maximum(-place / before, (place - side + 1) / after).clip(0, 1)
        ramp = 0.5 + 0.5 * np.cos(np.pi * outside)
        keep = keep * (ramp[:, None] if axis == 0 else ramp)
    tapered = (keep * padded + (1 - keep) * blurred).astype(np.float32)
    inside = tuple(slice(b, b + n) for (b, _), n in zip(pads, planes.shape, strict=True))
    return tapered, inside


def _transfer(kernel: npt.NDArray[Any], size: tuple[int, ...]) -> npt.NDArray[np.complex64]:
    spread = np.zeros(size, dtype=np.float32)
    spread[: kernel.shape[0], : kernel.shape[1]] = kernel
    rolled = np.roll(spread, [-(side // 2) for side in kernel.shape], axis=(0, 1))
    transfer: npt.NDArray[np.complex64] = rfft2(rolled)
    return transfer
