"""One blurred picture, deblurred with inverse kernels that the paper says are interchangeable.

Not for: drawing figures of it (evaluation, widgets).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.optics.inverse import apply_kernel, dilate, upsample, wiener_inverse
from napari_kpac.optics.pixels import Doubles

TOLERANCE = 0.002
"""How closely the sums of the inverses are met; their error is one of brightness."""


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
    """What each inverse makes of a picture, and how close the results are in decibels."""

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
    """Deblur a picture of floats in 0..1 with each of the inverses."""
    direct, upsampled, dilated = (
        apply_kernel(blurred, kernel)
        for kernel in (kernels.direct, kernels.upsampled, kernels.dilated)
    )
    return InverseComparison(
        kernels,
        direct,
        upsampled,
        dilated,
        decibels(direct, upsampled),
        decibels(upsampled, dilated),
    )


def decibels(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> float:
    """Give the PSNR between two pictures whose white is 1; infinite where they are equal."""
    with np.errstate(divide="ignore"):
        return float(-10 * np.log10(np.mean((first - second) ** 2, dtype=np.float64)))
