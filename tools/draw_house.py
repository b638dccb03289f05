"""Draw docs/images/house.svg: the rooms of the package, from the import contract.

python tools/draw_house.py          # write the image
python tools/draw_house.py --check  # fail where the image is not what it should be

The floors are the layers of the contract in pyproject.toml, and a room is described by the first
line of its docstring.
"""

from __future__ import annotations

import argparse
import ast
import textwrap
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "napari_kpac"
TARGET = ROOT / "docs" / "images" / "house.svg"
INK, SOFT, FILL, WINDOW = "#1d2733", "#4c5a69", "#e8eef5", "#f6e3c5"
WIDTH, FLOOR, GAP, ROOF = 1000, 64, 10, 70


def floors() -> list[list[str]]:
    """Return the rooms of every layer, the top one first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip(" ()") for name in layer.split("|")] for layer in layers]


def purpose(room: str) -> str:
    """Return what a room is for: the first line of its docstring."""
    place = PACKAGE / room / "__init__.py"
    text = ast.get_docstring(ast.parse(place.read_text(encoding="utf-8"))) or ""
    return text.splitlines()[0].rstrip(".").replace("``", "")


def drawing() -> str:
    """Draw the house."""
    inner = WIDTH - 2 * GAP
    parts = [
        f'<path d="M 0 {ROOF} L {WIDTH / 2:g} 6 L {WIDTH} {ROOF} z" fill="{INK}"/>',
        f'<text x="{WIDTH / 2:g}" y="{ROOF - 18}" text-anchor="middle" font-size="15" '
        'fill="#ffffff">napari-kpac: each room may use what lies below it</text>',
    ]
    y = ROOF + GAP
    for rooms in floors():
        width = (inner - GAP * (len(rooms) - 1)) / len(rooms)
        for number, room in enumerate(rooms):
            x = GAP + number * (width + GAP)
            fill = WINDOW if room == "widgets" else FILL
            parts += [
                f'<rect x="{x:g}" y="{y}" width="{width:g}" height="{FLOOR}" rx="6" '
                f'fill="{fill}" stroke="{SOFT}"/>',
                f'<text x="{x + 12:g}" y="{y + 23}" font-size="16" font-weight="600" '
                f'fill="{INK}">{room}/</text>',
            ]
            lines = textwrap.wrap(purpose(room), int((width - 24) / 6.6))
            parts += [
                f'<text x="{x + 12:g}" y="{y + 41 + 15 * line}" font-size="13" fill="{SOFT}">'
                f"{escape(text)}</text>"
                for line, text in enumerate(lines[:2])
            ]
        y += FLOOR + GAP
    parts.append(
        f'<text x="{GAP + 2}" y="{y + 12}" font-size="13" fill="{SOFT}">'
        "Qt and napari live in the room of the other colour alone.</text>"
    )
    height = y + 24
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="system-ui, sans-serif">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#fbfcfe"/>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    if not parser.parse_args().check:
        TARGET.write_text(drawing(), encoding="utf-8")
        print(f"wrote {TARGET.relative_to(ROOT)}")
    elif TARGET.read_text(encoding="utf-8") != drawing():
        raise SystemExit(f"{TARGET.name} is not what the contract says: run tools/draw_house.py")


if __name__ == "__main__":
    main()
