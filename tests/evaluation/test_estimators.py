"""Accuracy of estimators on scenes whose radii are known."""

import json

import numpy as np
import pytest
from skimage import data
from skimage.io import imsave

from napari_kpac.cli import main
from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.progress import finish
from napari_kpac.evaluation.attention import UpsamplingResult, upsampling_steps
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.estimators import accuracy
from napari_kpac.evaluation.methods import ModelMethod


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    imsave(folder / "a.png", data.astronaut()[:400, 50:450], check_contrast=False)
    return folder


def test_a_perfect_map_and_its_opposite():
    radius = np.random.default_rng(0).uniform(0, 12, 4000).astype(np.float32)
    texture = np.arange(4000) % 2 == 0
    found = accuracy("perfect", radius / 2, radius, texture, in_pixels=True)
    assert found.error == pytest.approx(0, abs=1e-6)
    assert found.rank_correlation == pytest.approx(1)
    assert (found.roc_auc, found.roc_auc_texture) == (1, 1)
    assert set(found.errors) == {"0-1", "1-2", "2-4", "4-8", "8-12"}
    shifted = accuracy("shifted", radius / 2 + 0.5, radius, texture, in_pixels=True)
    assert shifted.error == pytest.approx(0.5, abs=1e-5)
    opposite = accuracy("opposite", -radius, radius, texture, in_pixels=False)
    assert opposite.error is None
    assert opposite.roc_auc == 0
    flat = accuracy("flat", np.ones_like(radius), radius, texture, in_pixels=True)
    assert flat.rank_correlation is None
    assert flat.roc_auc == pytest.approx(0.5)


def test_the_terminal_prints_every_estimator(photos, tiny_model, capsys):
    call = ["reproduce", "estimators", "--root", str(photos), "--model", tiny_model]
    assert main([*call, "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    labels = {each.label for each in ESTIMATORS if not each.needs_model}
    assert set(rows) == {*labels, "alpha_1", "local variance", "median everywhere"}
    assert rows["EBDB"]["error"] > 0
    assert rows["JNB"]["rank_correlation"] is not None
    with pytest.raises(SystemExit) as stop:
        main([*call, "--estimator-model", "nosuch=x"])
    assert stop.value.code == 2


def test_the_best_upsampling_is_measured(photos, tiny_model):
    found = finish(upsampling_steps(ModelMethod(tiny_model), SyntheticCases(photos, limit=1)))
    assert set(found.roc_auc) <= {1, 2, 4}
    assert UpsamplingResult({1: 0.9, 2: 0.903, 4: 0.7}).best == 1
    assert UpsamplingResult({1: 0.9, 2: 0.93, 4: 0.7}).best == 2
    assert UpsamplingResult({1: 0.9, 2: 0.93, 4: 0.95}).best == 4
