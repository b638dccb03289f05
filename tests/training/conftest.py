"""Photographs to train on, and options of runs that take a second."""

from pathlib import Path

import pytest
import torch
from skimage import data, io

from napari_kpac.network import KPACConfig, KPACNet, build
from napari_kpac.training import TrainOptions

TINY = {
    "channels": 4,
    "crop_size": 32,
    "batch_size": 2,
    "max_radius": 2.0,
    "shrink": 1.0,
    "steps": 8,
    "warmup": 2,
    "validate_every": 4,
    "validation_crops": 2,
    "save_every": 3,
    "threads": 1,
    "name": "tiny",
}


def lively_net(seed: int = 2) -> KPACNet:
    """A small network with weights so large that attention and noise make a difference."""
    net = build(KPACConfig(channels=4), seed=seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(6)
    return net.requires_grad_(False)


@pytest.fixture(scope="session")
def photos(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    for i, image in enumerate((data.astronaut(), data.coffee(), data.chelsea())):
        io.imsave(folder / f"{i}.png", image[:200, 40:260], check_contrast=False)
    return folder


@pytest.fixture
def options(photos):
    def make(**changes) -> TrainOptions:
        return TrainOptions(**{**TINY, "root": str(photos), **changes})

    return make


@pytest.fixture
def one_thread():
    """Small tensors are computed faster by one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
