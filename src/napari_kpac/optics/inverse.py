"""Inverse kernels: Wiener inversion, upsampling, dilation, blending (paper, section 3).

Not for: deconvolution with priors (deconvolution).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.signal import oaconvolve

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.optics.aperture import check_kernel
from napari_kpac.optics.pixels import Doubles, check_finite, check_image

LANCZOS_LOBES = 3
MAX_GRID_PX = 4096
"""Side of the grid at which the search for a support is given up."""
MIN_TARGET = 0.05
"""Target pixels smaller than this are left out of the accuracy, which divides by them."""
TOLERANCE = 0.002
"""How closely the sums of the inverses are met; their error is one of brightness."""

Method = Literal["lanczos", "fourier"]


def wiener_inverse(kernel: Doubles, epsilon: float = 0.01, *, tolerance: float = 0.01) -> Doubles:
    """Invert a blur kernel by Wiener's rule.

    Parameters
    ----------
    kernel
        A plane of odd size that sums to 1.
    epsilon
        Noise-to-signal ratio; larger means a smoother and smaller inverse.
    tolerance
        The support is grown until the sum of the inverse is 1 / (1 + epsilon) within this
        share, and stays so for every larger support.

    Returns
    -------
    numpy.ndarray
        A plane of odd size; convolving the blurred image with it undoes the blur.
    """
    check_kernel(kernel)
    grid = 8 * (max(kernel.shape) // 2) + 64
    while grid <= MAX_GRID_PX:
        half = grid // 2
        padded = np.pad(kernel, [(half - side // 2,) * 2 for side in kernel.shape])
        whole = inverse_on_grid(padded, epsilon)
        goal = 1 / (1 + epsilon)
        distance = np.abs(np.arange(-half, half + 1))
        rings = np.bincount(
            np.maximum(distance[:, None], distance).ravel(), whole.ravel(), half + 1
        )
        off = np.abs(np.cumsum(rings) - goal) > tolerance * goal
        reach = int(off.nonzero()[0].max(initial=-1)) + 1
        # In the outer half of a grid the inverse has met its own repetitions.
        if reach <= half // 2:
            reach = max(reach, max(kernel.shape) // 2)
            inside = slice(half - reach, half + reach + 1)
            return whole[inside, inside].copy()
        grid *= 2
    raise ConfigError(
        f"the inverse of a {kernel.shape[1]}x{kernel.shape[0]} kernel does not fit into"
        f" {MAX_GRID_PX} pixels at epsilon {epsilon:g}; use a larger epsilon"
    )


def inverse_on_grid(kernel: Doubles, epsilon: float) -> Doubles:
    """Invert a kernel on its own grid, which repeats itself at the edges."""
    if not 0 < epsilon < np.inf:
        raise ConfigError(f"epsilon must be above 0, or the inverse is unbounded; got {epsilon}")
    transfer = np.fft.fft2(np.fft.ifftshift(kernel))
    inverse = np.conj(transfer) / (np.abs(transfer) ** 2 + epsilon)
    centred: Doubles = np.fft.fftshift(np.fft.ifft2(inverse).real)
    return centred


def upsample(kernel: Doubles, scale: float, method: Method = "lanczos") -> Doubles:
    """Enlarge a kernel ``scale`` times and divide it by scale squared, which keeps its sum.

    Parameters
    ----------
    kernel
        A plane of odd size.
    scale
        At least 1. The Fourier method needs one that gives whole sizes.
    method
        "lanczos" interpolates with a three-lobed kernel and lets it ring out beyond the edge;
        "fourier" pads the spectrum with zeros, on a grid that repeats itself.
    """
    check_kernel(kernel, normalised=False)
    if not 1 <= scale < np.inf:
        raise ConfigError(f"kernels are enlarged, so the scale is at least 1, not {scale}")
    if method == "lanczos":
        down, across = (_lanczos_matrix(size, scale) for size in kernel.shape)
        enlarged: Doubles = down @ kernel @ across.T / scale**2
        return enlarged
    if method == "fourier":
        return _fourier(kernel, scale)
    raise ConfigError(f"no upsampling is called {method!r}; choose lanczos or fourier")


def dilate(kernel: Doubles, scale: int) -> Doubles:
    """Insert ``scale - 1`` zeros between the values of a kernel, as an atrous convolution does."""
    check_kernel(kernel, normalised=False)
    if scale != int(scale) or scale < 1:
        raise ConfigError(f"a dilation is a whole number from 1 on, not {scale}")
    spread = np.zeros([(size - 1) * int(scale) + 1 for size in kernel.shape])
    spread[:: int(scale), :: int(scale)] = kernel
    return spread


def apply_kernel(image: npt.NDArray[Any], kernel: Doubles) -> Doubles:
    """Convolve a grey (H, W) or colour (H, W, C) image of floats with a kernel.

    The image is mirrored at its edges, which is the one continuation that blurring and
    inverting with symmetric kernels both keep: the edges of an image that was blurred in
    this way are restored like the rest.
    """
    check_image(image)
    check_finite(kernel, "kernel")
    rows, columns = kernel.shape
    # An even side has its middle at size // 2, as fftshift leaves it.
    before, after = (rows // 2, columns // 2), ((rows - 1) // 2, (columns - 1) // 2)
    sides = [(after[0], before[0]), (after[1], before[1])] + [(0, 0)] * (image.ndim - 2)
    padded = np.pad(image.astype(np.float64), sides, mode="symmetric")
    spread = kernel.reshape(*kernel.shape, *[1] * (image.ndim - 2))
    convolved: Doubles = oaconvolve(padded, spread, mode="valid", axes=(0, 1))
    return convolved


def _lanczos_matrix(size: int, scale: float) -> Doubles:
    """Return the weights of every input for every output; those of an output sum to 1."""
    half = size // 2
    reach = int(np.ceil(scale * (half + LANCZOS_LOBES))) - 1
    place = np.arange(-reach, reach + 1) / scale
    # Weights of all whole positions, those beyond the kernel's edge included, are normalised.
    wide = np.arange(-half - 2 * LANCZOS_LOBES, half + 2 * LANCZOS_LOBES + 1)
    offset = place[:, None] - wide
    weights = np.where(
        np.abs(offset) < LANCZOS_LOBES, np.sinc(offset) * np.sinc(offset / LANCZOS_LOBES), 0
    )
    weights /= weights.sum(axis=1, keepdims=True)
    matrix: Doubles = weights[:, 2 * LANCZOS_LOBES : -2 * LANCZOS_LOBES]
    return matrix


def _fourier(kernel: Doubles, scale: float) -> Doubles:
    sizes = [scale * side for side in kernel.shape]
    if any(abs(size - round(size)) > 1e-9 for size in sizes):
        raise ConfigError(
            f"a kernel of shape {kernel.shape} has no whole size when enlarged {scale:g} times;"
            " use lanczos, or a size that the scale divides"
        )
    spectrum = np.fft.fftshift(np.fft.fft2(np.fft.ifftshift(kernel)))
    padding = []
    for side, size in zip(kernel.shape, map(round, sizes), strict=True):
        before = size // 2 - side // 2
        padding.append((before, size - side - before))
    padded = np.fft.ifftshift(np.pad(spectrum, padding))
    enlarged: Doubles = np.fft.fftshift(np.fft.ifft2(padded).real)
    return enlarged


@dataclass(frozen=True)
class Accuracy:
    """The paper's measure, 1 - mean(abs(1 - blend / target)), and the share of pixels left out."""

    value: float
    left_out: float


