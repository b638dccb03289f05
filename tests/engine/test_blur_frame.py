"""Blur maps: neither the padding at the frame nor the cells of alpha show."""

import numpy as np
import pytest
from scipy.ndimage import uniform_filter
from skimage import data

import napari_kpac as kpac
from napari_kpac.engine.job import best_upsampling
from napari_kpac.weights import ModelCard
from napari_kpac.weights.store import IMPORTED, UPSAMPLING

STRIP_PX = 16


@pytest.mark.parametrize("model", ["kpac-3level", "kpac-2level"])
@pytest.mark.parametrize("texture", ["gravel", "grass"])
def test_the_frame_of_a_sharp_image_does_not_read_as_blurred(model, texture):
    values = kpac.blur_map(getattr(data, texture)()[:200, :200], model)
    strip = np.ones(values.shape, bool)
    strip[STRIP_PX:-STRIP_PX, STRIP_PX:-STRIP_PX] = False
    inside = values[48:-48, 48:-48]
    assert values[strip].mean() < inside.mean() + 0.01


def bends(values, period, axis):
    """Return how much stronger a map bends at some phase of a period than on average."""
    bend = np.abs(np.diff(values, 2, axis=axis)).mean(axis=1 - axis)
    phases = bend[: len(bend) // period * period].reshape(-1, period).mean(axis=0)
    return phases.max() / phases.mean()


@pytest.mark.parametrize(("model", "cell"), [("kpac-3level", 8), ("kpac-2level", 4)])
def test_no_grid_of_cells_shows(model, cell):
    image = data.coffee()[:200, :264]
    values = kpac.blur_map(image, model, upsampling=1)
    linear = kpac.deblur(image, model).alpha_at_image()[0, 0]
    for axis in (0, 1):
        assert bends(linear, cell, axis) > 0.45 * cell  # what this is about
        assert bends(values, cell, axis) < 1.35


def test_away_from_the_frame_it_is_alpha_smoothed_over_a_cell():
    image = data.astronaut()[:424, :424]
    values = kpac.blur_map(image, "kpac-3level", upsampling=1)
    alpha = kpac.deblur(image, "kpac-3level").alpha_at_image()[0, 0]
    smooth = (uniform_filter(alpha, 8, origin=0) + uniform_filter(alpha, 8, origin=-1)) / 2
    other = (
        uniform_filter(alpha, 8, origin=(0, -1)) + uniform_filter(alpha, 8, origin=(-1, 0))
    ) / 2
    middle = (slice(204, 220),) * 2
    np.testing.assert_allclose(values[middle], ((smooth + other) / 2)[middle], atol=1e-5)


def test_the_best_upsampling_comes_from_the_card():
    assert best_upsampling(ModelCard("a", settings={UPSAMPLING: 2})) == 2
    assert best_upsampling(ModelCard("a")) == 1
    assert best_upsampling(ModelCard("a", status=IMPORTED)) == 4
    assert best_upsampling(ModelCard("a", settings={UPSAMPLING: 3})) == 1
    for entry in kpac.models():
        if entry.origin == "bundled":
            factor = entry.card.settings[UPSAMPLING]
            figures = {
                n: entry.card.figures[f"blur map ROC AUC, upsampling {n}"] for n in (1, 2, 4)
            }
            assert figures[factor] >= max(figures.values()) - 0.005
