import numpy as np
import pytest

from napari_kpac.weights import ModelCard, save_network
from tests.engine.conftest import tiny_net


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Files of two tiny models: for one image, and for dual-pixel pairs."""
    folder = tmp_path_factory.mktemp("models")
    found = []
    for name, views in (("tiny", 1), ("tiny-dual", 2)):
        found.append(folder / f"{name}.safetensors")
        save_network(tiny_net(2, double=False, views=views), found[-1], ModelCard(name=name))
    return found


@pytest.fixture(scope="session")
def photo():
    from skimage import data

    return np.ascontiguousarray(data.coffee()[100:164, 200:280])
