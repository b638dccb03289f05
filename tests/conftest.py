"""Fixtures of all tests: the optional golden data, and an empty folder of models."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# `make test-all` looks further than `make test`.
settings.register_profile("quick", deadline=None, max_examples=10, derandomize=True)
settings.register_profile("long", deadline=None, max_examples=200)
settings.load_profile("quick")

SHARED = Path(os.environ.get("NAPARI_KPAC_SHARED", Path(__file__).parents[2] / "shared"))


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark what opens windows, so that it can be left out where there is no screen."""
    if {"qtbot", "qapp", "make_napari_viewer"} & set(getattr(item, "fixturenames", ())):
        item.add_marker("window")


@pytest.fixture(scope="session")
def golden() -> Path:
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip("the golden tensors of the authors' graph are not at hand")
    return folder


@pytest.fixture(autouse=True)
def own_models(tmp_path, monkeypatch) -> Path:
    """Keep every test away from the models that the user installed."""
    folder = tmp_path / "own-models"
    monkeypatch.setenv("NAPARI_KPAC_MODELS", str(folder))
    return folder
