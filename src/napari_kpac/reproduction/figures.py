"""The paper's figures on attention and on its modulation, of any image.

Not for: figures on inverse kernels (inverse_kernels).
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.options import ImageOptions
from napari_kpac.detection.estimators import Planes
from napari_kpac.detection.files import coloured
from napari_kpac.engine import Modulation, Session
from napari_kpac.engine.device import Model
from napari_kpac.evaluation.panels import Cell, ImageArray, sheet

SIDE = 320
"""Longest side of an image in a figure."""
AMPLIFIED = 5.0
"""How much differences are amplified."""


@dataclass(frozen=True)
class NetworkFigure:
    """A figure, and the numbers in it."""

    image: ImageArray
    numbers: dict[str, Any]


def attention_figure(
    image: npt.NDArray[Any], model: Model = "default", device: str = "auto"
) -> NetworkFigure:
    """Show an image and every alpha of every block, one block a row."""
    with closing(Session(image, model, device)) as session:
        alphas = session.render().alpha_at_image()
        dilations = session.config.dilations
    shown = _visible(image)
    rows: list[list[Cell]] = []
    numbers = {}
    for block, maps in enumerate(alphas, start=1):
        first: Cell = (shown, "input") if block == 1 else (np.ones_like(shown), "")
        means = [float(alpha.mean()) for alpha in maps]
        numbers[f"block {block}"] = means
        rows.append(
            [
                first,
                *(
                    (coloured(alpha), f"alpha_{i}, dilation {dilation}\nmean {mean:.3f}")
                    for i, (alpha, dilation, mean) in enumerate(
                        zip(maps, dilations, means, strict=True), start=1
                    )
                ),
            ]
        )
    title = "Scale attention, one row a block; dark 0, light 1"
    return NetworkFigure(sheet(title, rows, side=SIDE, whole=True), {"mean alpha": numbers})


def modulation_figure(
    image: npt.NDArray[Any], model: Model = "default", device: str = "auto"
) -> NetworkFigure:
    """Show the result with all dilations, and with each of them alone in every block."""
    shown = _visible(image)
    rows, numbers = [], {}
    with closing(Session(image, model, device)) as session:
        count = len(session.config.dilations)
        cases = [("all dilations", np.ones(count))]
        cases += [
            (f"only dilation {dilation}", np.eye(count)[i])
            for i, dilation in enumerate(session.config.dilations)
        ]
        for label, gains in cases:
            result = _visible(session.render(Modulation(gains=gains)).image)
            change = result - shown
            size = float(np.sqrt(np.mean(change**2)))
            numbers[label] = {"gains": gains.tolist(), "rms change": size}
            weights = ", ".join(f"{gain:g}" for gain in gains)
            rows.append(
                [
                    (shown, "input"),
                    (result, f"{label}\n[{weights}]"),
                    (
                        0.5 + AMPLIFIED * change,
                        f"change, {AMPLIFIED:g} times\nrms {255 * size:.2f} of 255",
                    ),
                ]
            )
    title = "Modulated scale attention"
    return NetworkFigure(sheet(title, rows, side=SIDE, whole=True), numbers)


def _visible(image: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Give a plane as the network sees it: RGB with black at 0 and white at 1."""
    plane = next(iter(Planes.of(image, ImageOptions())))
    return np.repeat(plane, 3, axis=2) if plane.shape[2] == 1 else plane
