"""Sheets of captioned images and line plots, drawn with NumPy and Pillow.

Not for: what is on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

ImageArray = npt.NDArray[np.uint8]
Cell = tuple[npt.NDArray[Any], str]
Line = tuple[str, npt.NDArray[Any], npt.NDArray[Any], tuple[int, int, int], bool]
"""Label, x, y, colour, and whether to draw dots instead of a line."""

GAP = 10
TEXT = 15
INK = (25, 25, 25)
FAINT = (205, 205, 205)


def sheet(
    title: str, rows: Sequence[Sequence[Cell]], *, side: int = 200, whole: bool = False
) -> ImageArray:
    """Lay out rows of images in 0..1, each with a caption of up to two lines below it.

    Images are shown as squares of that side, cut from their middle; ``whole`` shows all of
    them instead, the longest side of that length.
    """
    caption = 2 * (TEXT + 4)
    columns = max(map(len, rows))
    images = [[_whole(p, side) if whole else _fitted(p, side) for p, _ in row] for row in rows]
    high = max(image.height for row in images for image in row)
    width = GAP + columns * (side + GAP)
    height = 2 * GAP + TEXT + 8 + len(rows) * (high + caption + GAP)
    canvas = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(canvas)
    draw.text((GAP, GAP), title, INK, _font(TEXT + 3))
    for i, row in enumerate(rows):
        top = 2 * GAP + TEXT + 8 + i * (high + caption + GAP)
        for j, (_, text) in enumerate(row):
            left = GAP + j * (side + GAP)
            canvas.paste(images[i][j], (left, top))
            draw.multiline_text((left, top + high + 3), text, INK, _font(TEXT), spacing=3)
    return np.asarray(canvas)


def kernel_image(kernel: npt.NDArray[Any], reach: int | None = None) -> npt.NDArray[np.float64]:
    """Show a kernel: grey is zero, white and black its largest magnitude, on a root scale."""
    half = kernel.shape[0] // 2
    reach = half if reach is None else min(reach, half)
    middle = kernel[half - reach : half + reach + 1, half - reach : half + reach + 1]
    strength: npt.NDArray[np.float64] = np.sqrt(np.abs(middle) / np.abs(middle).max())
    shown: npt.NDArray[np.float64] = 0.5 + 0.5 * np.sign(middle) * strength
    return shown


def plot(title: str, lines: Sequence[Line], *, x_label: str, y_label: str) -> ImageArray:
    """Draw lines over a grid, with a legend."""
    width, height, left, top, right, bottom = 900, 560, 90, 76, 25, 60
    fine = 2
    xs = np.concatenate([line[1] for line in lines])
    ys = np.concatenate([line[2] for line in lines])
    x0, x1, y0, y1 = xs.min(), xs.max(), min(0.0, float(ys.min())), 1.06 * ys.max()

    def place(x: float, y: float) -> tuple[float, float]:
        across = left + (x - x0) / (x1 - x0) * (width - left - right)
        down = height - bottom - (y - y0) / (y1 - y0) * (height - top - bottom)
        return across * fine, down * fine

    canvas = Image.new("RGB", (width * fine, height * fine), "white")
    draw = ImageDraw.Draw(canvas)
    small, large = _font(TEXT * fine), _font((TEXT + 3) * fine)
    for tick in ticks(x0, x1):
        draw.line([place(tick, y0), place(tick, y1)], FAINT, fine)
        x, y = place(tick, y0)
        draw.text((x, y + 6 * fine), f"{tick:g}", INK, small, anchor="mt")
    for tick in ticks(y0, y1):
        draw.line([place(x0, tick), place(x1, tick)], FAINT, fine)
        x, y = place(x0, tick)
        draw.text((x - 8 * fine, y), f"{tick:g}", INK, small, anchor="rm")
    for i, (label, across, up, colour, dotted) in enumerate(lines):
        points = [place(x, y) for x, y in zip(across, up, strict=True)]
        key = [((width - 330) * fine, (top + 20 + 26 * i) * fine)]
        key.append((key[0][0] + 30 * fine, key[0][1]))
        if dotted:
            for x, y in [*points, *key]:
                draw.ellipse([x - 4 * fine, y - 4 * fine, x + 4 * fine, y + 4 * fine], colour)
        else:
            draw.line(points, colour, 2 * fine, joint="curve")
            draw.line(key, colour, 2 * fine)
        draw.text((key[1][0] + 10 * fine, key[1][1]), label, INK, small, anchor="lm")
    draw.text((GAP * fine, GAP * fine), title, INK, large)
    draw.text(
        ((left + width - right) / 2 * fine, (height - 12) * fine), x_label, INK, small, anchor="mb"
    )
    draw.text((GAP * fine, (top - 6) * fine), y_label, INK, small, anchor="lb")
    return np.asarray(canvas.resize((width, height), Image.Resampling.LANCZOS))


def _whole(pixels: npt.NDArray[Any], side: int) -> Image.Image:
    """Scale a pixels to a longest side."""
    image = _image(pixels)
    scale = side / max(image.size)
    size = round(image.width * scale), round(image.height * scale)
    return image.resize(size, Image.Resampling.LANCZOS if scale < 1 else Image.Resampling.NEAREST)


def _image(pixels: npt.NDArray[Any]) -> Image.Image:
    pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return Image.fromarray(pixels).convert("RGB")


def _fitted(pixels: npt.NDArray[Any], side: int) -> Image.Image:
    """Cut the middle square of a pixels, or enlarge a small one in whole steps."""
    height, width = pixels.shape[:2]
    square = min(height, width, side) if max(height, width) > side else max(height, width)
    top, left = (height - square) // 2, (width - square) // 2
    image = _image(pixels[top : top + square, left : left + square])
    return image.resize((side, side), Image.Resampling.NEAREST)


def ticks(low: float, high: float) -> npt.NDArray[np.float64]:
    """Give four to ten round numbers between two."""
    rough = 10 ** np.floor(np.log10(high - low))
    step = next(rough * f for f in (0.1, 0.2, 0.5, 1) if (high - low) / (rough * f) <= 10)
    first = np.ceil(low / step - 1e-9)
    ticks: npt.NDArray[np.float64] = np.arange(first, high / step + 1e-9) * step
    return np.round(ticks, 10) + 0.0


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
