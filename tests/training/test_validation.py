"""Scores of a validation: against the same figures worked out by hand."""

import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

import napari_kpac as kpac
from napari_kpac.core.progress import finish
from napari_kpac.datasets.pairs import Pair
from napari_kpac.datasets.photographs import PLAIN
from napari_kpac.images import write_image
from napari_kpac.training.examples import Data, collate, open_data
from napari_kpac.training.processes import Processes
from napari_kpac.training.validation import (
    BINS,
    _fitted_error,
    figure_names,
    run,
    validate_steps,
)
from tests.training.conftest import lively_net

ALONE = SimpleNamespace(rank=0, world=1, device=torch.device("cpu"), mean=lambda value: value)


def one_of_two(rank, mean):
    return SimpleNamespace(rank=rank, world=2, device=torch.device("cpu"), mean=mean)


def pair(seed: int, radius: float | None) -> Pair:
    rng = np.random.default_rng(seed)
    sharp = rng.uniform(0.2, 0.8, (32, 32, 3)).astype(np.float32)
    blurred = sharp + rng.normal(0, 0.05, sharp.shape).astype(np.float32)
    known = None if radius is None else np.full((32, 32), radius, np.float32)
    return Pair(f"{seed}", blurred, sharp, None, known)


def psnr(one: torch.Tensor, other: torch.Tensor) -> float:
    return -10 * math.log10(float(((one - other) / 2).double().pow(2).mean()))


def test_every_figure_is_what_it_says(options):
    radii = [0.5, 1.5, 3.0, 3.5]
    pairs = [pair(i, radius) for i, radius in enumerate(radii)]
    real = [pair(10 + i, None) for i in range(4)]
    data = Data(
        lambda rng, now: pairs[0],
        lambda rng, now, index: pairs[index],
        "",
        {},
        lambda rng, now, index: real[index],
    )
    net = lively_net()
    scores = finish(validate_steps(net, data, options(validation_crops=4), ALONE))

    def gain(each, gains=None):
        examples = collate([each])
        output = run(net, examples, [], gains).clamp(-1, 1)
        return psnr(output, examples.sharp) - psnr(examples.blurred.clamp(-1, 1), examples.sharp)

    gains = [gain(each) for each in pairs]
    assert scores.gains == pytest.approx(
        {"all": np.mean(gains), "0-1 px": gains[0], "1-2 px": gains[1],
         "2-4 px": np.mean(gains[2:])}, abs=1e-3,
    )  # fmt: skip
    everything = [each - gain(one, [0] * 5) for each, one in zip(gains, pairs, strict=True)]
    assert scores.muting[0]["all"] == pytest.approx(np.mean(everything), abs=1e-3)
    third = gains[1] - gain(pairs[1], [1, 1, 0, 1, 1])
    assert scores.muting[3]["1-2 px"] == pytest.approx(third, abs=1e-3)
    kept = [
        psnr(run(net, replace(x, blurred=x.sharp), []).clamp(-1, 1), x.sharp)
        for x in (collate([each]) for each in pairs)
    ]
    assert scores.sharp_kept == pytest.approx(np.mean(kept), abs=1e-3)
    assert scores.real.worst <= scores.real.mean
    assert set(scores.noisy) == set(scores.gains)
    assert scores.noisy["all"] != pytest.approx(scores.gains["all"], abs=1e-3)
    assert set(scores.figures()) <= set(figure_names(5))
    assert scores.figures()["cost of muting 3 1-2 px"] == scores.muting[3]["1-2 px"]


def test_validation_has_the_bins_of_the_benchmark_and_one_more():
    from napari_kpac.evaluation import metrics

    assert metrics.BINS == ((0, 1), (1, 2), (2, 4), (4, 8), (8, 12))
    assert (*metrics.BINS, (12, 20)) == BINS
    assert [name for name in figure_names(0) if name.startswith("gain ")][-1] == (
        "gain with noise 12-20 px"
    )


def test_exposure_does_not_count_on_real_pairs():
    sharp = torch.rand(1, 3, 16, 16) * 2 - 1
    other = sharp * torch.tensor([0.5, 0.9, 1.3])[:, None, None] + 0.2
    assert float(_fitted_error(other, sharp)) == pytest.approx(0, abs=1e-12)
    noise = 0.1 * torch.randn(1, 3, 16, 16)
    assert float(_fitted_error(sharp + noise, sharp)) > 1e-4


