"""A page of HTML that stands alone: no script, no font, no image from anywhere else.

Not for: what is on it (report).
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import imagecodecs
import numpy as np

from napari_kpac.evaluation.metrics import ImageArray
from napari_kpac.evaluation.tables import Table

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; margin: .5em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid var(--line); }
tbody tr:hover { background: var(--soft); }
.wide { overflow-x: auto; }
.note { opacity: .75; margin: 0 0 1em; }
figure { display: inline-block; margin: 0 .6em .8em 0; vertical-align: top; }
figure img { display: block; image-rendering: pixelated; }
figcaption { font-size: 13px; max-width: 240px; }
svg text { font: 12px system-ui, sans-serif; fill: currentColor; }
svg .grid { stroke: #8884; }
pre { background: var(--soft); padding: 1em; overflow-x: auto; }
"""
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""What a browser may load for the page: nothing that is not in it."""


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it, as HTML."""

    title: str
    body: str


def page(title: str, introduction: str, sections: Sequence[Section]) -> str:
    """Put a page together."""
    body = "\n".join(
        f"<section><h2>{escape(section.title)}</h2>\n{section.body}</section>"
        for section in sections
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style></head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(introduction)}</p>\n{body}\n</body></html>\n"
    )


def table_html(table: Table) -> str:
    """Write a table, its note below."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.headings)
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>\n"
        for row in table.rows
    )
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>'
        f"</div>{note}"
    )


def image_html(image: ImageArray, caption: str, *, width: int | None = None) -> str:
    """Put an image in 0..1 into the page, as PNG."""
    pixels = np.rint(np.clip(image, 0, 1) * 255).astype(np.uint8)
    png = base64.b64encode(imagecodecs.png_encode(np.ascontiguousarray(pixels))).decode()
    shown = width or pixels.shape[1]
    return (
        f'<figure><img width="{shown}" alt="{escape(caption)}" src="data:image/png;base64,{png}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def folded(title: str, body: str) -> str:
    """Hide something long behind its title."""
    return f"<details><summary>{escape(title)}</summary>{body}</details>"
