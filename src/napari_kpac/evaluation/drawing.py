"""Line plots as SVG text, for pages that must stand alone.

Not for: what is plotted; images as pixels are in ``panels``.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite

from napari_kpac.evaluation.panels import ticks

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")
"""Colours that colour-blind people can tell apart."""
WIDTH, HEIGHT = 720, 380
LEFT, TOP, RIGHT, BOTTOM = 60, 20, 190, 50

Series = tuple[str, Sequence[float | None]]
"""A label, and one value for each place along the axis; None leaves a gap."""


def line_plot(series: Sequence[Series], places: Sequence[str], *, x: str, y: str) -> str:
    """Draw lines over named places; places without a name get no mark."""
    known = [v for _, values in series for v in values if v is not None and isfinite(v)]
    low, high = min([0.0, *known]), max(known, default=1.0)
    if low == 0.0 and known and min(known) > high / 2:
        low = min(known) - 0.1 * (high - min(known) or 1)
    high = high if high > low else low + 1
    across = (WIDTH - LEFT - RIGHT) / max(len(places) - 1, 1)

    def point(place: int, value: float) -> tuple[float, float]:
        up = (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        return LEFT + place * across, HEIGHT - BOTTOM - up

    parts = []
    for tick in ticks(low, high):
        down = point(0, float(tick))[1]
        parts.append(f'<path class="grid" d="M{LEFT} {down:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text(LEFT - 8, down + 4, f"{tick:g}", "end"))
    for place, name in enumerate(places):
        if name:
            parts.append(_text(point(place, low)[0], HEIGHT - BOTTOM + 18, name, "middle"))
    for number, (label, values) in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        points = [
            None if v is None or not isfinite(v) else point(i, v) for i, v in enumerate(values)
        ]
        parts += _line(points, colour)
        row = TOP + 10 + 20 * number
        parts.append(
            f'<path d="M{WIDTH - RIGHT + 15} {row}h22" stroke="{colour}" stroke-width="3"/>'
        )
        parts.append(_text(WIDTH - RIGHT + 43, row + 4, label, "start"))
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(_text(middle, HEIGHT - 8, x, "middle"))
    parts.append(_text(LEFT, TOP - 6, y, "start"))
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img"'
        f' aria-label="{escape(y)} by {escape(x)}">{"".join(parts)}</svg>'
    )


def _line(points: Sequence[tuple[float, float] | None], colour: str) -> list[str]:
    parts, path, pen = [], "", "M"
    for point in points:
        if point is None:
            pen = "M"
            continue
        path += f"{pen}{point[0]:.1f} {point[1]:.1f}"
        pen = "L"
        if len(points) <= 20:
            parts.append(f'<circle cx="{point[0]:.1f}" cy="{point[1]:.1f}" r="4" fill="{colour}"/>')
    return [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *parts]


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
