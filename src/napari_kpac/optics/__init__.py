"""Defocus without a network: PSFs, synthesis, inverse kernels, defocus maps, deconvolution.

Not for: the network and its weights, windows, or files of pairs (datasets).
"""

from napari_kpac.optics.aperture import Aperture, find_aperture, random_aperture, random_lens
from napari_kpac.optics.classical import TwoStep, TwoStepOptions, two_step, two_step_steps
from napari_kpac.optics.defocusing import Defocused, defocus
from napari_kpac.optics.ebdb import DefocusMap, defocus_map
from napari_kpac.optics.hyper_laplacian import deconvolve
from napari_kpac.optics.inverse import (
    Accuracy,
    InverseComparison,
    InverseKernels,
    accuracy,
    apply_kernel,
    blend,
    compare_inverses,
    dilate,
    fit_weights,
    inverse_kernels,
    inverse_on_grid,
    upsample,
    wiener_inverse,
)
from napari_kpac.optics.kernels import halves, psf
from napari_kpac.optics.scene import radius_map

__all__ = [
    "Accuracy",
    "Aperture",
    "DefocusMap",
    "Defocused",
    "InverseComparison",
    "InverseKernels",
    "TwoStep",
    "TwoStepOptions",
    "accuracy",
    "apply_kernel",
    "blend",
    "compare_inverses",
    "deconvolve",
    "defocus",
    "defocus_map",
    "dilate",
    "find_aperture",
    "fit_weights",
    "halves",
    "inverse_kernels",
    "inverse_on_grid",
    "psf",
    "radius_map",
    "random_aperture",
    "random_lens",
    "two_step",
    "two_step_steps",
    "upsample",
    "wiener_inverse",
]
