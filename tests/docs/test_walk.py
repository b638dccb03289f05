"""The walk of one image, as docs/explanation/architecture.md tells it, leads through real names."""

import importlib
import re

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def dotted_names():
    """Names in backticks in the section, each once."""
    text = PAGE.read_text(encoding="utf-8")
    section = re.search(
        r"^## The walk of one image$(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE
    )
    return sorted(set(re.findall(r"`(napari_kpac(?:\.\w+)+)`", section[1]))) if section else []


def test_the_walk_is_told():
    assert len(dotted_names()) >= 8


@pytest.mark.parametrize("name", dotted_names())
def test_every_hop_exists(name):
    found, *rest = name.split(".")
    while rest:
        try:
            importlib.import_module(f"{found}.{rest[0]}")
        except ModuleNotFoundError:
            break
        found = f"{found}.{rest.pop(0)}"
    target = importlib.import_module(found)
    for part in rest:
        target = getattr(target, part)
    assert callable(target)
