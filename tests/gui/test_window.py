"""A real napari window with the plugin's demo in it."""

import napari
import numpy as np
import pytest
from npe2 import PluginManager

from napari_kpac.widgets.samples import fill_demo


@pytest.fixture
def viewer():
    viewer = napari.Viewer(show=True)
    yield viewer
    viewer.close()


def test_the_demo_fills_a_real_window(viewer):
    image = np.zeros((32, 48, 3), np.uint8)
    alpha = np.random.default_rng(0).random((2, 5, 32, 48), dtype=np.float32)
    fill_demo(viewer, image, image + 200, alpha, alpha[0, 0])
    names = [layer.name for layer in viewer.layers]
    assert names == ["input", "alpha of block 1", "alpha of block 2", "blur map", "deblurred"]
    shot = viewer.screenshot(canvas_only=True, flash=False)
    assert (shot[shot.shape[0] // 2, shot.shape[1] // 2, :3] == 200).all()


def test_the_sample_opens_offline(viewer):
    PluginManager.instance().discover()
    (layer,) = viewer.open_sample("napari-kpac", "coffee")
    assert layer.rgb
    assert layer.data.shape == (400, 600, 3)
