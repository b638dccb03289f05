"""The model of a run in the catalogue, and what a run leaves behind that could not begin."""

import numpy as np
import pytest
from safetensors.numpy import load_file

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.progress import catalogue
from napari_kpac.images import write_image
from napari_kpac.training import TrainOptions, train
from napari_kpac.training.run_folder import RunFolder, install_best
from napari_kpac.weights import ModelCard, remove, save_network
from tests.engine.conftest import tiny_net


class Listener:
    """Counts what it hears."""

    def __init__(self):
        self.heard = 0

    def hear(self):
        self.heard += 1


def make_run(folder, seed):
    net = tiny_net(3, double=False)
    for parameter in net.parameters():
        parameter.data.fill_(seed / 100)
    save_network(net, folder / "best.safetensors", ModelCard(name="any"))
    return folder


def test_a_run_replaces_its_own_model_and_no_other(tmp_path, own_models):
    listener = Listener()
    catalogue.changed.connect(listener.hear)
    run = make_run(tmp_path / "run", 1)
    install_best(run, "mine")
    assert listener.heard == 1
    make_run(run, 2)
    install_best(run, "mine")
    installed, best = own_models / "mine.safetensors", run / "best.safetensors"
    assert all(np.array_equal(load_file(best)[k], v) for k, v in load_file(installed).items())
    with pytest.raises(ConfigError, match="choose another name"):
        install_best(make_run(tmp_path / "other", 3), "mine")
    with pytest.raises(ConfigError, match="choose another name"):
        install_best(run, kpac.models()[0].name)
    with pytest.raises(ConfigError, match="choose another name"):
        install_best(run, "default")
    with pytest.raises(FileError, match="no model yet"):
        install_best(tmp_path, "new")
    assert listener.heard == 2
    remove("mine")
    assert listener.heard == 3
    catalogue.changed.disconnect(listener.hear)
    install_best(run, "again")
    assert listener.heard == 3


def test_the_catalogue_forgets_followers_that_are_gone():
    listener = Listener()
    before = len(catalogue.changed)
    catalogue.changed.connect(listener.hear)
    assert len(catalogue.changed) == before + 1
    del listener
    catalogue.changed.emit()
    assert len(catalogue.changed) == before


def test_a_run_that_cannot_begin_leaves_its_folder_free(tmp_path):
    for name in ("blurred", "sharp"):
        write_image(tmp_path / "pairs" / name / "a.png", np.zeros((24, 24, 3), np.uint8))
    options = {"kind": "pairs", "root": str(tmp_path / "pairs"), "channels": 4}
    run = tmp_path / "run"
    with pytest.raises(FileError, match="at least 32x32 are needed"):
        next(train(TrainOptions(crop_size=32, **options), run))
    assert RunFolder(run).is_free
    steps = train(TrainOptions(crop_size=16, validation_crops=1, **options), run)
    assert next(steps).done == 1
    steps.close()
    assert not RunFolder(run).is_free
