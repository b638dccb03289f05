"""Draw docs/images/stages.svg: the stages, their cost, and where a change restarts.

The numbers come from the default network itself.

usage: python tools/draw_stages.py
"""

from html import escape
from itertools import pairwise
from pathlib import Path

from napari_kpac import KPACConfig
from napari_kpac.network import KPACNet, count_flops

TARGET = Path(__file__).parents[1] / "docs" / "images" / "stages.svg"
INK, SOFT, FILL, HOLD = "#1d2733", "#5b6b7c", "#e8eef5", "#f6e3c5"


def box(x: int, y: int, width: int, height: int, title: str, lines: list[str], fill: str) -> str:
    """Draw one stage."""
    parts = [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{fill}" '
        f'stroke="{SOFT}"/>',
        f'<text x="{x + 12}" y="{y + 22}" font-weight="600" fill="{INK}">{escape(title)}</text>',
    ]
    for number, line in enumerate(lines):
        parts.append(
            f'<text x="{x + 12}" y="{y + 42 + 17 * number}" font-size="12" fill="{SOFT}">'
            f"{escape(line)}</text>"
        )
    return "\n".join(parts)


def arrow(x1: int, y1: int, x2: int, y2: int, dashed: bool = False) -> str:
    """Draw an arrow."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{INK}" stroke-width="1.5"{dash} '
        'marker-end="url(#tip)"/>'
    )


def shares(config: KPACConfig) -> dict[str, str]:
    """Return the share of each stage in the work, by counting networks with and without it."""
    size = (1, 3, 512, 512)

    def flops(**changes: int) -> int:
        return count_flops(lambda: KPACNet(KPACConfig(**changes)), size).flops

    whole = flops()
    block = flops(blocks=3) - whole

    class EncoderOnly(KPACNet):
        def forward(self, image, views=None, modulate=None):  # type: ignore[no-untyped-def]  # noqa: ARG002
            return self.encode(image).features

    encoder = count_flops(lambda: EncoderOnly(config), size).flops
    decoder = whole - encoder - config.blocks * block
    return {
        name: f"{100 * part / whole:.0f} % of the work"
        for name, part in (("encoder", encoder), ("block", block), ("decoder", decoder))
    }


def main() -> None:
    """Write the image."""
    config = KPACConfig()
    share = shares(config)
    bottleneck = config.wide * 4 / config.multiple**2
    halves = [
        (3 if level == 0 else width) * 4 / 4**level
        for level, width in enumerate(config.level_channels[:-1])
    ]
    kept = sum(halves)
    top, size = 90, (170, 112)
    columns = [20, 230, 440, 650, 860]
    pieces = [
        box(columns[0], top, *size, "image", ["pixels, range", "padded to 8"], "#ffffff"),
        box(
            columns[1],
            top,
            *size,
            "encoder (tiles)",
            [share["encoder"], "tile + 24 px around"],
            FILL,
        ),
        box(
            columns[2],
            top,
            *size,
            "block 1 (whole)",
            [share["block"], "alpha, beta, 5 branches", "kept: 5 partial sums"],
            HOLD,
        ),
        box(
            columns[3],
            top,
            *size,
            "block 2 (whole)",
            [share["block"], "alpha, beta, 5 branches", "kept: 5 partial sums"],
            HOLD,
        ),
        box(
            columns[4],
            top,
            *size,
            "decoder (tiles)",
            [share["decoder"], "tile + 16 px around", "gives the residual"],
            FILL,
        ),
        box(columns[4], top + 190, *size, "result", ["image", "+ strength x residual"], "#ffffff"),
    ]
    middle = top + size[1] // 2
    for left, right in pairwise(columns):
        pieces.append(arrow(left + size[0], middle, right - 4, middle))
    down = top + size[1]
    pieces += [
        arrow(columns[4] + 85, down, columns[4] + 85, top + 186),
        f'<path d="M {columns[1] + 85} {down} V {down + 40} H {columns[4] + 40} V {down + 6}" '
        f'fill="none" stroke="{INK}" stroke-width="1.5" marker-end="url(#tip)"/>',
        f'<text x="{columns[1] + 95}" y="{down + 34}" font-size="12" fill="{SOFT}">'
        f"skip halves, {kept:.0f} bytes per pixel, kept or recomputed</text>",
        f'<text x="{columns[2]}" y="{top - 12}" font-size="12" fill="{SOFT}">'
        f"the bottleneck: {bottleneck:.0f} bytes per pixel, never cut</text>",
    ]
    for x, text in (
        (columns[1] + 40, "new image or model"),
        (columns[2] + 40, "gain of block 1"),
        (columns[3] + 40, "gain of block 2"),
    ):
        pieces.append(arrow(x, 40, x, top - 28, dashed=True))
        pieces.append(f'<text x="{x - 30}" y="30" font-size="13" fill="{INK}">{text}</text>')
    pieces.append(arrow(columns[4] - 60, top + 246, columns[4] - 4, top + 246, dashed=True))
    pieces.append(
        f'<text x="{columns[4] - 130}" y="{top + 251}" font-size="13" fill="{INK}">strength</text>'
    )
    pieces.append(
        f'<text x="20" y="{top + 230}" font-size="12" fill="{SOFT}">dashed: where a change '
        "restarts; everything to the left of it is kept</text>"
    )
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1050 410" '
        'font-family="system-ui, sans-serif" font-size="14">\n'
        '<rect width="1050" height="410" fill="#fbfcfe"/>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        f'markerHeight="8" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker>'
        "</defs>\n" + "\n".join(pieces) + "\n</svg>\n",
        encoding="utf-8",
    )
    print(f"wrote {TARGET.relative_to(TARGET.parents[2])}")


if __name__ == "__main__":
    main()
