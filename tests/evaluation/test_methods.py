"""Classical methods: their settings do what they say, and can be tuned."""

from types import SimpleNamespace

import numpy as np
import pytest
from skimage import data

import napari_kpac as kpac
from napari_kpac.evaluation import methods
from napari_kpac.evaluation.methods import SETTINGS, classical_method
from napari_kpac.evaluation.metrics import psnr
from napari_kpac.optics import Aperture, apply_kernel, psf
from tests.datasets.making import save
from tests.tools import load_tool

SHARP = (data.astronaut()[60:220, 160:320] / 255).astype(np.float32)


@pytest.fixture(scope="module")
def blurred():
    return apply_kernel(SHARP, psf(Aperture("disc"), 2.5)).astype(np.float32)


def restore(name, image, settings=None, radius=None):
    options = kpac.EvaluateOptions(root="unused", radius=radius)
    return classical_method(name, options, settings).restore(image, None)


def gain(made, blurred):
    """Return the PSNR above the blurred image's, away from the border."""
    inner = np.s_[24:-24, 24:-24]
    return psnr(made[inner], SHARP[inner]) - psnr(blurred[inner], SHARP[inner])


def test_unsharp_masking_adds_the_amount(blurred):
    from scipy.ndimage import gaussian_filter

    made = restore("unsharp", blurred, {"radius": 1.5, "amount": 0.7})
    soft = gaussian_filter(blurred, (1.5, 1.5, 0), mode="reflect")
    np.testing.assert_allclose(made, np.clip(blurred + 0.7 * (blurred - soft), 0, 1), atol=1e-4)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("wiener", {"balance": 0.001, "aperture": "gaussian"}),
        ("richardson-lucy", {"iterations": 20, "aperture": "gaussian"}),
    ],
)
def test_a_disc_that_is_given_is_undone(blurred, name, settings):
    made = restore(name, blurred, settings, radius=2.5)
    assert gain(made, blurred) > 3


def test_the_estimate_is_taken_for_the_shape_that_is_set(blurred, monkeypatch):
    """The blur is a disc, so taking it for one restores more than taking it for a Gaussian."""
    estimate = SimpleNamespace(sigma=np.full(SHARP.shape[:2], 1.25, np.float32))
    monkeypatch.setattr(methods, "defocus_map", lambda image: estimate)
    disc, gaussian = (
        gain(restore("richardson-lucy", blurred, {"iterations": 20, "aperture": shape}), blurred)
        for shape in ("disc", "gaussian")
    )
    assert disc > gaussian + 0.5
    assert disc > 3


def test_the_settings_are_recorded():
    method = classical_method("richardson-lucy", kpac.EvaluateOptions(root="unused"))
    assert method.settings["iterations"] == SETTINGS["richardson-lucy"]["iterations"]
    assert SETTINGS["richardson-lucy"]["aperture"] in method.settings["blur"]


def test_tuning_prints_every_setting_best_first(tmp_path, monkeypatch, capsys):
    tool = load_tool("tune_methods")
    grid = {"unsharp": {"radius": (1.0,), "amount": (0.5, 6.0)}, "two-step": {"weight": (1e3,)}}
    monkeypatch.setattr(tool, "GRID", grid)
    for name, image in (("a", data.astronaut()), ("b", data.coffee()[:, 100:])):
        save(tmp_path / f"{name}.png", image[:400])
    tool.main(["--photos", str(tmp_path), "--limit", "2"])
    lines = capsys.readouterr().out.splitlines()
    first = lines.index(next(line for line in lines if line.startswith("unsharp")))
    found = [line.split() for line in lines[first + 1 : first + 3]]
    assert [each[:2] for each in found] == [["1.0", "0.5"], ["1.0", "6.0"]]
    assert float(found[0][-1]) > float(found[1][-1])
    assert lines[-1].startswith("1000.0")
