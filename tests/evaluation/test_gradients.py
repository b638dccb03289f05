"""Gradients of results against those of the truth: tools/compare_gradients.py."""

import numpy as np
import pytest
from skimage import data

from napari_kpac.datasets.pairs import Pair
from tests.datasets.making import save
from tests.tools import load_tool


@pytest.fixture(scope="module")
def tool():
    return load_tool("compare_gradients")


def test_slopes_that_are_known(tool):
    """A ramp of 2 grey levels per pixel, and results that are half and twice as steep."""
    ramp = np.repeat(np.arange(60, dtype=np.float32)[None, :, None] * 2 / 255, 60, axis=0)
    sharp = np.repeat(ramp, 3, axis=2)
    radius = np.full((60, 60), 3.0, np.float32)
    pair = Pair("ramp", 0.25 * sharp, sharp, None, radius)
    for factor in (0.5, 1.0, 2.0):
        found = tool.scores(np.float32(factor) * sharp, pair)
        assert np.isnan([score for i, score in enumerate(found) if i != 2]).all()
        at_3_px = found[2]
        assert at_3_px.amount == pytest.approx(factor, rel=1e-3)
        assert at_3_px.distance == pytest.approx(abs(factor - 1) * 2, abs=1e-3)
        assert at_3_px.gain > 0 or factor == 2


def test_a_row_for_every_gain(tool, tmp_path, capsys):
    save(tmp_path / "a.png", data.astronaut()[:400])
    tool.main(["kpac-3level", "--photos", str(tmp_path), "--gain", "0", "1"])
    rows = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows}

    def amounts(name):
        cells = found[name]
        return np.array([np.nan if cell == "-" else float(cell.split("/")[1]) for cell in cells])

    blurred, muted, full = (amounts(n) for n in ("input", "kpac-3level, 0", "kpac-3level, 1"))
    np.testing.assert_allclose(muted, blurred, atol=0.06)
    there = np.isfinite(full)
    assert there.any()
    assert (full[there] >= blurred[there] - 0.02).all()
    assert (full[there] > blurred[there] + 0.05).any()
