"""The figures that the paper prints, as data; always shown as the paper's, on its own data.

Not for: anything that was measured here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PaperRow:
    """One row of one of the paper's tables; None where the paper prints nothing."""

    label: str
    psnr: float | None = None
    ssim: float | None = None
    lpips: float | None = None
    parameters: float | None = None
    """In millions."""
    flops: float | None = None
    """In billions, for an image of 1280x720."""
    seconds: float | None = None
    """On the authors' GPU, for an image of 1280x720."""


WEIGHT_SHARING = (
    PaperRow("without weight sharing", psnr=24.78, parameters=2.50),
    PaperRow("with weight sharing", psnr=25.21, parameters=1.58),
)

ABLATION = (
    PaperRow("residual baseline", psnr=24.59, parameters=2.26),
    PaperRow("ACs", psnr=24.74, parameters=1.33),
    PaperRow("ACs + shape", psnr=24.98, parameters=1.33),
    PaperRow("ACs + scale", psnr=25.03, parameters=1.58),
    PaperRow("ACs + scale + shape", psnr=25.21, parameters=1.58),
)

NUMBER_OF_BLOCKS = (
    PaperRow("1 block", psnr=24.82, ssim=0.836, parameters=1.05),
    PaperRow("2 blocks", psnr=25.21, ssim=0.842, parameters=1.58),
    PaperRow("3 blocks", psnr=25.25, ssim=0.842, parameters=2.11),
    PaperRow("4 blocks", psnr=25.14, ssim=0.841, parameters=2.64),
)

COMPARISON = (
    PaperRow("DPDNet (single)", 24.42, 0.827, 0.277, 32.25, flops=1980, seconds=0.17),
    PaperRow("DPDNet (dual)", 25.12, 0.850, 0.223, 32.25, flops=1983, seconds=0.17),
    PaperRow("KPAC (2-level)", 25.24, 0.845, 0.229, 1.58, flops=358, seconds=0.09),
    PaperRow("KPAC (3-level)", 25.24, 0.842, 0.225, 2.06, flops=197, seconds=0.07),
    PaperRow("KPAC (dual)", 25.86, 0.859, 0.185, 2.06),
)

BLURRED_INPUT = PaperRow("blurred input", 23.92, 0.812)

TWO_STEP = (
    PaperRow("JNB", 23.70, 0.799, 0.442),
    PaperRow("EBDB", 23.96, 0.819, 0.402),
    PaperRow("DMENet", 23.92, 0.808, 0.410, 26.94),
)

QUALITY = (BLURRED_INPUT, *TWO_STEP, *COMPARISON)
"""Every row that the paper prints for the test set of DPDD, its SSIM on the scale `paper`."""

NOISE = {
    "without noise augmentation": {1.0: 25.13, 3.0: 24.76, 5.0: 24.23},
    "with noise augmentation": {1.0: 25.06, 3.0: 25.01, 5.0: 24.85},
}
"""PSNR by the noise's sigma in percent."""

ALPHA_1 = "alpha_1 of block 1, enlarged 4 times"
DETECTION = {
    ALPHA_1: {"F-measure": 0.832, "accuracy": 0.784},
    "EBDB": {"F-measure": 0.839, "accuracy": 0.765},
}
"""On 200 images of CUHK; how the paper defines its F-measure it does not say."""

KERNEL_EXAMPLE = {"psnr_direct": 21.64, "psnr_upsampled": 21.59, "psnr_between": 51.09}
DEBLUR_EXAMPLE = {"equal": 0.874, "nnls": 0.925}
DILATED_KERNELS = {"psnr_between": "over 40 dB in every row"}
GAUSSIAN = "the two are said to be the same"

SCALE_TRIPLES = (
    ((3.0, 3.4, 4.0), 0.9868, 0.9855),
    ((3.0, 3.5, 4.0), 0.9784, 0.9787),
    ((3.0, 3.6, 4.0), 0.9896, 0.9910),
    ((2.0, 2.6, 3.0), 0.9537, 0.9612),
    ((1.0, 1.7, 2.0), 0.9703, 0.9764),
)
"""Scales, and accuracies of the blends with upsampled and with dilated kernels."""
