"""Models by name: bundled, installed, removed."""

import pytest

import napari_kpac as kpac
from napari_kpac.weights import ModelCard, find, install, remove, save_network
from tests import reference

TINY = kpac.KPACConfig(levels=2, channels=4, shape_hidden=2)


@pytest.fixture
def model_file(tmp_path):
    path = tmp_path / "some.safetensors"
    save_network(kpac.build(TINY, seed=0), path, ModelCard(name="mine"))
    return path


def test_the_bundled_models_load_and_are_what_their_cards_say():
    bundled = [entry for entry in kpac.models() if entry.origin == "bundled"]
    assert find("default") in bundled
    for entry in bundled:
        net = kpac.load(entry.name)
        assert net.config == entry.config
        assert net.card == entry.card
        assert entry.card.licence == "BSD-3-Clause"
        assert entry.card.training_data


def test_install_load_remove(model_file, own_models):
    entry = install(model_file)
    assert entry.path.parent == own_models
    assert "mine" in [e.name for e in kpac.models()]
    assert kpac.load("mine").config == TINY
    with pytest.raises(kpac.KpacError, match="already"):
        install(model_file)
    install(model_file, overwrite=True)
    install(model_file, "other")
    assert kpac.load("other").card.name == "other"
    remove("mine")
    with pytest.raises(kpac.KpacError, match="mine"):
        kpac.load("mine")


def test_install_converts_the_authors_files(tmp_path):
    config = kpac.KPACConfig(levels=2, channels=6, shape_hidden=3)
    reference.write_authors_file(
        tmp_path / "single_2level.npz", reference.random_params(config), config
    )
    assert install(tmp_path / "single_2level.npz").name == "single_2level"
    assert "AGPL" in kpac.load("single_2level").card.licence


@pytest.mark.parametrize("name", ["kpac-3level", "default", "../evil", "a/b", "", ".hidden"])
def test_names_that_cannot_be_taken(model_file, own_models, name):
    with pytest.raises(kpac.KpacError):
        install(model_file, name)
    assert not own_models.exists()


def test_bundled_models_cannot_be_removed():
    with pytest.raises(kpac.KpacError, match="came with the package"):
        remove("default")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(kpac.KpacError, match="kpac-3level"):
        kpac.load("kpac-4level")


def test_a_bad_file_is_not_installed(tmp_path, own_models):
    (tmp_path / "bad.safetensors").write_bytes(b"nothing")
    with pytest.raises(kpac.KpacError):
        install(tmp_path / "bad.safetensors")
    assert not own_models.exists()


def test_a_broken_file_in_the_folder_does_not_hide_the_others(model_file, own_models):
    install(model_file)
    (own_models / "broken.safetensors").write_bytes(b"nothing")
    assert {"mine", "kpac-3level"} <= {entry.name for entry in kpac.models()}
