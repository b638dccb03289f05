"""Links of the README and the documentation lead somewhere; nothing is fetched."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, anchors, name_of, prose

DOCS = ROOT / "docs"


def links(page):
    """Targets of links and images that lie in this repository."""
    text = prose(page)
    found = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|href)="([^"]+)"', text)
    return [link for link in found if not link.startswith(("http:", "https:", "mailto:"))]


def documents(page):
    """Targets of the {doc} role."""
    found = re.findall(r"\{doc\}`([^`]+)`", page.read_text(encoding="utf-8"))
    return [(DOCS if name[0] == "/" else page.parent) / f"{name.lstrip('/')}.md" for name in found]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link
    for target in documents(page):
        assert target.exists(), target


def test_there_are_links():
    assert sum(len(links(page)) + len(documents(page)) for page in PAGES) > 80


def test_every_page_is_reached():
    """All pages are in the table of contents; those beside the index are taken as they come."""
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^((?:\w[\w-]*/)+[\w-]+)$", index, re.MULTILINE))
    pages = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.glob("*/*.md")}
    assert listed == pages
    assert ":glob:\n\n*\n" in index


def test_every_image_is_shown():
    """Images that no page shows are left over; the light theme's are for readers of that."""
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    for image in (DOCS / "images").rglob("*.*"):
        if image.suffix != ".json" and not image.stem.endswith("-light"):
            assert image in shown, image


def test_the_house_is_as_the_contract_says():
    tool = Path(ROOT / "tools" / "draw_house.py")
    subprocess.run([sys.executable, str(tool), "--check"], check=True)
