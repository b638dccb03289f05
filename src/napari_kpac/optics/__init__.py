"""Defocus without a network: PSFs, synthesis, inverse kernels, defocus maps, deconvolution.

Not for: the network and its weights, windows, or files of pairs (datasets).
"""

from napari_kpac.optics.aperture import (
    Aperture,
    find_aperture,
    halves,
    psf,
    random_aperture,
    random_lens,
)
from napari_kpac.optics.deconvolution import (
    TWO_STEP_SETTINGS,
    TwoStep,
    TwoStepOptions,
    deconvolve,
    restore_steps,
    two_step,
)
from napari_kpac.optics.ebdb import DefocusMap, defocus_map
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
from napari_kpac.optics.jnb import sparsity_map
from napari_kpac.optics.scene import radius_map
from napari_kpac.optics.synthesis import Defocused, defocus

__all__ = [
    "TWO_STEP_SETTINGS",
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
    "restore_steps",
    "sparsity_map",
    "two_step",
    "upsample",
    "wiener_inverse",
]
