"""The paper's figures on inverse kernels, made again on images that come with scikit-image.

Not for: the kernels themselves (optics).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from skimage import data

from napari_kpac.evaluation import paper
from napari_kpac.evaluation.plots import RGBImage, rasterise, sheet
from napari_kpac.optics import (
    Aperture,
    accuracy,
    apply_kernel,
    blend,
    compare_inverses,
    dilate,
    fit_weights,
    inverse_kernels,
    psf,
    upsample,
    wiener_inverse,
)
from napari_kpac.optics.inverse import TOLERANCE, decibels

BASE_RADIUS_PX = 2.0
"""Of the kernels that are enlarged: a disc of two pixels, a Gaussian of sigma 1."""

KINDS = ("upsampled", "dilated")
"""Of inverse kernels."""

Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Figure:
    """A figure."""

    name: str
    image: RGBImage
    numbers: Any
    """What is in it, as plain values: the paper's figures beside ours, where it prints any."""


def inverse_kernel_figures(epsilon: float = 0.01) -> Iterator[Figure]:
    """Make the paper's five figures on inverse kernels, one after the other.

    Parameters
    ----------
    epsilon
        Noise-to-signal ratio of the Wiener inverse; the paper does not state its own.
    """
    kernels = {
        "disc": psf(Aperture("disc"), BASE_RADIUS_PX),
        "gaussian": psf(Aperture("gaussian"), BASE_RADIUS_PX),
    }
    disc = kernels["disc"]
    inverse = wiener_inverse(disc, epsilon, tolerance=TOLERANCE)
    yield _kernel_example(kernels, epsilon)
    yield _deblur_example(disc, inverse)
    yield _dilated_kernels(kernels, epsilon)
    yield _scale_triples(disc, inverse)
    yield _gaussian_upsampling()


def _kernel_example(kernels: dict[str, Doubles], epsilon: float) -> Figure:
    """Show both sides of Eq. 4: the inverse of the enlarged kernel, the enlarged inverse."""
    scale, sharp = 5, _image("camera")
    rows, numbers = [], []
    for name, kernel in kernels.items():
        blurred = apply_kernel(sharp, upsample(kernel, scale))
        both = compare_inverses(blurred, inverse_kernels(kernel, scale, epsilon))
        direct, upsampled = decibels(sharp, both.by_direct), decibels(sharp, both.by_upsampled)
        between = both.direct_to_upsampled
        numbers.append(
            {
                "kernel": name,
                "scale": scale,
                "psnr_direct": direct,
                "psnr_upsampled": upsampled,
                "psnr_between": between,
                "paper": paper.KERNEL_EXAMPLE,
            }
        )
        after = f"{upsampled:.2f} dB, to (b) {between:.1f}"
        rows.append(
            [
                (sharp, f"sharp\nk: {name}"),
                (blurred, f"(a) blurred by k up {scale}\n{decibels(sharp, blurred):.2f} dB"),
                (both.by_direct, f"(b) inverse of k up {scale}\n{direct:.2f} dB"),
                (both.by_upsampled, f"(c) inverse, then up {scale}\n{after}"),
            ]
        )
    title = "Eq. 4: inverting an enlarged kernel, and enlarging an inverse"
    return Figure("kernel_example", sheet(title, rows), numbers)


def _deblur_example(kernel: Doubles, inverse: Doubles) -> Figure:
    """Blend what kernels of scale 3 and 4 make of a blur of scale 3.5."""
    triple = _Triple(_image("camera"), kernel, inverse, (3, 3.5, 4))
    numbers = {**triple.numbers("upsampled"), "paper": paper.DEBLUR_EXAMPLE}
    low, high = triple.deblurred["upsampled"]
    equal, fitted = (triple.blended("upsampled", how) for how in ("equal", "nnls"))
    cells = [
        (triple.blurred, "(a) blurred\nscale 3.5"),
        (low, "(b) deblurred\nscale 3"),
        (high, "(c) deblurred\nscale 4"),
        (equal, f"(d) 0.5 (b) + 0.5 (c)\naccuracy {numbers['equal']:.2%}"),
        (fitted, f"(d') by least squares\naccuracy {numbers['nnls']:.2%}"),
        (triple.target, "(e) deblurred\nscale 3.5"),
    ]
    return Figure("deblur_example", sheet("Eq. 5: a scale between two others", [cells]), [numbers])


