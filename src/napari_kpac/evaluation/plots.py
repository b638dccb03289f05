"""Sheets of captioned images, and line plots.

Not for: what is on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from io import BytesIO, StringIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RGBImage = npt.NDArray[np.uint8]
Cell = tuple[npt.NDArray[Any], str]
"""An image in 0..1 and its caption."""
Series = tuple[str, Sequence[float | None]]
"""A label, and one value for each place along the axis; None leaves a gap."""

GAP_PX = 10
TEXT_PX = 15
TITLE_PX = TEXT_PX + 3
INK = (25, 25, 25)
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Colours that colour-blind people can tell apart."""
LINE_STYLES = ("-", "--", ":")
"""Taken one after the other, each with all colours."""
MAX_MARKED = 20
"""Values of a line from which on they are not marked."""
SVG_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",  # text, whose colour the page decides
    "svg.hashsalt": "napari-kpac",  # the same file for the same values
    "text.parse_math": False,  # labels are names of files
}


def sheet(
    title: str, rows: Sequence[Sequence[Cell]], *, side: int = 200, whole: bool = False
) -> RGBImage:
    """Lay out rows of images in 0..1, each with a caption of up to two lines below it.

    Images are shown as squares of that side, cut from their middle and not resampled, small ones
    enlarged in whole steps; ``whole`` shows all of them instead, the longest side of that length.
    """
    caption_px = 2 * (TEXT_PX + 4)
    first_px = 2 * GAP_PX + TEXT_PX + 8
    images = [[_scaled(p, side) if whole else _square(p, side) for p, _ in row] for row in rows]
    height = max(image.height for row in images for image in row)
    pitch = height + caption_px + GAP_PX
    width = GAP_PX + max(map(len, rows)) * (side + GAP_PX)
    canvas = Image.new("RGB", (width, first_px + len(rows) * pitch), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((GAP_PX, GAP_PX), title, INK, ImageFont.load_default(TITLE_PX))
    font = ImageFont.load_default(TEXT_PX)
    for i, row in enumerate(rows):
        top = first_px + i * pitch
        for j, (_, caption) in enumerate(row):
            left = GAP_PX + j * (side + GAP_PX)
            canvas.paste(images[i][j], (left, top))
            draw.multiline_text((left, top + height + 3), caption, INK, font, spacing=3)
    return np.asarray(canvas)


def to_rgb8(pixels: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return pixels in 0..1 as 8-bit values; those that are 8-bit values stay as they are."""
    if pixels.dtype == np.uint8:
        return pixels
    values: npt.NDArray[np.uint8] = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return values


def _scaled(pixels: npt.NDArray[Any], side: int) -> Image.Image:
    """Scale an image to a longest side."""
    image = Image.fromarray(to_rgb8(pixels)).convert("RGB")
    scale = side / max(image.size)
    size = round(image.width * scale), round(image.height * scale)
    return image.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST)


def _square(pixels: npt.NDArray[Any], side: int) -> Image.Image:
    """Cut the middle square of an image, or enlarge a small one."""
    height, width = pixels.shape[:2]
    square = min(height, width, side) if max(height, width) > side else max(height, width)
    top, left = (height - square) // 2, (width - square) // 2
    part = to_rgb8(pixels[top : top + square, left : left + square])
    return Image.fromarray(part).convert("RGB").resize((side, side), Image.Resampling.NEAREST)


def rasterise(figure: Figure) -> RGBImage:
    """Return a figure of matplotlib as pixels."""
    file = BytesIO()
    figure.savefig(file, format="png")
    return np.asarray(Image.open(file).convert("RGB"))


def line_plot(series: Sequence[Series], places: Sequence[str], *, x: str, y: str) -> str:
    """Draw lines over named places, as SVG for a page; places without a name get no mark."""
    from cycler import cycler
    from matplotlib import style
    from matplotlib.figure import Figure

    # Not as the user's own settings of matplotlib have it, which are for another background.
    with style.context(["default", SVG_SETTINGS]):
        figure = Figure(figsize=(10, 5), layout="constrained")
        axes = figure.subplots()
        axes.set_prop_cycle(cycler(linestyle=LINE_STYLES) * cycler(color=COLOURS))
        marker = "o" if len(places) <= MAX_MARKED else None
        lines = []
        for _, values in series:
            known = np.array([np.nan if v is None else v for v in values], np.float64)
            known[~np.isfinite(known)] = np.nan
            # Clipping would need references of its own in the page.
            lines += axes.plot(known, marker=marker, clip_on=False)
        axes.set_xticks([i for i, name in enumerate(places) if name], list(filter(None, places)))
        axes.set(xlabel=x, ylabel=y)
        axes.grid(axis="y", color="0.5", alpha=0.3, clip_on=False)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        labels = [label for label, _ in series]
        axes.legend(lines, labels, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        file = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        figure.savefig(file, format="svg", transparent=True, metadata=nothing)
    _, opening, drawn = file.getvalue().partition("<svg")
    return f'{opening} role="img" aria-label="{escape(y)} by {escape(x)}"{drawn}'