def test_networks_without_alphas_have_no_costs_of_muting(options):
    class Same(nn.Module):
        def forward(self, image, views=None, modulate=None):
            return image

    given = options(validation_crops=2)
    scores = finish(validate_steps(Same(), open_data(given), given, ALONE))
    assert scores.muting == ()
    assert scores.gains["all"] == pytest.approx(0, abs=1e-6)
    assert scores.sharp_kept == pytest.approx(100)


def test_two_processes_find_what_one_does(options):
    """Each takes every other crop; their sums make the same scores."""
    given = options(validation_crops=6)
    data = open_data(given)
    net = lively_net()
    alone = finish(validate_steps(net, data, given, ALONE))
    told: list[list[torch.Tensor]] = [[], []]
    for rank in (0, 1):

        def keep(value, rank=rank):
            told[rank].append(value.clone())
            return value

        finish(validate_steps(net, data, given, one_of_two(rank, keep)))
    answers = iter([(a + b) / 2 for a, b in zip(*told, strict=True)])
    shared = finish(validate_steps(net, data, given, one_of_two(0, lambda _: next(answers))))
    assert shared.figures() == pytest.approx(alone.figures(), rel=1e-4, abs=1e-4)


def test_radii_come_from_a_continuum(options):
    """Whatever a phase is built on, and without its noise."""
    given = options(
        radii=(1.5, 3.0), spread=0.0, max_radius=20.0, shrink=0.5, noise_probability=1.0
    )
    data = open_data(given)
    crops = [data.held_out(given, index) for index in range(0, 40, 2)]
    radii = sorted(float(each.radius.max()) for each in crops)
    assert all(np.ptp(each.radius.numpy()) == 0 for each in crops)
    assert len(set(radii)) == len(radii)
    assert radii[0] < 1.2
    assert radii[-1] > 10
    assert max(b / a for a, b in pairwise(radii)) < 2
    assert PLAIN.noise_probability == 0


def test_scores_are_in_the_card_and_the_table(options, photos, tmp_path):
    from napari_kpac.training import train
    from napari_kpac.training.run_folder import RunFolder

    trained = finish(train(options(validation_crops=6, max_radius=20.0), tmp_path / "run"))
    figures = kpac.load(trained.model).card.figures
    assert "validation cost of muting everything all" in figures
    assert "validation gain with noise all" in figures
    assert "steering 0.3" in kpac.load(trained.model).card.training
    row = RunFolder(tmp_path / "run").metrics()[-1]
    assert row["sharp kept"] > 0
    assert "cost of muting 5 all" in row


def real_pairs(folder, photos, count=3):
    from skimage import io

    from napari_kpac.optics import defocus

    for number, path in enumerate(sorted(photos.iterdir())[:count]):
        sharp = io.imread(path)
        write_image(folder / "sharp" / f"{number}.png", sharp)
        write_image(folder / "blurred" / f"{number}.png", defocus(sharp, 2.0).image)
    return folder


def test_real_pairs_are_mixed_in_and_scored(options, photos, tmp_path):
    folder = real_pairs(tmp_path / "real", photos)
    (folder / "MANIFEST.csv").write_text("file,split\n0.png,train\n1.png,train\n2.png,val\n")
    given = options(
        pairs_root=(str(folder),),
        paired=0.5,
        uniform=0.3,
        scenes=0.2,
        focused=0.0,
        batch_size=40,
        validation_crops=2,
    )
    data = open_data(given)
    unknown = data.batch(given, 0).radius.isnan().flatten(1).all(1)
    assert 10 <= int(unknown.sum()) <= 30
    assert "2 pairs (pairs, real)" in data.about
    net = lively_net()
    scores = finish(validate_steps(net, data, given, Processes(given)))
    assert scores.real is not None
    assert "real gain" in scores.figures()
    alone = open_data(replace(given, pairs_root=(), batch_size=8))
    assert not alone.batch(replace(given, pairs_root=(), batch_size=8), 0).radius.isnan().any()
