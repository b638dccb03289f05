import numpy as np
import pytest

import napari_kpac as kpac


def tiny_net(levels=3, *, double=True, **fields):
    config = kpac.KPACConfig(
        **{"levels": levels, "channels": 4, "shape_hidden": 2, "dilations": (1, 2, 4), **fields}
    )
    net = kpac.build(config, seed=3)
    # Larger weights than at initialisation, so that every path matters.
    for parameter in net.parameters():
        parameter.data.mul_(4 if parameter.ndim > 1 else 1)
    return net.double() if double else net


@pytest.fixture(scope="session")
def photograph():
    from skimage import data

    return data.coffee()


@pytest.fixture
def rng():
    return np.random.default_rng(0)
