"""The examples in docstrings run as they stand."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["scene", "synthesis"])
def test_docstrings(module):
    found = doctest.testmod(importlib.import_module(f"napari_kpac.optics.{module}"))
    assert found.attempted
    assert not found.failed
