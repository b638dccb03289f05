"""Draw images before and after deblurring side by side, for the documentation.

    python tools/before_after.py [--model NAME]

Writes docs/images/before-after.png: for each of some real photographs a part of it as it is,
deblurred by the model, and the difference (grey: none; five times as strong as it is). And
docs/images/before-after-strip.png: a part of a photograph with synthetic defocus of 3 pixels, as
it is, deblurred, and the sharp original.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from skimage import data

import napari_kpac as kpac
from napari_kpac.images import write_image

ImageArray = npt.NDArray[np.uint8]
TARGET = Path(__file__).parents[1] / "docs" / "images"
PARTS = (
    (data.chelsea, slice(60, 260), slice(60, 300)),
    (data.chelsea, slice(20, 220), slice(180, 420)),
    (data.coffee, slice(150, 350), slice(40, 280)),
    (data.coffee, slice(20, 220), slice(300, 540)),
)
STRIP = (slice(64, 194), slice(150, 330))
RADIUS_PX = 3.0
STRENGTH = 5
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
    truth = data.astronaut()
    blurred = kpac.defocus(truth, RADIUS_PX, seed=1).image
    images = (blurred, kpac.deblur(blurred, model=model).image, truth)
    return joined([image[STRIP].repeat(2, axis=0).repeat(2, axis=1) for image in images], 0)


def photographs(model: str) -> ImageArray:
    """Show parts of real photographs, their results and the differences."""
    rows = []
    for photograph, y, x in PARTS:
        before = photograph()
        after = kpac.deblur(before, model=model).image
        change = after.astype(int) - before
        shown = np.clip(128 + STRENGTH * change, 0, 255).astype(np.uint8)
        panels = [image[y, x] for image in (before, after, shown)]
        rows.append(joined(panels, 1))
        print(
            f"{photograph.__name__}: mean colour changes by {np.abs(change.mean((0, 1))).max():.2f}"
            f" grey levels at most"
        )
    return joined(rows, 0)


def joined(panels: list[ImageArray], axis: int) -> ImageArray:
    """Join images below (axis 0) or beside (axis 1) each other, with gaps."""
    shape = list(panels[0].shape)
    shape[axis] = GAP_PX
    gap = np.full(shape, 255, np.uint8)
    return np.concatenate([part for panel in panels for part in (panel, gap)][:-1], axis)


if __name__ == "__main__":
    main()
