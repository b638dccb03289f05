"""Blend pictures that were deblurred with kernels of other sizes (paper, Eq. 5), and score it.

Not for: the kernels (inverse).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from napari_kpac.core.errors import ImageError
from napari_kpac.optics.pixels import Doubles

SMALLEST_TARGET = 0.05
"""Target pixels smaller than this are left out of the accuracy, which divides by them."""


@dataclass(frozen=True)
class Accuracy:
    """The paper's measure, 1 - mean(abs(1 - blend / target)), and the share of pixels left out."""

    value: float
    left_out: float


def blend(pictures: Sequence[npt.NDArray[Any]], weights: npt.ArrayLike) -> Doubles:
    """Sum pictures by weights, one number for each."""
    factors = np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(pictures),) or not len(pictures):
        raise ImageError(f"{len(pictures)} pictures need as many weights, got {factors.shape}")
    _check_shapes(pictures)
    blended: Doubles = np.tensordot(factors, np.stack(pictures), axes=1)
    return blended


def fit_weights(pictures: Sequence[npt.NDArray[Any]], target: npt.NDArray[Any]) -> Doubles:
    """Find the weights, none negative, whose blend is closest to a target over all pixels."""
    _check_shapes([target, *pictures])
    columns = np.stack([picture.ravel() for picture in pictures], axis=1).astype(np.float64)
    # The triangle of a QR decomposition has the same least squares with few rows.
    both = np.asarray(np.linalg.qr(np.column_stack([columns, target.ravel()]), mode="r"))
    weights: Doubles = nnls(both[:, :-1], both[:, -1])[0]
    return weights


def accuracy(picture: npt.NDArray[Any], target: npt.NDArray[Any]) -> Accuracy:
    """Score a blend against the picture deblurred with the kernel of the right size."""
    _check_shapes([picture, target])
    usable = np.abs(target) >= SMALLEST_TARGET
    if not usable.any():
        raise ImageError(
            f"every target pixel is smaller than {SMALLEST_TARGET}; the accuracy is undefined"
        )
    ratio = picture[usable] / target[usable]
    return Accuracy(float(1 - np.abs(1 - ratio).mean()), float(1 - usable.mean()))


def _check_shapes(pictures: Sequence[npt.NDArray[Any]]) -> None:
    shapes = {picture.shape for picture in pictures}
    if len(shapes) != 1:
        raise ImageError(f"the pictures must have one shape, got {sorted(shapes)}")
