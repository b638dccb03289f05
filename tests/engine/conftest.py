import numpy as np
import pytest

import napari_kpac as kpac


def tiny_net(levels=3, *, double=True, **fields):
    config = kpac.KPACConfig(
        **{"levels": levels, "channels": 4, "shape_hidden": 2, "dilations": (1, 2, 4), **fields}
    )
    net = kpac.build(config, seed=3)
    # As large as keeps the signal's size from layer to layer, so that every path matters.
    for parameter in net.parameters():
        if parameter.ndim > 1:
            parameter.data.mul_(1.4 / parameter[0].numel() ** 0.5 / parameter.std())
    # Alpha and beta take their share away again.
    for block in net.blocks:
        block.fusion.weight.data.mul_(12)
    return net.double() if double else net


@pytest.fixture(scope="session")
def photograph():
    from skimage import data

    return data.coffee()


@pytest.fixture
def rng():
    return np.random.default_rng(0)
