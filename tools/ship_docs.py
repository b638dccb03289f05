"""Put the pages of the documentation into the wheel, where the window's help finds them.

Run by hatchling when a wheel is built; an editable installation reads docs/ itself.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

LEFT_OUT = ("contributing.md", "changelog.md", "reference/python.md", "reference/rooms.md")
"""Pages for developers, or made of the code when the site is built."""
MAX_IMAGE_BYTES = 1_000_000
"""Larger images are on the site only; help shows what they are called."""


def shipped(docs: Path) -> list[Path]:
    """Return the pages that are shipped, and the images that they show."""
    pages = [
        page
        for page in sorted(docs.rglob("*.md"))
        if page.relative_to(docs).as_posix() not in LEFT_OUT
    ]
    images = {
        (page.parent / link).resolve()
        for page in pages
        for link in re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    }
    small = (image for image in images if image.stat().st_size <= MAX_IMAGE_BYTES)
    return [*pages, *sorted(small)]


class ShipDocs(BuildHookInterface):  # type: ignore[misc]
    """Adds the pages to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files, unless the installation is editable."""
        docs = (Path(self.root) / "docs").resolve()
        if version != "editable":
            for path in shipped(docs):
                place = f"napari_kpac/docs/{path.relative_to(docs).as_posix()}"
                build_data["force_include"][str(path)] = place
