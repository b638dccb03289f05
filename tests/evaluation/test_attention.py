"""Attention, muting and sharp input on cases whose radius is known."""

import numpy as np
import pytest
from skimage import data

from napari_kpac import Modulation, deblur
from napari_kpac.datasets.pairs import Pair
from napari_kpac.evaluation.attention import (
    MUTED_FAR,
    MUTED_NEAR,
    SHARP_KEPT,
    cost_column,
    examine,
    in_focus,
    muting_columns,
    sample,
    sample_variance,
    separation,
)
from napari_kpac.evaluation.benchmark import textured
from napari_kpac.evaluation.methods import ModelMethod, load_models
from napari_kpac.evaluation.metrics import fitted, psnr
from napari_kpac.evaluation.study import with_noise
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
    return ModelMethod("tiny")


def test_what_is_examined_is_what_deblurring_gives(case, model):
    found = examine(model, case)
    plain = deblur(case.blurred, "tiny", range="unit")
    np.testing.assert_allclose(found.restored, plain.image, atol=1e-5)
    muted = deblur(case.blurred, "tiny", range="unit", modulation=Modulation([1, 1, 1, 0, 0]))
    far = np.abs(case.radius) >= 6
    for name, where in ((MUTED_FAR, far), (MUTED_NEAR, ~far)):
        cost = psnr(plain.image, case.sharp, where) - psnr(muted.image, case.sharp, where)
        assert found.scores[name] == pytest.approx(cost, abs=1e-3)
    again = deblur(case.sharp, "tiny", range="unit").image
    assert found.scores[SHARP_KEPT] == pytest.approx(psnr(again, case.sharp), abs=1e-3)
    alphas = plain.alpha_at_image()[0]
    kept = textured(case.sharp)[::4, ::4]
    assert set(found.samples) == {"blurred", *(f"alpha{i}" for i in range(1, 6))}
    np.testing.assert_allclose(found.samples["alpha3"], alphas[2, ::4, ::4][kept], atol=1e-5)
    assert np.array_equal(found.samples["blurred"], far[::4, ::4][kept])


@pytest.mark.parametrize("fit", [False, True])
def test_the_cost_of_muting_is_what_deblurring_without_these_alphas_gives(case, model, fit):
    found = examine(model, case, fit=fit)

    def score(gains, where=None):
        image = deblur(
            case.blurred, "tiny", range="unit", modulation=Modulation([gains, gains])
        ).image
        return psnr(fitted(image, case.sharp) if fit else image, case.sharp, where)

    single = {f"dilation {i}": [float(j != i) for j in range(1, 6)] for i in range(1, 6)}
    far = case.radius >= 4
    costs = {}
    for muted, gains in {"everything": [0.0] * 5, **single}.items():
        for place, where in (("", None), ("at 0-1 px", ~far), ("at 4-8 px", far)):
            expected = score([1.0] * 5, where) - score(gains, where)
            name = cost_column(muted, place)
            costs[name] = found.scores[name]
            assert found.scores[name] == pytest.approx(expected, abs=1e-3), name
        # Nothing has these radii.
        assert cost_column(muted, "at 1-2 px") not in found.scores
    assert np.ptp(list(costs.values())) > 0.1
    named = muting_columns(model.config.dilations, radius_known=True)
    assert set(costs) < set(named)
    assert {*found.scores} - {SHARP_KEPT} <= set(named)


def test_the_image_is_encoded_once_for_all_mutings(case, model, monkeypatch):
    from napari_kpac.engine.stages import Stages

    encode, calls = Stages.encode, []
    monkeypatch.setattr(
        Stages, "encode", lambda run, *given: calls.append(run) or encode(run, *given)
    )
    examine(model, case)
    assert len(calls) == 2  # the blurred image and the sharp one


def test_without_a_radius_everything_is_muted_over_all_pixels(case, model):
    unknown = Pair("x", case.blurred, case.sharp)
    found = examine(model, unknown)
    whole = examine(model, case)
    assert list(found.scores) == ["cost of muting everything"]
    assert found.scores["cost of muting everything"] == pytest.approx(
        whole.scores["cost of muting everything"], abs=1e-6
    )
    assert found.samples is None


def test_a_network_without_alphas_has_none_to_mute(case, own_models):
    net = tiny_net(2, double=False, scale_attention=False)
    save_network(net, own_models / "plain.safetensors", ModelCard(name="plain"))
    assert list(examine(ModelMethod("plain"), case).scores) == [SHARP_KEPT]


def test_sharp_kept_has_the_noise_that_is_given(case, model):
    noisy = with_noise(in_focus(case), 3, (0, 0))
    kept = examine(model, case, noisy).scores[SHARP_KEPT]
    again = deblur(noisy.blurred, "tiny", range="unit").image
    assert kept == pytest.approx(psnr(again, case.sharp), abs=1e-3)
    assert kept != pytest.approx(examine(model, case).scores[SHARP_KEPT], abs=0.05)


def test_separation_counts_pairs_of_pixels(case):
    rng = np.random.default_rng(0)
    pieces = [
        {"m": rng.integers(0, 9, 40).astype(np.float32), "blurred": rng.random(40) < 0.4}
        for _ in range(3)
    ]
    values = np.concatenate([piece["m"] for piece in pieces])
    blurred = np.concatenate([piece["blurred"] for piece in pieces])
    a, b = values[blurred][:, None], values[~blurred]
    expected = np.mean((a > b) + 0.5 * (a == b))
    assert separation(pieces) == {"m": pytest.approx(expected, abs=1e-9)}
    found = sample(case, {"truth": case.radius, "opposite": -case.radius})
    assert separation([found]) == {"truth": 1, "opposite": 0}
    assert separation([sample_variance(case)])["variance"] > 0.7
    assert separation([]) == {}
    assert separation([{"m": values, "blurred": np.ones(values.shape, bool)}]) == {}


def test_radii_in_between_do_not_count(case):
    between = Pair("x", case.blurred, case.sharp, radius=np.full(case.radius.shape, 1.0, "f4"))
    assert sample(between, {"m": case.radius})["blurred"].size == 0


def test_models_are_named_shortly_but_never_alike(model, tmp_path, own_models):
    paths = [tmp_path / name / "best.safetensors" for name in "ab"]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes((own_models / "tiny.safetensors").read_bytes())
    given = [str(path) for path in paths]
    assert [m.name for m in load_models(["tiny", given[0]], "cpu")] == ["tiny", "best.safetensors"]
    assert [m.name for m in load_models(given, "cpu")] == given
