"""Opening the mixer on a large image: a look at what is on screen first, then exact pixels."""

import numpy as np
import pytest
from qtpy.QtCore import Qt

import napari_kpac as kpac
from napari_kpac.engine import sampling
from napari_kpac.widgets.mixer import MixerWidget, renderer
from tests.gui.conftest import WAIT, result_of


@pytest.fixture
def results(monkeypatch):
    """What the sessions of the mixer render, in order."""
    made = []
    original = kpac.Session.render

    def render(self, *args, **kwargs):
        result = original(self, *args, **kwargs)
        made.append(result)
        return result

    monkeypatch.setattr(kpac.Session, "render", render)
    monkeypatch.setattr(renderer, "FIRST_LOOK_PX", 20_000)
    monkeypatch.setattr(sampling, "CROP_PX", 32)
    monkeypatch.setattr(sampling, "MARGIN_PX", 16)
    monkeypatch.setattr(sampling, "SAMPLE_PX", 12 * 32**2)
    return made


def open_mixer(viewer, docked, qtbot, large):
    widget = docked(MixerWidget)
    qtbot.mouseClick(widget._open, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: widget._shown.whole is not None, timeout=WAIT)
    wanted = kpac.deblur(large, "tiny").image.astype(int)
    found = result_of(viewer, "large (mixer)").data
    assert np.abs(found - wanted).max() <= 1
    return widget


def test_the_whole_image_appears_at_the_resolution_of_the_screen(
    viewer, docked, tiny_model, image, qtbot, results
):
    large = np.tile(image, (6, 6, 1))
    viewer.add_image(large, name="large")
    open_mixer(viewer, docked, qtbot, large)
    first, second = results[:2]
    assert first.draft
    top, bottom, left, right = first.region or (0, 576, 0, 768)
    on_screen = (bottom - top) * (right - left)
    assert on_screen > 100_000
    # So many pixels of the image became one of those that were rendered, along each side.
    assert 1 <= (first.scale / 8) ** 2 / (on_screen / renderer.FIRST_LOOK_PX) < 2
    assert not second.draft
    assert second.region is None


def test_a_part_on_screen_appears_in_full_without_the_rest(
    viewer, docked, tiny_model, image, qtbot, results
):
    large = np.tile(image, (14, 14, 1))
    layer = viewer.add_image(large, name="large")
    viewer.scene.camera.center, viewer.scene.camera.zoom = (400, 500), 12
    qtbot.waitUntil(lambda: layer.corner_pixels[0].max() > 300, timeout=WAIT)
    open_mixer(viewer, docked, qtbot, large)
    first, second = results[:2]
    assert first.sampled
    assert not first.draft
    top, bottom, left, right = first.region
    assert min(top, left) > 300
    assert bottom - top < 200
    exact = second.image[top:bottom, left:right].astype(int)
    change = np.abs(exact - large[top:bottom, left:right]).mean()
    # The weights are random; the documentation has the differences of real ones.
    assert np.abs(first.image - exact).mean() < 0.2 * change
