"""What the package brings along is what was released, and what is installed is shown first."""

import json
import shutil

import pytest
import torch

import napari_kpac as kpac
from napari_kpac.cli import main
from napari_kpac.weights import ModelCard, catalogue, load, save_network
from tests import tools
from tests.engine.conftest import tiny_net


@pytest.fixture
def bundled(tmp_path, monkeypatch):
    """A copy of the bundled models that can be tampered with."""
    folder = tmp_path / "bundled"
    shutil.copytree(catalogue.BUNDLED, folder)
    monkeypatch.setattr(catalogue, "BUNDLED", folder)
    return folder


def refused(path):
    for model in ("default", path.stem, path):
        with pytest.raises(kpac.KpacError, match=r"SHA-256|cannot be checked"):
            kpac.load(model)
    with pytest.raises(kpac.KpacError, match=r"SHA-256|cannot be checked"):
        kpac.deblur([[0.0, 1.0], [1.0, 0.0]], "default", "cpu")


def test_every_bundled_model_is_listed_and_right(bundled):
    lines = (bundled / catalogue.SUMS).read_text().splitlines()
    listed = {line.split()[1] for line in lines}
    assert listed == {path.name for path in bundled.glob("*.safetensors")}
    assert kpac.load("default").card.name == catalogue.DEFAULT


def test_a_changed_byte_is_noticed(bundled):
    path = bundled / f"{catalogue.DEFAULT}.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    refused(path)


def test_another_model_in_its_place_is_noticed(bundled, capsys):
    """Also one whose own fingerprint is right, as anybody can make it."""
    path = bundled / f"{catalogue.DEFAULT}.safetensors"
    net = load(path)
    card = net.card
    with torch.no_grad():
        next(net.parameters()).mul_(1.01)
    save_network(net, path, card)
    refused(path)
    assert main(["models", "verify"]) == 1
    assert "BAD" in capsys.readouterr().out


def test_a_card_that_was_changed_is_noticed(bundled):
    path = bundled / f"{catalogue.DEFAULT}.safetensors"
    content = path.read_bytes()
    assert b"BSD-3-Clause" in content
    path.write_bytes(content.replace(b"BSD-3-Clause", b"MIT-3-Clause", 1))
    refused(path)


def test_without_the_list_nothing_bundled_is_used(bundled):
    (bundled / catalogue.SUMS).unlink()
    refused(bundled / f"{catalogue.DEFAULT}.safetensors")


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.safetensors"
    card = ModelCard(name="mine", summary="of doubtful origin", licence="who knows")
    save_network(tiny_net(2, double=False), path, card)
    return path


def test_install_shows_what_a_file_is_before_it_has_it(mine, own_models, capsys, monkeypatch):
    seen = []

    def watched(*arguments, **options):
        seen.append(capsys.readouterr().out)
        return catalogue.install(*arguments, **options)

    monkeypatch.setattr("napari_kpac.weights.install", watched)
    assert main(["models", "install", str(mine)]) == 0
    (shown,) = seen
    for words in ("of doubtful origin", "who knows", "sha256", "parameters", "levels"):
        assert words in shown
    assert "installed as 'mine'" in capsys.readouterr().out


def test_what_is_no_model_is_neither_shown_nor_installed(tmp_path, own_models, capsys):
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"nothing")
    assert main(["models", "install", str(bad)]) == 1
    assert capsys.readouterr().out == ""
    assert not own_models.exists()


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "a\rb", "\x9b31m", "\u202eevil"])
def test_a_card_cannot_steer_the_terminal(text):
    with pytest.raises(kpac.KpacError, match="summary"):
        ModelCard(name="a", summary=text)
    with pytest.raises(kpac.KpacError, match="figures"):
        ModelCard(name="a", figures={text: 1.0})
    with pytest.raises(kpac.KpacError, match="figures"):
        ModelCard(name="a", figures={"psnr": 10**400})


def test_the_sbom_lists_all_that_is_needed(tmp_path, monkeypatch):
    if not tools.FOLDER.exists():
        pytest.skip("installed without its tools")
    sbom = tools.load_tool("sbom")
    out, licences = tmp_path / "sbom.json", tmp_path / "licences.md"
    monkeypatch.setattr("sys.argv", ["sbom.py", "--output", str(out), "--licences", str(licences)])
    sbom.main()
    made = json.loads(out.read_text())
    assert made["bomFormat"] == "CycloneDX"
    assert made["metadata"]["component"]["name"] == "napari-kpac"
    libraries = [each for each in made["components"] if each["type"] == "library"]
    names = {each["name"] for each in libraries}
    assert {"torch", "numpy", "safetensors", "napari", "tifffile", "zarr"} <= names
    assert "pytest-qt" not in names
    assert all(each["licenses"][0]["license"]["name"] for each in libraries)
    models = [each for each in made["components"] if each["type"] == "machine-learning-model"]
    listed = (catalogue.BUNDLED / catalogue.SUMS).read_text()
    assert all(model["hashes"][0]["content"] in listed for model in models)
    assert models
    references = {each["bom-ref"] for each in made["components"]}
    needs = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert set().union(*needs.values()) <= references
    rows = licences.read_text().splitlines()[2:]
    assert len(rows) == len(libraries) + 1
