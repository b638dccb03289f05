import numpy as np
import pytest
from skimage import data
from skimage.io import imsave

from napari_kpac.core.progress import finish
from napari_kpac.datasets import SynthesisOptions, synthesise
from napari_kpac.weights import ModelCard, save_network
from tests.engine.conftest import tiny_net


@pytest.fixture
def tiny_model(own_models):
    """A model called ``tiny``: fast, with five dilations as in the paper."""
    net = tiny_net(3, double=False, dilations=(1, 2, 3, 4, 5))
    save_network(net, own_models / "tiny.safetensors", ModelCard(name="tiny"))
    return "tiny"


@pytest.fixture(scope="session")
def dpdd(tmp_path_factory):
    """Four small pairs in the folders of DPDD, with dual-pixel views and radius maps."""
    photos, output = (tmp_path_factory.mktemp(name) for name in ("photos", "dpdd"))
    for i in range(4):
        part = data.coffee()[i * 70 : i * 70 + 64, 100 + 40 * i : 196 + 40 * i]
        imsave(photos / f"p{i}.png", part, check_contrast=False)
    options = SynthesisOptions(val=1, test=0, dual=True, max_radius=6)
    assert finish(synthesise([photos], output, options)).made == 4
    return output


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Two pairs in plain folders, without radius maps."""
    root = tmp_path_factory.mktemp("pairs")
    for what, smooth in (("source", 4), ("target", 0)):
        (root / what).mkdir()
        for i in range(2):
            part = data.chelsea()[100:164, 100 + 90 * i : 190 + 90 * i].astype(float)
            if smooth:
                part = (part + np.roll(part, smooth, 0) + np.roll(part, smooth, 1)) / 3
            imsave(root / what / f"c{i}.png", part.astype(np.uint8), check_contrast=False)
    return root
