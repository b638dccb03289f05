"""Attention, muting and sharp input on cases whose radius is known."""

import numpy as np
import pytest
from skimage import data

from napari_kpac import Modulation, deblur
from napari_kpac.datasets.pair import Pair
from napari_kpac.evaluation.comparators import ModelComparator, make_models
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.evaluation.probe import (
    MUTED_FAR,
    MUTED_NEAR,
    SHARP_KEPT,
    Evidence,
    evidence,
    examine,
    separation,
    variance_evidence,
)
from napari_kpac.evaluation.texture import textured
from napari_kpac.optics import defocus
from napari_kpac.weights import ModelCard, save_network
from tests.engine.conftest import tiny_net


@pytest.fixture(scope="module")
def case():
    sharp = (data.coffee()[100:196, 150:278] / np.float32(255)).astype(np.float32)
    radius = np.zeros(sharp.shape[:2], np.float32)
    radius[:, 64:] = 7.0
    return Pair("case", defocus(sharp, radius).image, sharp, radius=radius)


@pytest.fixture
def model(own_models):
    net = tiny_net(3, double=False, dilations=(1, 2, 3, 4, 5))
    save_network(net, own_models / "tiny.safetensors", ModelCard(name="tiny"))
    return ModelComparator("tiny")


def test_a_probe_is_what_deblurring_gives(case, model):
    probe = examine(model, case)
    plain = deblur(case.blurred, "tiny", range="unit")
    np.testing.assert_allclose(probe.restored, plain.image, atol=1e-5)
    muted = deblur(case.blurred, "tiny", range="unit", modulation=Modulation([1, 1, 1, 0, 0]))
    far = np.abs(case.radius) >= 6
    for name, where in ((MUTED_FAR, far), (MUTED_NEAR, ~far)):
        cost = psnr(plain.image, case.sharp, where) - psnr(muted.image, case.sharp, where)
        assert probe.scores[name] == pytest.approx(cost, abs=1e-3)
    again = deblur(case.sharp, "tiny", range="unit").image
    assert probe.scores[SHARP_KEPT] == pytest.approx(psnr(again, case.sharp), abs=1e-3)
    alphas = plain.alpha_at_image()[0]
    kept = textured(case.sharp)[::4, ::4]
    assert set(probe.evidence.values) == {f"alpha{i}" for i in range(1, 6)}
    np.testing.assert_allclose(
        probe.evidence.values["alpha3"], alphas[2, ::4, ::4][kept], atol=1e-5
    )
    assert np.array_equal(probe.evidence.blurred, far[::4, ::4][kept])


def test_separation_counts_pairs_of_pixels(case):
    rng = np.random.default_rng(0)
    pieces = [Evidence({"m": rng.integers(0, 9, 40).astype(np.float32)}, rng.random(40) < 0.4)
              for _ in range(3)]  # fmt: skip
    values = np.concatenate([piece.values["m"] for piece in pieces])
    blurred = np.concatenate([piece.blurred for piece in pieces])
    a, b = values[blurred][:, None], values[~blurred]
    expected = np.mean((a > b) + 0.5 * (a == b))
    assert separation(pieces) == {"m": pytest.approx(expected, abs=1e-9)}
    found = evidence(case, {"truth": case.radius, "opposite": -case.radius})
    assert separation([found]) == {"truth": 1, "opposite": 0}
    assert separation([variance_evidence(case)])["variance"] > 0.7
    assert separation([]) == {}
    assert separation([Evidence({"m": values}, np.ones(values.shape, bool))]) == {}


def test_radii_in_between_do_not_count(case):
    between = Pair("x", case.blurred, case.sharp, radius=np.full(case.radius.shape, 1.0, "f4"))
    assert evidence(between, {"m": case.radius}).blurred.size == 0


def test_models_are_named_shortly_but_never_alike(model, tmp_path, own_models):
    paths = [tmp_path / name / "best.safetensors" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes((own_models / "tiny.safetensors").read_bytes())
    given = [str(path) for path in paths]
    assert [m.name for m in make_models(["tiny", given[0]], "cpu")] == ["tiny", "best.safetensors"]
    assert [m.name for m in make_models(given, "cpu")] == given
