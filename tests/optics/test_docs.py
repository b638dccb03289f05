"""The examples of the documentation run as they stand."""

import doctest
import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "optics.md"


def test_the_page_runs_from_top_to_bottom():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 6
    names = {}
    for block in blocks:
        exec(block, names)
    assert names["known"].image.shape == names["sharp"].shape


@pytest.mark.parametrize("module", ["defocusing", "scene"])
def test_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"napari_kpac.optics.{module}"))
    assert found.attempted
    assert not found.failed