def blend(images: Sequence[npt.NDArray[Any]], weights: npt.ArrayLike) -> Doubles:
    """Sum images by weights, one number for each."""
    factors = np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(images),) or not len(images):
        raise ImageError(f"{len(images)} images need as many weights, got {factors.shape}")
    _check_shapes(images)
    blended: Doubles = np.tensordot(factors, np.stack(images), axes=1)
    return blended


def fit_weights(images: Sequence[npt.NDArray[Any]], target: npt.NDArray[Any]) -> Doubles:
    """Find the weights, none negative, whose blend is closest to a target over all pixels."""
    _check_shapes([target, *images])
    columns = np.stack([image.ravel() for image in images], axis=1).astype(np.float64)
    # The triangle of a QR decomposition has the same least squares with few rows.
    both = np.asarray(np.linalg.qr(np.column_stack([columns, target.ravel()]), mode="r"))
    weights: Doubles = nnls(both[:, :-1], both[:, -1])[0]
    return weights


def accuracy(image: npt.NDArray[Any], target: npt.NDArray[Any]) -> Accuracy:
    """Score a blend against the image deblurred with the kernel of the right size."""
    _check_shapes([image, target])
    usable = np.abs(target) >= MIN_TARGET
    if not usable.any():
        raise ImageError(
            f"every target pixel is smaller than {MIN_TARGET}; the accuracy is undefined"
        )
    ratio = image[usable] / target[usable]
    return Accuracy(float(1 - np.abs(1 - ratio).mean()), float(1 - usable.mean()))


def _check_shapes(images: Sequence[npt.NDArray[Any]]) -> None:
    shapes = {image.shape for image in images}
    if len(shapes) != 1:
        raise ImageError(f"the images must have one shape, got {sorted(shapes)}")


@dataclass(frozen=True)
class InverseKernels:
    """The inverses of one kernel at one scale."""

    inverse: Doubles
    """Of the small kernel."""
    direct: Doubles
    """Of the enlarged kernel: the left side of Eq. 4."""
    upsampled: Doubles
    """The small inverse, enlarged: the right side of Eq. 4."""
    dilated: Doubles
    """The small inverse, with zeros between its values."""


@dataclass(frozen=True)
class InverseComparison:
    """What each inverse makes of an image, and how close the results are in decibels."""

    kernels: InverseKernels
    by_direct: Doubles
    by_upsampled: Doubles
    by_dilated: Doubles
    direct_to_upsampled: float
    upsampled_to_dilated: float


def inverse_kernels(kernel: Doubles, scale: int, epsilon: float = 0.01) -> InverseKernels:
    """Invert a kernel, and make the inverses that undo the same blur ``scale`` times larger."""
    large = upsample(kernel, scale)
    inverse = wiener_inverse(kernel, epsilon, tolerance=TOLERANCE)
    return InverseKernels(
        inverse,
        wiener_inverse(large / large.sum(), epsilon, tolerance=TOLERANCE),
        upsample(inverse, scale),
        dilate(inverse, scale),
    )


def compare_inverses(blurred: npt.NDArray[Any], kernels: InverseKernels) -> InverseComparison:
    """Deblur an image of floats in 0..1 with each of the inverses."""
    direct, upsampled, dilated = (
        apply_kernel(blurred, kernel)
        for kernel in (kernels.direct, kernels.upsampled, kernels.dilated)
    )
    between = decibels(direct, upsampled), decibels(upsampled, dilated)
    return InverseComparison(kernels, direct, upsampled, dilated, *between)


def decibels(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Return the PSNR between two images whose white is 1; infinite where they are equal."""
    with np.errstate(divide="ignore"):
        return float(-10 * np.log10(np.mean((first - second) ** 2, dtype=np.float64)))
