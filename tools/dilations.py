"""Draw what each dilation attends to and does, on the sample scene, for the documentation.

    python tools/dilations.py [--model NAME]

Writes docs/images/dilations.png: the radius of the blur and every alpha of block 1; below, what
the result loses when all dilations, or one of them, are muted in every block.
"""

from __future__ import annotations

import argparse
from contextlib import closing
from pathlib import Path

import numpy as np

import napari_kpac as kpac
from napari_kpac.detection.files import coloured
from napari_kpac.evaluation.plots import Cell, sheet
from napari_kpac.images import write_image
from napari_kpac.widgets.samples import scene

TARGET = Path(__file__).parents[1] / "docs" / "images" / "dilations.png"
STRENGTH = 10
SIDE_PX = 240


def main() -> None:
    """Render with each dilation muted and write the image."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=TARGET)
    given = parser.parse_args()
    layers = {attributes["name"]: pixels for pixels, attributes, *_ in scene()}
    image, radius = layers["defocused scene"], layers["radius in pixels"]
    with closing(kpac.Session(image, given.model)) as session:
        dilations = session.config.dilations
        whole = session.render()
        ones = np.ones(len(dilations))
        cases = [("all five muted", 0 * ones)]
        cases += [
            (f"dilation {d} muted", ones - np.eye(len(ones))[i]) for i, d in enumerate(dilations)
        ]
        below: list[Cell] = []
        for label, gains in cases:
            muted = session.render(kpac.Modulation(gains=gains)).image
            lost = whole.image.astype(float) - muted
            size = np.sqrt(np.mean(lost**2))
            shown = np.clip(0.5 + STRENGTH * lost / 255, 0, 1)
            below.append((shown, f"{label}\nrms {size:.2f} of 255"))
            print(f"{label}: the result changes by {size:.2f} of 255 (rms)")
    above: list[Cell] = [
        (coloured(radius / radius.max()), f"radius of the blur\n0 to {radius.max():.1f} px")
    ]
    above += [
        (coloured(alpha), f"alpha_{i}, dilation {dilation}\nmean {alpha.mean():.2f}")
        for i, (alpha, dilation) in enumerate(
            zip(whole.alpha_at_image()[0], dilations, strict=True), start=1
        )
    ]
    title = f"Above: attention of block 1, dark 0, light 1. Below: what is lost, {STRENGTH} times"
    write_image(given.output, sheet(title, [above, below], side=SIDE_PX, whole=True))


if __name__ == "__main__":
    main()