def _dilated_kernels(kernels: dict[str, Doubles], epsilon: float) -> Figure:
    """Show that a dilated inverse does what an enlarged one does."""
    rows, numbers = [], []
    for (name, kernel), image in zip(kernels.items(), ("chelsea", "coffee"), strict=True):
        sharp = _image(image)
        for scale in (3, 4, 5):
            blurred = apply_kernel(sharp, upsample(kernel, scale))
            both = compare_inverses(blurred, inverse_kernels(kernel, scale, epsilon))
            upsampled, dilated = (
                decibels(sharp, made) for made in (both.by_upsampled, both.by_dilated)
            )
            between = both.upsampled_to_dilated
            numbers.append(
                {
                    "kernel": name,
                    "image": image,
                    "scale": scale,
                    "psnr_blurred": decibels(sharp, blurred),
                    "psnr_upsampled": upsampled,
                    "psnr_dilated": dilated,
                    "psnr_between": between,
                    "paper": paper.DILATED_KERNELS,
                }
            )
            reach = 6 * scale
            rows.append(
                [
                    (blurred, f"(a) blurred, {name}\nscale {scale}"),
                    (sharp, "(b) sharp"),
                    (kernel_image(both.kernels.upsampled, reach), f"(c) inverse up {scale}"),
                    (both.by_upsampled, f"(d) by (c)\n{upsampled:.2f} dB"),
                    (kernel_image(both.kernels.dilated, reach), f"(e) inverse dilated {scale}"),
                    (both.by_dilated, f"(f) by (e)\n{dilated:.2f} dB, to (d) {between:.1f}"),
                ]
            )
    title = "Enlarged and dilated inverse kernels (kernels: grey is zero, root scale)"
    return Figure("dilated_kernels", sheet(title, rows), numbers)


def _scale_triples(kernel: Doubles, inverse: Doubles) -> Figure:
    """Blend with enlarged and with dilated kernels, for the supplement's five triples."""
    rows, numbers = [], []
    images = ("camera", "coffee", "chelsea", "astronaut", "rocket")
    for (scales, *printed), image in zip(paper.SCALE_TRIPLES, images, strict=True):
        triple = _Triple(_image(image), kernel, inverse, scales)
        ours = {kind: triple.numbers(kind) for kind in KINDS}
        theirs = dict(zip(KINDS, printed, strict=True))
        numbers.append({"scales": scales, "image": image, **ours, "paper": theirs})
        low, high = triple.deblurred["upsampled"]
        upsampled, dilated = (
            (triple.blended(kind, "nnls"), f"{kind}\naccuracy {ours[kind]['nnls']:.2%}")
            for kind in KINDS
        )
        rows.append(
            [
                (triple.blurred, f"(a) blurred\nscale {scales[1]}"),
                (low, f"(b) deblurred\nscale {scales[0]}"),
                (high, f"(c) deblurred\nscale {scales[2]}"),
                (upsampled[0], f"(d) blended, {upsampled[1]}"),
                (dilated[0], f"(e) blended, {dilated[1]}"),
                (triple.target, f"(f) deblurred\nscale {scales[1]}"),
            ]
        )
    title = "Eq. 5 with enlarged and with dilated inverse kernels, weights by least squares"
    return Figure("scale_triples", sheet(title, rows), numbers)


