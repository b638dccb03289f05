"""Cases in which deblurring fails or falls short, synthesised, so that everybody can see them.

Not for: how good a model is on average (evaluating).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.engine import deblur
from napari_kpac.engine.device import Model
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.evaluation.panels import Cell, sheet
from napari_kpac.optics import Aperture, defocus
from napari_kpac.reproduction.figures import AMPLIFIED, NetworkFigure

LIGHTS = 40
DIMMED = 0.45
"""What is left of the photograph's brightness where it has lights, so that they stand out."""
SIDE = 300


@dataclass(frozen=True)
class Limit:
    """A kind of blur."""

    name: str
    aperture: Aperture
    radius: float
    lights: bool = False
    """Whether the photograph gets small lights, whose blur shows the aperture."""


LIMITS = (
    Limit("ordinary blur, to compare", Aperture("disc"), 3),
    Limit("bokeh with hard rims", Aperture("rimmed", rim=4, cutoff=0.85, order=16), 8, lights=True),
    Limit("swirly bokeh", Aperture("disc", cats_eye=1), 8, lights=True),
    Limit("very large blur", Aperture("disc"), 20),
    Limit("no blur at all", Aperture("disc"), 0),
)


def limits_figure(model: Model = "default", device: str = "auto") -> NetworkFigure:
    """Blur a photograph in every way, deblur it, and show what happens."""
    rows: list[list[Cell]] = []
    numbers: dict[str, Any] = {}
    for limit in LIMITS:
        sharp = _photograph(lights=limit.lights)
        stops = 5.0 if limit.lights else 0.0
        blurred = (
            defocus(sharp, limit.radius, limit.aperture, highlights=stops).image
            if limit.radius
            else sharp
        )
        restored = np.clip(deblur(blurred, model, device, range="unit", rgb=True).image, 0, 1)
        before, after = psnr(blurred, sharp), psnr(restored, sharp)
        kept = psnr(restored, blurred)
        numbers[limit.name] = {
            "radius": limit.radius,
            "psnr of the input": None if np.isinf(before) else before,
            "psnr of the result": after,
            "psnr of the result against the input": kept,
        }
        told = "as it is" if np.isinf(before) else f"{before:.2f} dB"
        rows.append(
            [
                (sharp, "sharp"),
                (blurred, f"{limit.name}\nradius {limit.radius:g} px, {told}"),
                (restored, f"result, {after:.2f} dB"),
                (0.5 + AMPLIFIED * (restored - blurred), f"change, {AMPLIFIED:g} times"),
            ]
        )
    return NetworkFigure(sheet("Known limits", rows, side=SIDE), numbers)


def _photograph(*, lights: bool) -> npt.NDArray[np.float32]:
    """Give the part of a photograph that a figure shows, with or without small lights."""
    from skimage import data

    part = data.coffee()[50 : 50 + SIDE, 150 : 150 + SIDE]
    photo: npt.NDArray[np.float32] = (part / 255).astype(np.float32)
    if not lights:
        return photo
    rng = np.random.default_rng(0)
    photo *= DIMMED
    for y, x in rng.integers(6, SIDE - 6, (LIGHTS, 2)):
        photo[y : y + 2, x : x + 2] = 1.0
    return photo
