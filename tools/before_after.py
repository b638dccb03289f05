"""Draw images before and after deblurring side by side, for the documentation.

    python tools/before_after.py [--model NAME]

Writes docs/images/before-after.png: parts of photographs with synthetic defocus of 1.5, 3 and 6
pixels, deblurred by the model, and sharp; below them a part of a photograph whose background is
blurred by the lens, deblurred, and the difference (grey: none). And
docs/images/before-after-strip.png: a part of a photograph with synthetic defocus of 3 pixels, as it
is, deblurred, and the sharp original.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from skimage import data
from skimage.metrics import peak_signal_noise_ratio

import napari_kpac as kpac
from napari_kpac.images import write_image

ImageArray = npt.NDArray[np.uint8]
TARGET = Path(__file__).parents[1] / "docs" / "images"
PARTS = (
    (data.coffee, 1.5, slice(150, 350), slice(300, 540)),
    (data.chelsea, 3.0, slice(60, 260), slice(60, 300)),
    (data.astronaut, 6.0, slice(0, 200), slice(110, 350)),
)
"""Photographs, radii of their synthetic defocus in pixels, and the part that is shown."""
REAL = (data.chelsea, slice(20, 220), slice(211, 451))
STRIP = (slice(64, 194), slice(150, 330))
RADIUS_PX = 3.0
GAP_PX = 4


def main() -> None:
    """Deblur and write both images."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=TARGET, help="folder")
    given = parser.parse_args()
    write_image(given.output / "before-after.png", photographs(given.model))
    write_image(given.output / "before-after-strip.png", strip(given.model))


def strip(model: str) -> ImageArray:
    """Show a defocused photograph, its result and the truth."""
    images = defocused(data.astronaut(), RADIUS_PX, model)
    return joined([image[STRIP].repeat(2, axis=0).repeat(2, axis=1) for image in images], 0)


def photographs(model: str) -> ImageArray:
    """Show parts of photographs with synthetic defocus, and of one that its lens blurred."""
    rows = []
    for photograph, radius, y, x in PARTS:
        images = defocused(photograph(), radius, model)
        rows.append(joined([image[y, x] for image in images], 1))
    photograph, y, x = REAL
    before = photograph()
    after = kpac.deblur(before, model=model).image
    change = np.clip(128 + after.astype(int) - before, 0, 255).astype(np.uint8)
    rows.append(joined([image[y, x] for image in (before, after, change)], 1))
    return joined(rows, 0)


def defocused(truth: ImageArray, radius: float, model: str) -> list[ImageArray]:
    """Return a photograph out of focus, deblurred, and as it is; print the PSNR of both."""
    blurred = kpac.defocus(truth, radius, seed=1).image
    result = kpac.deblur(blurred, model=model).image
    before, after = (peak_signal_noise_ratio(truth, image) for image in (blurred, result))
    print(f"{radius:g} px: {before:.2f} dB, deblurred {after:.2f} dB")
    return [blurred, result, truth]


def joined(panels: list[ImageArray], axis: int) -> ImageArray:
    """Join images below (axis 0) or beside (axis 1) each other, with gaps."""
    shape = list(panels[0].shape)
    shape[axis] = GAP_PX
    gap = np.full(shape, 255, np.uint8)
    return np.concatenate([part for panel in panels for part in (panel, gap)][:-1], axis)


if __name__ == "__main__":
    main()
