"""The paper's figures on attention and its modulation, of any image; cases that fall short.

Not for: figures on inverse kernels (inverse_kernels), or how good a model is on average
(evaluation).
"""

from __future__ import annotations

from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from skimage import data

from napari_kpac.core.options import ImageOptions
from napari_kpac.detection.estimators import Planes
from napari_kpac.detection.files import coloured
from napari_kpac.engine import Modulation, Session, deblur
from napari_kpac.engine.device import Model
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.evaluation.plots import Cell, sheet
from napari_kpac.optics import Aperture, defocus
from napari_kpac.reproduction.inverse_kernels import Figure

SIDE_PX = 320
"""Longest side of an image in a figure."""
AMPLIFIED = 5.0
"""How much differences are amplified."""


def attention_figure(
    image: npt.NDArray[Any], model: Model = "default", device: str = "auto"
) -> Figure:
    """Show an image and every alpha of every block, one block a row."""
    with closing(Session(image, model, device)) as session:
        alphas = session.render().alpha_at_image()
        dilations = session.config.dilations
    shown = _visible(image)
    rows: list[list[Cell]] = []
    numbers = {}
    for block, maps in enumerate(alphas, start=1):
        means = numbers[f"block {block}"] = [float(alpha.mean()) for alpha in maps]
        row: list[Cell] = [(shown, "input") if block == 1 else (np.ones_like(shown), "")]
        for i, (alpha, dilation) in enumerate(zip(maps, dilations, strict=True)):
            caption = f"alpha_{i + 1}, dilation {dilation}\nmean {means[i]:.3f}"
            row.append((coloured(alpha), caption))
        rows.append(row)
    drawn = sheet(
        "Scale attention, one row a block; dark 0, light 1", rows, side=SIDE_PX, whole=True
    )
    return Figure("attention", drawn, {"mean alpha": numbers})


def modulation_figure(
    image: npt.NDArray[Any], model: Model = "default", device: str = "auto"
) -> Figure:
    """Show the result with all dilations, and with each of them alone in every block."""
    shown = _visible(image)
    rows, numbers = [], {}
    with closing(Session(image, model, device)) as session:
        dilations = session.config.dilations
        cases = {"all dilations": np.ones(len(dilations))}
        for dilation, gains in zip(dilations, np.eye(len(dilations)), strict=True):
            cases[f"only dilation {dilation}"] = gains
        for label, gains in cases.items():
            result = _visible(session.render(Modulation(gains=gains)).image)
            change = result - shown
            rms = float(np.sqrt(np.mean(change**2)))
            numbers[label] = {"gains": gains.tolist(), "rms change": rms}
            weights = ", ".join(f"{gain:g}" for gain in gains)
            amplified = f"change, {AMPLIFIED:g} times\nrms {255 * rms:.2f} of 255"
            rows.append(
                [
                    (shown, "input"),
                    (result, f"{label}\n[{weights}]"),
                    (0.5 + AMPLIFIED * change, amplified),
                ]
            )
    drawn = sheet("Modulated scale attention", rows, side=SIDE_PX, whole=True)
    return Figure("modulation", drawn, numbers)


def _visible(image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return a plane as the network sees it: RGB with black at 0 and white at 1."""
    plane = next(iter(Planes.of(image, ImageOptions())))
    return np.repeat(plane, 3, axis=2) if plane.shape[2] == 1 else plane


class Limit(NamedTuple):
    """A kind of blur at which deblurring fails or falls short."""

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
LIMIT_SIDE_PX = 300
LIGHTS = 40
LIGHT_STOPS = 5.0
"""How much brighter than white the lights are."""
DIMMED = 0.45
"""What is left of the photograph's brightness where it has lights, so that they stand out."""


def limits_figure(model: Model = "default", device: str = "auto") -> Figure:
    """Blur a photograph in every way, deblur it, and show what happens."""
    rows: list[list[Cell]] = []
    numbers: dict[str, Any] = {}
    for name, aperture, radius, lights in LIMITS:
        sharp = blurred = _photograph(lights=lights)
        if radius:
            stops = LIGHT_STOPS if lights else 0.0
            blurred = defocus(sharp, radius, aperture, highlights=stops).image
        restored = np.clip(deblur(blurred, model, device, range="unit", rgb=True).image, 0, 1)
        before, after = psnr(blurred, sharp), psnr(restored, sharp)
        numbers[name] = {
            "radius": radius,
            "psnr of the input": None if np.isinf(before) else before,
            "psnr of the result": after,
            "psnr of the result against the input": psnr(restored, blurred),
        }
        quality = "as it is" if np.isinf(before) else f"{before:.2f} dB"
        rows.append(
            [
                (sharp, "sharp"),
                (blurred, f"{name}\nradius {radius:g} px, {quality}"),
                (restored, f"result, {after:.2f} dB"),
                (0.5 + AMPLIFIED * (restored - blurred), f"change, {AMPLIFIED:g} times"),
            ]
        )
    return Figure("limits", sheet("Known limits", rows, side=LIMIT_SIDE_PX), numbers)


def _photograph(*, lights: bool) -> npt.NDArray[np.float32]:
    """Return the part of a photograph that a figure shows, with or without small lights."""
    part = data.coffee()[50 : 50 + LIMIT_SIDE_PX, 150 : 150 + LIMIT_SIDE_PX]
    photo: npt.NDArray[np.float32] = (part / 255).astype(np.float32)
    if lights:
        rng = np.random.default_rng(0)
        photo *= DIMMED
        for y, x in rng.integers(6, LIMIT_SIDE_PX - 6, (LIGHTS, 2)):
            photo[y : y + 2, x : x + 2] = 1.0
    return photo
