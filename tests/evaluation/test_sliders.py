"""What the sliders do, against plain deblurring with the same gains."""

import numpy as np
import pytest

from napari_kpac import EvaluateOptions, Modulation, deblur, evaluate
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.progress import finish
from napari_kpac.core.sliders import (
    GAINS,
    INPUT_KEPT,
    change_column,
    dilations_of,
    overshoot_column,
    won_column,
)
from napari_kpac.core.units import RADIUS_BINS
from napari_kpac.datasets.pairs import Pair
from napari_kpac.evaluation.attention import examine
from napari_kpac.evaluation.methods import ModelMethod
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.evaluation.sliders import overshoot, slider_columns
from napari_kpac.evaluation.tables import tables_of

SHARP, FAR = RADIUS_BINS[0], RADIUS_BINS[3]


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    sharp = rng.random((48, 64, 3)).astype(np.float32)
    radius = np.zeros((48, 64), np.float32)
    radius[:, 32:] = 5
    blurred = (0.5 * sharp + 0.25).astype(np.float32)
    return Pair("case", blurred, sharp, radius=radius)


def test_all_columns_are_what_deblurring_with_these_gains_gives(case, tiny_model):
    network = ModelMethod(tiny_model)
    dilations = network.config.dilations
    found = examine(network, case, sliders=True).scores
    far = case.radius > 0

    def render(gains):
        return deblur(
            case.blurred, tiny_model, range="unit", modulation=Modulation(gains)
        ).image.clip(0, 1)

    results = {gain: render([gain] * 5) for gain in GAINS}
    for gain, image in results.items():
        for where, mask in ((None, None), (SHARP, ~far), (FAR, far)):
            expected = psnr(image, case.sharp, mask) - psnr(case.blurred, case.sharp, mask)
            assert found[won_column(gain, where)] == pytest.approx(expected, abs=1e-3)
        share = 100 * overshoot(image, case.sharp)
        assert found[overshoot_column(gain)] == pytest.approx(share, abs=0.05)
    assert found[INPUT_KEPT] == pytest.approx(psnr(results[0], case.blurred), abs=1e-2)
    for dilation in dilations:
        muted = render([float(other != dilation) for other in dilations])
        difference = 255 * (muted - results[1])
        for where, mask in ((None, ...), (SHARP, ~far), (FAR, far)):
            expected = np.sqrt((difference[mask] ** 2).mean())
            assert found[change_column(dilation, where)] == pytest.approx(expected, abs=1e-2)
    assert len({round(found[change_column(dilation)], 4) for dilation in dilations}) == 5
    # No pixel has these radii.
    assert won_column(0.5, RADIUS_BINS[1]) not in found
    columns = slider_columns(dilations)
    assert {*found} & {*columns} == {name for name in columns if "1-2" not in name} - {
        name for name in columns if "2-4" in name or "8-12" in name
    }
    assert dilations_of(found) == list(dilations)
    assert not {*examine(network, case).scores} & {*columns}


def test_overshoot_counts_values_beyond_the_truth_around_them():
    truth = np.full((20, 20, 3), 0.5, np.float32)
    truth[:, 10:] = 0.8
    result = truth.copy()
    assert overshoot(result, truth) == 0
    result[4, 5, 0] += 5 / 255  # too bright
    result[4, 15] -= 5 / 255  # too dark, in three channels
    result[9, 9] = 0.8  # as bright as its neighbours are
    result[12, 2] += 3 / 255  # hardly
    assert overshoot(result, truth) == pytest.approx(4 / truth.size)


def test_tables_show_what_the_sliders_do(dpdd, tiny_model):
    options = EvaluateOptions(
        kind="dpdd", root=str(dpdd), model=(tiny_model,), sliders=True, lpips=False, limit=2
    )
    found = finish(evaluate(options))
    together, single = (table for table in tables_of(found) if "slider" in table.title.lower())
    means = next(line.means for line in found.lines if line.method == tiny_model)
    half = next(row for row in together.rows if row[2] == "0.5")
    assert half[-3] == f"{means[won_column(0.5)]:.2f}"
    assert [row[2] for row in single.rows] == list("12345")
    assert single.rows[2][-1] == f"{means[change_column(3)]:.2f}"


def test_without_radii_sliders_are_refused(folders, tiny_model):
    options = EvaluateOptions(kind="pairs", root=str(folders), model=(tiny_model,), sliders=True)
    with pytest.raises(ConfigError, match="radius of the blur, which is not known here"):
        finish(evaluate(options))
