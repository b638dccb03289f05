"""Estimate the blur of an image by sparse coding (JNB; Shi, Xu and Jia, 2015).

A patch is written as a sum of atoms of a dictionary that was learned from blurred patches: the
more of them it takes, the sharper it is. Not for: learning the dictionary
(tools/jnb_dictionary.py), or removing the blur (deconvolution).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import safe_open
from scipy.ndimage import binary_erosion, gaussian_filter
from skimage.morphology import disk

from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.optics.edge_aware import average_along, bilateral
from napari_kpac.optics.pixels import Doubles, Floats, luma, to_unit

Counts = npt.NDArray[np.uint8]

DICTIONARY = Path(__file__).parent / "data" / "jnb-dictionary.safetensors"
PATCH_PX = 8
MAX_ERROR = 8 * 2 * 1.15
"""Of a coded patch, as the root of the sum of squares in grey levels of 0..255."""
MAX_ATOMS = 64
MIN_LEFT = 1e-14
"""Of the square of an atom's length outside of those in use; below it is rounding alone."""
MIN_COUNT = 3
"""Patches that take no more atoms than this say nothing by themselves."""
EROSION_PX = 2
GUIDE_SIGMA_PX = 1.0
SPREAD_PX, SPREAD_RANGE = 15.0, 0.15
"""How far counts spread, in pixels and in steps of the image in 0..1."""
BILATERAL_PX, BILATERAL_RANGE = 5.0, 0.1
SIGMA_SCALE_PX = 4.0
"""Sigma that counts as 1 in the last filter, as in the two-step evaluations of the literature."""
MIN_SUPPORT = 1e-3
"""Share of pixels with a count around a pixel below which nothing is known there."""
STRIP_ROWS = 32
"""Rows that a thread codes at a time, and progress is told after."""


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Atoms that patches are coded with, and how counts become blur."""

    atoms: Floats
    """(pixels of a patch, atoms): the columns have a mean of 0 and a length of 1."""
    counts: Floats
    """Knots of the calibration: atoms per patch, growing."""
    sigmas: Floats
    """Sigma in pixels at these knots."""

    def sigma(self, count: Floats) -> Floats:
        """Return the blur in pixels of sigma for a map of counts."""
        sigma: Floats = np.interp(count, self.counts, self.sigmas).astype(np.float32)
        return sigma


@lru_cache(maxsize=1)
def load_dictionary(path: Path = DICTIONARY) -> Dictionary:
    """Return the dictionary that comes with the package."""
    with safe_open(path, framework="numpy") as file:
        return Dictionary(*(file.get_tensor(name) for name in ("atoms", "counts", "sigmas")))


def sparsity_map(image: npt.ArrayLike) -> Floats:
    """Estimate how strongly each pixel of an image is blurred, by sparse coding.

    Parameters
    ----------
    image
        Grey (H, W) or sRGB (H, W, 3); uint8, uint16, or floats in 0..1.

    Returns
    -------
    numpy.ndarray
        (H, W): sigma in pixels. All zero for an image in which no patch needs an atom; elsewhere
        what is far from all detail counts as blurred, since this method cannot tell it from blur.
    """
    return finish(sparsity_map_steps(image))


def sparsity_map_steps(image: npt.ArrayLike) -> Steps[Floats]:
    """Estimate as `sparsity_map` does, yielding after every few rows."""
    pixels = to_unit(image)
    grey = luma(pixels)
    dictionary = load_dictionary()
    counts = yield from count_atoms_steps(255 * grey, dictionary.atoms)
    if not counts.any():
        return np.zeros(grey.shape, np.float32)
    blur = dictionary.sigma(dense_counts(counts, grey)) / np.float32(SIGMA_SCALE_PX)
    return SIGMA_SCALE_PX * bilateral(blur, space=BILATERAL_PX, range_=BILATERAL_RANGE)


def dense_counts(counts: Counts, grey: Floats) -> Floats:
    """Spread the counts of patches with detail over the image, up to its edges.

    ``counts`` has the shape of the image; what is far from all detail gets 0.
    """
    known = counts > MIN_COUNT
    mask = binary_erosion(known, disk(EROSION_PX), border_value=1).astype(np.float32)
    spread = average_along(
        np.stack([counts * mask, mask], axis=2),
        gaussian_filter(grey, GUIDE_SIGMA_PX),
        space=SPREAD_PX,
        range_=SPREAD_RANGE,
    )
    dense = spread[:, :, 0] / np.maximum(spread[:, :, 1], MIN_SUPPORT)
    return np.asarray(dense, np.float32)


def count_atoms_steps(grey: Floats, atoms: Floats) -> Steps[Counts]:
    """Count the atoms that the patch around every pixel needs, yielding after every few rows.

    Orthogonal matching pursuit: the atom that fits best is added, all coefficients are fitted
    anew, until the error is small.

    Parameters
    ----------
    grey
        (H, W) in grey levels of 0..255.
    atoms
        (pixels of a patch, atoms), of length 1.

    Returns
    -------
    numpy.ndarray
        (H, W): at the border, the count of the nearest patch that lies in the image.
    """
    short = [max(PATCH_PX - side, 0) for side in grey.shape]
    padded = np.pad(grey, [(0, few) for few in short], mode="symmetric")
    padded = np.ascontiguousarray(padded, np.float32)
    rows, columns = (side - PATCH_PX + 1 for side in padded.shape)
    counts = np.zeros((rows, columns), np.uint8)
    exact = atoms.astype(np.float64)
    exact = np.ascontiguousarray(exact - exact.mean(axis=0))  # what single precision left of it
    gram = np.ascontiguousarray(exact.T @ exact)
    code = _compiled()

    def strip(first: int) -> None:
        last = min(first + STRIP_ROWS, rows)
        code(padded, exact, gram, MAX_ERROR**2, first, last, counts)

    starts = range(0, rows, STRIP_ROWS)
    with ThreadPoolExecutor(os.cpu_count(), "napari-kpac-jnb") as pool:
        try:
            for done, _ in enumerate(pool.map(strip, starts), start=1):
                yield Progress(done, len(starts) + 1, "estimating")
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    before = (PATCH_PX - 1) // 2
    after = PATCH_PX - 1 - before
    return np.pad(counts, (before, after), mode="edge")[: grey.shape[0], : grey.shape[1]]


def _code_rows(
    grey: Floats,
    atoms: Doubles,
    gram: Doubles,
    max_square: float,
    first: int,
    last: int,
    counts: Counts,
) -> None:
    """Count the atoms of the patches whose first row lies in ``first`` to ``last``.

    In place of coefficients, the residual's products with all atoms are kept: each new atom,
    made orthogonal to those before it, takes its share away from all of them. ``taken[i]`` are
    the products of all atoms with the i-th of these, which is a row of the Cholesky factor of the
    Gram matrix of the atoms in use, continued over all atoms. Atoms of blurred patches are alike,
    and after 50 of them the next one is new in its seventh digit: this needs double precision.
    """
    size, number = atoms.shape
    side = PATCH_PX
    patch = np.empty(size, np.float64)
    product = np.empty(number, np.float64)
    taken = np.empty((MAX_ATOMS, number), np.float64)
    for row in range(first, last):
        for column in range(counts.shape[1]):
            mean = 0.0
            for y in range(side):
                for x in range(side):
                    value = grey[row + y, column + x]
                    patch[side * y + x] = value
                    mean += value
            mean /= size
            square = 0.0
            for i in range(size):
                patch[i] -= mean
                square += patch[i] * patch[i]
            if square > max_square:
                product[:] = 0
                for i in range(size):
                    for j in range(number):
                        product[j] += patch[i] * atoms[i, j]
            used = 0
            while square > max_square and used < MAX_ATOMS:
                best = 0
                for j in range(number):
                    if abs(product[j]) > abs(product[best]):
                        best = j
                own = taken[used]
                left = gram[best, best]
                for j in range(number):
                    own[j] = gram[best, j]
                for i in range(used):
                    share = taken[i, best]
                    left -= share * share
                    for j in range(number):
                        own[j] -= share * taken[i, j]
                if left < MIN_LEFT:  # in the span of those in use: nothing fits better
                    break
                scale = 1 / np.sqrt(left)
                coefficient = product[best] * scale
                for j in range(number):
                    own[j] *= scale
                    product[j] -= coefficient * own[j]
                square -= coefficient * coefficient
                used += 1
            counts[row, column] = used


@lru_cache(maxsize=1)
def _compiled() -> Callable[..., None]:
    """Compile the coder, which takes about a second; Python's lock is free while it runs."""
    import numba

    compiled: Any = numba.njit(_code_rows, nogil=True, fastmath=True)
    return compiled  # type: ignore[no-any-return]
