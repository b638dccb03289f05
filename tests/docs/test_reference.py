"""The reference has every public name, and the pages for the hub are complete."""

import importlib
import re
import tomllib

import pytest
import yaml

import napari_kpac
from napari_kpac.cli.entry import parser
from tests.docs.pages import ROOT

REFERENCE = ROOT / "docs" / "reference"
ROOMS = (
    "batch", "datasets", "detection", "engine", "evaluation", "network", "optics", "images",
    "reproduction", "training", "weights",
)  # fmt: skip


def documented():
    text = "".join(
        (REFERENCE / name).read_text(encoding="utf-8") for name in ("python.md", "rooms.md")
    )
    return set(re.findall(r"\.\. auto\w+:: napari_kpac\.([\w.]+)", text))


def test_every_public_name_is_in_the_reference():
    assert set(napari_kpac.__all__) - {"__version__"} <= documented()


def test_every_public_name_exists():
    """The stubs from which names are loaded lazily name what there is."""
    for name in napari_kpac.__all__:
        assert getattr(napari_kpac, name) is not None


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_of_a_room_exists_and_is_in_the_reference(room):
    module = importlib.import_module(f"napari_kpac.{room}")
    exported = module.__all__
    assert all(hasattr(module, name) for name in exported)
    below = {name for name in exported if name not in napari_kpac.__all__}
    assert {f"{room}.{name}" for name in below} <= documented()


def test_nothing_else_is():
    for name in documented():
        home, _, last = f"napari_kpac.{name}".rpartition(".")
        assert hasattr(importlib.import_module(home), last), name


def test_every_command_is_described():
    """What the reference is made of: a summary and an example for every command."""

    def walk(command):
        choices = [a.choices for a in command._actions if hasattr(a.choices, "items")]
        for child in choices[0].values() if choices else ():
            assert child.description, child.prog
            assert "example:" in child.epilog, child.prog
            for action in child._actions:
                assert action.help or hasattr(action.choices, "items"), (child.prog, action.dest)
            walk(child)

    walk(parser())


def test_what_the_hub_shows():
    """The hub reads the package's metadata, its README and its manifest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert "Framework :: napari" in project["classifiers"]
    assert 20 < len(project["description"]) < 120
    assert project["readme"] == "README.md"
    assert (ROOT / "README.md").read_text(encoding="utf-8").startswith("# napari-kpac\n")
    path = ROOT / "src" / "napari_kpac" / "napari.yaml"
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert manifest["name"] == project["name"]
    assert manifest["categories"]
    contributed = manifest["contributions"]
    assert all(contributed[kind] for kind in ("widgets", "sample_data", "readers", "writers"))
