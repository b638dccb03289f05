"""PSNR, SSIM, MAE and LPIPS of a result against the truth. Loads torch for LPIPS alone.

Not for: which images are compared (study, benchmark).

The rules, for every measure: values are floats with black at 0 and white at 1; both images
are clipped to 0..1 and not rounded; they are grey (H, W) or colour (H, W, C), and all pixels
and channels count alike. A measure is taken per image; a table shows the mean over images.

The bins: a pixel belongs to the bin in which the magnitude of its radius lies, the lower edge
included. The squared errors of an image's pixels in a bin are pooled into one PSNR, their absolute
errors into one MAE, and the SSIM map is averaged over them. An image counts in a bin where it has
at least 1 % of its pixels; a table shows the mean over the images that count.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage.metrics import structural_similarity

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.units import MIN_BIN_SHARE, RADIUS_BINS, RadiusBin
from napari_kpac.evaluation.options import SSIM_PRESETS, SSIMPreset

SSIM_WINDOW_PX = 7

ImageArray = npt.NDArray[Any]
Doubles = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


def squared_error(result: ImageArray, truth: ImageArray) -> Doubles:
    """Return the squared error of every pixel (H, W), the mean over its channels."""
    a, b = _clipped(result, truth)
    return _per_pixel((a - b) ** 2)


def absolute_error(result: ImageArray, truth: ImageArray) -> Doubles:
    """Return the absolute error of every pixel (H, W), the mean over its channels."""
    a, b = _clipped(result, truth)
    return _per_pixel(np.abs(a - b))


def fitted(result: ImageArray, truth: ImageArray) -> Doubles:
    """Return an image after a least-squares fit of gain and offset of each channel to the truth.

    Images of a real pair can differ in exposure, which says nothing of their blur.
    """
    values, wanted = _checked(result, truth)
    mean = wanted.mean(axis=(0, 1))
    values, wanted = values - values.mean(axis=(0, 1)), wanted - mean
    spread = (values**2).sum(axis=(0, 1))
    gain = (values * wanted).sum(axis=(0, 1)) / np.where(spread > 0, spread, 1)
    moved: Doubles = gain * values + mean
    return moved


def decibels(mean_squared_error: float) -> float:
    """Return the PSNR that a mean squared error stands for; infinite where there is none."""
    return float("inf") if mean_squared_error == 0 else float(-10 * np.log10(mean_squared_error))


def psnr(result: ImageArray, truth: ImageArray, where: Mask | None = None) -> float:
    """Return the PSNR in dB with a peak of 1, over all pixels or those of a mask."""
    return decibels(_mean(squared_error(result, truth), where))


def mae(result: ImageArray, truth: ImageArray, where: Mask | None = None) -> float:
    """Return the mean absolute error, over all pixels or those of a mask."""
    return _mean(absolute_error(result, truth), where)


def ssim(
    result: ImageArray, truth: ImageArray, preset: SSIMPreset = "default", where: Mask | None = None
) -> float:
    """Return the structural similarity with a 7x7 uniform window, per channel, then the mean.

    Parameters
    ----------
    result, truth
        Two images of the same shape.
    preset
        ``default``: a data range of 1, as the values have it. ``paper``: a data range of 2,
        with which the paper's figures fit (it prints 0.812 for blurred input where others
        print 0.725). The two must not be compared with each other.
    where
        Mean over these pixels only. The outermost 3 pixels never count: their windows
        reach beyond the image.
    """
    inner = (slice(SSIM_WINDOW_PX // 2, -(SSIM_WINDOW_PX // 2)),) * 2
    return _mean(ssim_map(result, truth, preset)[inner], None if where is None else where[inner])


def ssim_map(result: ImageArray, truth: ImageArray, preset: SSIMPreset = "default") -> Doubles:
    """Return the structural similarity of every pixel (H, W), the mean over its channels."""
    if preset not in SSIM_PRESETS:
        choices = " or ".join(SSIM_PRESETS)
        raise ConfigError(f"no preset of SSIM is called {preset!r}; choose {choices}")
    a, b = _clipped(result, truth)
    if min(a.shape[:2]) < SSIM_WINDOW_PX:
        raise ImageError(
            f"SSIM needs images of at least {SSIM_WINDOW_PX} pixels, not {a.shape[:2]}"
        )
    _, full = structural_similarity(
        a,
        b,
        win_size=SSIM_WINDOW_PX,
        data_range=1.0 if preset == "default" else 2.0,
        channel_axis=None if a.ndim == 2 else -1,
        full=True,
    )
    return _per_pixel(full)


def _clipped(result: ImageArray, truth: ImageArray) -> tuple[Doubles, Doubles]:
    a, b = _checked(result, truth)
    return np.clip(a, 0, 1), np.clip(b, 0, 1)


def _checked(result: ImageArray, truth: ImageArray) -> tuple[Doubles, Doubles]:
    if result.shape != truth.shape or result.ndim not in (2, 3) or not result.size:
        raise ImageError(
            f"images of shapes {result.shape} and {truth.shape} cannot be compared; both must"
            " be grey (H, W) or colour (H, W, C) and of one size"
        )
    for image in (result, truth):
        if image.dtype.kind not in "fiub" or not np.isfinite(image).all():
            raise ImageError(
                f"an image of {image.dtype} that is no numbers, or NaN or infinite somewhere,"
                " cannot be compared"
            )
    return result.astype(np.float64), truth.astype(np.float64)


def _per_pixel(values: Doubles) -> Doubles:
    return values if values.ndim == 2 else values.mean(axis=2)


def _mean(values: Doubles, where: Mask | None) -> float:
    return float(values.mean() if where is None else values[where].mean())


BINS = RADIUS_BINS
GAIN_BINS = BINS[1:4]
"""The bins of the mean gain: 1 to 8 px."""
MEASURES = ("psnr", "ssim", "mae")


def column(measure: str, where: RadiusBin) -> str:
    """Return the name of the column of a measure in a bin."""
    return f"{measure} {where.label} px"


def bin_columns() -> list[str]:
    """Return the names of all columns that :func:`bin_scores` may fill."""
    return [column(measure, where) for measure in MEASURES for where in BINS]


def inside(radius: npt.NDArray[np.float32], low: float, high: float) -> Mask | None:
    """Return a mask of the pixels with ``low <= |r| < high``; None where they are too few.

    The last bin holds its upper edge as well.
    """
    size = np.abs(radius)
    mask: Mask = (size >= low) & ((size < high) | ((size == high) & (high == BINS[-1].high)))
    return mask if mask.mean() >= MIN_BIN_SHARE else None


def bin_scores(
    result: ImageArray,
    truth: ImageArray,
    radius: npt.NDArray[np.float32],
    preset: SSIMPreset = "default",
) -> dict[str, float]:
    """Return PSNR, SSIM and MAE in every bin in which the image has enough pixels."""
    squared = squared_error(result, truth)
    absolute = absolute_error(result, truth)
    similar = ssim_map(result, truth, preset)
    scores = {}
    for where in BINS:
        mask = inside(radius, where.low, where.high)
        if mask is not None:
            scores[column("psnr", where)] = decibels(float(squared[mask].mean()))
            scores[column("ssim", where)] = float(similar[mask].mean())
            scores[column("mae", where)] = float(absolute[mask].mean())
    return scores


LPIPS_WEIGHTS = "alexnet-owt-7be5be79.pth"
"""File of AlexNet's weights in torch's hub cache."""


def why_no_lpips() -> str:
    """Return why LPIPS cannot be measured here; empty where it can."""
    if find_spec("lpips") is None:
        return "not measured: install napari-kpac[metrics]"
    from torch import hub

    weights = Path(hub.get_dir()) / "checkpoints" / LPIPS_WEIGHTS
    return "" if weights.exists() else f"not measured: put AlexNet's weights at {weights}"


def lpips_measure() -> Callable[[ImageArray, ImageArray], float]:
    """Return the measure: LPIPS on AlexNet, images clipped to 0..1 and given as -1..1."""
    import lpips  # type: ignore[import-not-found]
    import torch

    network = lpips.LPIPS(net="alex", verbose=False).eval()

    def tensor(image: ImageArray) -> torch.Tensor:
        values = np.clip(np.asarray(image, np.float32), 0, 1) * 2 - 1
        return torch.from_numpy(values).permute(2, 0, 1)[None].contiguous()

    def measure(result: ImageArray, truth: ImageArray) -> float:
        with torch.no_grad():
            return float(network(tensor(result), tensor(truth)))

    return measure
