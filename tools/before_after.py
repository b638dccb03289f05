"""Put real photographs before and after deblurring side by side, for the documentation.

    python tools/before_after.py [--model NAME]

Writes docs/images/before-after.png: for each photograph a part of it as it is, deblurred by the
model, and the difference (grey: none; five times as strong as it is).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from skimage import data

import napari_kpac as kpac
from napari_kpac.pictures import write_image

TARGET = Path(__file__).parents[1] / "docs" / "images" / "before-after.png"
PARTS = (
    (data.chelsea, slice(60, 260), slice(60, 300)),
    (data.chelsea, slice(20, 220), slice(180, 420)),
    (data.coffee, slice(150, 350), slice(40, 280)),
    (data.coffee, slice(20, 220), slice(300, 540)),
)
STRENGTH = 5
GAP = 4


def main() -> None:
    """Deblur and put together."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, default=TARGET)
    given = parser.parse_args()
    rows = []
    for photograph, y, x in PARTS:
        before = photograph()
        after = kpac.deblur(before, model=given.model).image
        change = after.astype(int) - before
        shown = np.clip(128 + STRENGTH * change, 0, 255).astype(np.uint8)
        panels = [picture[y, x] for picture in (before, after, shown)]
        gap = np.full((panels[0].shape[0], GAP, 3), 255, np.uint8)
        rows.append(np.concatenate([panels[0], gap, panels[1], gap, panels[2]], axis=1))
        print(
            f"{photograph.__name__}: mean colour changes by {np.abs(change.mean((0, 1))).max():.2f}"
            f" grey levels at most"
        )
    gap = np.full((GAP, rows[0].shape[1], 3), 255, np.uint8)
    stacked = [part for row in rows for part in (row, gap)][:-1]
    write_image(given.output, np.concatenate(stacked))


if __name__ == "__main__":
    main()
