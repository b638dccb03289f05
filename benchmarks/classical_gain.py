"""Measure the gain of classical deblurring where the truth is known, on scikit-image's images.

    python benchmarks/classical_gain.py

Prints the error of the defocus map at step edges, the gain of deconvolution with the true
kernel, and the gain of the two-step method with the true and with the estimated map.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.ndimage import gaussian_filter
from skimage import data
from skimage.metrics import peak_signal_noise_ratio

from napari_kpac.optics import (
    Aperture,
    deconvolve,
    defocus,
    defocus_map,
    psf,
    radius_map,
    two_step,
)
from napari_kpac.optics.pixels import to_linear, to_srgb


def psnr(first: np.ndarray, second: np.ndarray) -> float:
    return float(peak_signal_noise_ratio(first, second, data_range=255))


def step_edges() -> None:
    print("Defocus map at 8-bit step edges, blurred in linear light: median error")
    for sigma in (1.0, 1.5, 2.0, 3.0, 4.0):
        errors = []
        for angle in (0, 30, 60, 90, 135):
            y, x = np.mgrid[:160, :160] - 79.5
            side = np.cos(np.deg2rad(angle)) * x + np.sin(np.deg2rad(angle)) * y > 0
            light = np.where(side, to_linear(np.array(0.8)), to_linear(np.array(0.2)))
            image = to_srgb(gaussian_filter(light, sigma, mode="nearest"))
            found = defocus_map(np.rint(image * 255).astype(np.uint8))
            errors.append(np.abs(found.at_edges[found.edges] / sigma - 1))
        print(f"  sigma {sigma:3.1f}: {np.median(np.concatenate(errors)):6.1%}")


def uniform(names: list[str]) -> None:
    print("\nDeconvolution with the true kernel, gain in dB over the blurred image")
    for name in names:
        sharp = getattr(data, name)()
        for kind in ("disc", "gaussian"):
            gains = []
            for radius in (3.0, 6.0):
                blurred = defocus(sharp, radius, kind).image
                light = deconvolve(to_linear(blurred / 255), psf(Aperture(kind), radius))
                restored = to_srgb(np.clip(light, 0, 1)) * 255
                gain = psnr(sharp, restored) - psnr(sharp, blurred)
                gains.append(f"radius {radius:g}: {gain:+.2f}")
            print(f"  {name:10s} {kind:9s} {'  '.join(gains)}")


def scenes(names: list[str]) -> None:
    print("\nTwo-step method on scenes with a Gaussian aperture, gain in dB")
    print(f"  {'image':10s} {'scene':8s} {'blurred':>8s} {'true map':>9s} {'estimated':>10s}")
    for name in names:
        sharp = getattr(data, name)()[:300, :400]
        for kind in ("tilted", "smooth", "objects"):
            radius = radius_map(sharp.shape[:2], 3, kind=kind, largest=6)
            made = defocus(sharp, radius, "gaussian")
            before = psnr(sharp, made.image)
            known = two_step(made.image, sigma=np.abs(made.radius) / 2).image
            guessed = two_step(made.image).image
            print(
                f"  {name:10s} {kind:8s} {before:8.2f} {psnr(sharp, known) - before:+9.2f}"
                f" {psnr(sharp, guessed) - before:+10.2f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="*", default=["astronaut", "chelsea", "coffee"])
    given = parser.parse_args()
    step_edges()
    uniform(given.images)
    scenes(given.images)


if __name__ == "__main__":
    main()