class _Triple:
    """A blur of one scale, deblurred with kernels of a smaller and a larger one."""

    def __init__(
        self, sharp: Doubles, kernel: Doubles, inverse: Doubles, scales: tuple[float, float, float]
    ) -> None:
        low, between, high = scales
        self.blurred = apply_kernel(sharp, upsample(kernel, between))
        self.target = apply_kernel(self.blurred, upsample(inverse, between))
        self.deblurred = {
            "upsampled": [apply_kernel(self.blurred, upsample(inverse, s)) for s in (low, high)],
            "dilated": [apply_kernel(self.blurred, dilate(inverse, int(s))) for s in (low, high)],
        }
        self.weights = {
            kind: fit_weights(images, self.target) for kind, images in self.deblurred.items()
        }

    def blended(self, kind: str, how: str) -> Doubles:
        """Return the blend with equal or with fitted (nnls) weights."""
        return blend(self.deblurred[kind], (0.5, 0.5) if how == "equal" else self.weights[kind])

    def numbers(self, kind: str) -> dict[str, Any]:
        """Return the accuracy with equal and with fitted weights."""
        equal = accuracy(self.blended(kind, "equal"), self.target)
        return {
            "equal": equal.value,
            "nnls": accuracy(self.blended(kind, "nnls"), self.target).value,
            "weights": [float(weight) for weight in self.weights[kind]],
            "left_out": equal.left_out,
        }


def _gaussian_upsampling() -> Figure:
    """Compare an enlarged Gaussian with a Gaussian of three times the width.

    Both are sampled at the middle of each pixel. A point spread function is averaged over
    the pixel, which widens the small one by more than the large one.
    """
    from matplotlib.figure import Figure as PlotFigure

    scale = 3
    kernel, wide = _sampled_gaussian(1), _sampled_gaussian(scale)
    enlarged = upsample(kernel, scale)
    middle = {
        "k": kernel[kernel.shape[0] // 2],
        "up": enlarged[enlarged.shape[0] // 2],
        "wide": wide[wide.shape[0] // 2],
    }
    places = {name: np.arange(len(line)) - len(line) // 2 for name, line in middle.items()}
    common = np.intersect1d(places["up"], places["wide"])
    lines = [middle[name][np.isin(places[name], common)] for name in ("up", "wide")]
    worst = float(np.abs(lines[0] - lines[1]).max() / middle["wide"].max())
    shown = np.abs(places["up"]) <= 12
    drawing = PlotFigure(figsize=(9, 5.6), layout="constrained")
    axes = drawing.subplots()
    axes.plot(places["k"], middle["k"] / scale**2, color="0.5", label="k / 9, sigma 1")
    axes.plot(places["up"][shown], middle["up"][shown], label="k up 3, divided by 9")
    axes.plot(places["wide"], middle["wide"], "o", color="tab:red", label="k', sigma 3")
    axes.set(xlabel="pixels from the middle", ylabel="weight")
    axes.set_title(
        f"A Gaussian enlarged {scale} times, and one of {scale} times the width:\n"
        f"they differ by {worst:.1%} of the peak at most"
    )
    axes.grid(alpha=0.5)
    axes.legend()
    numbers = [{"scale": scale, "largest_difference_share_of_peak": worst, "paper": paper.GAUSSIAN}]
    return Figure("gaussian_upsampling", rasterise(drawing), numbers)


def kernel_image(kernel: Doubles, reach: int) -> Doubles:
    """Show the middle of a kernel: grey is zero, white and black its largest magnitude.

    The scale is that of square roots, so that small weights can be seen.
    """
    half = kernel.shape[0] // 2
    reach = min(reach, half)
    middle = kernel[half - reach : half + reach + 1, half - reach : half + reach + 1]
    strength: Doubles = np.sqrt(np.abs(middle) / np.abs(middle).max())
    shown: Doubles = 0.5 + 0.5 * np.sign(middle) * strength
    return shown


def _sampled_gaussian(sigma: int) -> Doubles:
    line = np.exp(-0.5 * (np.arange(-4 * sigma, 4 * sigma + 1) / sigma) ** 2)
    kernel: Doubles = np.outer(line, line) / line.sum() ** 2
    return kernel


def _image(name: str) -> Doubles:
    """Return an image of scikit-image that needs no download, as floats in 0..1."""
    pixels: Doubles = getattr(data, name)() / 255.0
    return pixels
