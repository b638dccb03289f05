"""DMENet learns the radius, goes on exactly after a stop, and its models are estimators."""

import csv

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from napari_kpac import weights
from napari_kpac.cli import main
from napari_kpac.core.errors import ConfigError, TrainingError, WeightsError
from napari_kpac.core.progress import finish
from napari_kpac.detection import detect
from napari_kpac.network import DMENetConfig, build_dmenet
from napari_kpac.training import read_trained, resume, train
from napari_kpac.training.defocus import defocus_losses, start_from_vgg
from napari_kpac.training.losses import VGG_MEAN, VGG_STD

DMENET = {"network": "dmenet", "width": 4, "channels": 48}


def test_it_learns_the_radius(options, tmp_path, one_thread):
    del one_thread
    learning = options(
        **DMENET, steps=120, crop_size=32, fixed_batch=True, max_radius=6.0, validate_every=60,
        learning_rate=3e-3, final_learning_rate=0.1, ema_decay=0.9, batch_size=4,
        validation_crops=4, uniform=1.0, scenes=0.0, focused=0.0, radii=(1.0, 6.0), spread=0.0,
    )  # fmt: skip
    trained = finish(train(learning, tmp_path / "run"))
    scores = trained.scores
    assert scores.input_mae > 0.5
    assert scores.mae < 0.5 * scores.input_mae
    assert scores.rank > 0.6
    assert scores.preview.shape == (3 * 32, 3 * 32, 3)
    with (tmp_path / "run" / "metrics.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert float(last["mae"]) == pytest.approx(scores.mae, rel=1e-4)
    assert float(last["rank correlation"]) == pytest.approx(scores.rank, rel=1e-4)
    # The best model is an estimator like any other.
    entry = weights.install(trained.model)
    assert entry.kind == "dmenet"
    assert entry.config == DMENetConfig(width=4)
    assert "validation mae" in entry.card.figures
    image = np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8)
    assert detect(image, entry.name, source="dmenet").values.shape == (40, 50)


def test_a_run_goes_on_exactly_where_it_stopped(options, tmp_path, one_thread):
    del one_thread
    steps = train(options(**DMENET), tmp_path / "stopped")
    for progress in steps:
        if progress.done == 5:
            steps.close()
    finish(resume(tmp_path / "stopped"))
    finish(train(options(**DMENET), tmp_path / "whole"))
    one, other = (load_file(tmp_path / run / "state.safetensors") for run in ("stopped", "whole"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    # What the norms have seen is part of it.
    assert not torch.equal(one["net.gather.norm.mean"], torch.zeros(4))
    net = read_trained(tmp_path / "whole")
    assert torch.equal(net.gather.norm.mean, other["ema.gather.norm.mean"])


def test_two_processes_share_a_run(options, tmp_path):
    trained = finish(train(options(**DMENET, devices=2, threads=0, steps=4), tmp_path / "run"))
    assert trained.model.exists()
    assert np.isfinite(trained.scores.mae)


def test_the_terminal_trains_it(photos, tmp_path, capsys):
    run = tmp_path / "run"
    assert main([
        "train", "--preset", "smoke", "--network", "dmenet", "--width", "4", "--steps", "4",
        "--threads", "1",
        "--validate-every", "2", "--root", str(photos), "--name", "mine", "-o", str(run),
    ]) == 0  # fmt: skip
    said = capsys.readouterr().out
    assert "error of the radius" in said
    assert "rank correlation" in said
    assert main(["models", "install", str(run / "best.safetensors")]) == 0


def test_it_starts_from_a_model_or_from_vgg(options, tmp_path, one_thread):
    del one_thread
    given = build_dmenet(DMENetConfig(width=4, auxiliary=False), seed=7)
    weights.save_network(given, tmp_path / "start.safetensors", weights.ModelCard("start"))
    start = str(tmp_path / "start.safetensors")
    run = tmp_path / "run"
    finish(train(options(**DMENET, steps=1, learning_rate=1e-9, start=start), run))
    learned = load_file(run / "state.safetensors")
    torch.testing.assert_close(learned["net.gather.conv.weight"], given.gather.conv.weight)
    with pytest.raises(ConfigError, match="width"):
        finish(train(options(**{**DMENET, "width": 6}, start=start), tmp_path / "other"))


def vgg_file(path):
    """Random weights in torchvision's layout, up to conv5_4."""
    generator = torch.Generator().manual_seed(0)
    tensors, index, inputs = {}, 0, 3
    for width, count in ((64, 2), (128, 2), (256, 4), (512, 4), (512, 4)):
        for _ in range(count):
            kernel = torch.randn(width, inputs, 3, 3, generator=generator)
            tensors[f"features.{index}.weight"] = kernel * (2 / 9 / inputs) ** 0.5
            tensors[f"features.{index}.bias"] = torch.randn(width, generator=generator)
            index, inputs = index + 2, width
        index += 1
    save_file(tensors, path)
    return tensors


def test_vgg_weights_mean_the_same_in_the_encoder(tmp_path):
    tensors = vgg_file(tmp_path / "vgg.safetensors")
    net = build_dmenet(seed=0)
    start_from_vgg(net, str(tmp_path / "vgg.safetensors"))
    torch.testing.assert_close(net.encoder[4].convs[3].weight, tensors["features.34.weight"])
    # The first layer, away from the border: the same values from both kinds of input.
    image = torch.rand(1, 3, 8, 8)
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (VGG_MEAN, VGG_STD))
    kernel, bias = tensors["features.0.weight"], tensors["features.0.bias"]
    expected = torch.conv2d((image - mean) / std, kernel, bias)
    means = torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    first = net.encoder[0].convs[0]
    given = torch.conv2d(image.flip(1) * 255 - means, first.weight, first.bias)
    torch.testing.assert_close(given, expected, atol=1e-3, rtol=1e-3)
    with pytest.raises(WeightsError, match="no file"):
        start_from_vgg(net, str(tmp_path / "none.safetensors"))


def test_the_loss_is_zero_for_the_truth_and_needs_known_radii():
    radius = torch.tensor([0.0, 3.0, 9.0]).view(1, 1, 3).expand(1, 3, 3)
    said = ((radius + 1) / 15)[:, None]
    error, loss = defocus_losses([said, said], radius)
    assert error < 1e-5
    assert loss < 1e-10
    error, loss = defocus_losses([said + 1 / 15, said], radius)
    assert error == pytest.approx(1, abs=1e-4)
    assert loss == pytest.approx((1 / 15) ** 2, rel=1e-3)
    with pytest.raises(TrainingError, match="synthetic"):
        defocus_losses([said], torch.full((1, 3, 3), torch.nan))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"crop_size": 40}, "multiples of 16"),
        ({"crop_size": 16}, "from 32 on"),
        ({"width": 5}, "even"),
        ({"dual": True}, "dual"),
        ({"fine_steps": 10}, "fine_steps"),
        ({"vgg": "some.pth"}, "width of 64"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, changes, said):
    with pytest.raises(ConfigError, match=said):
        options(**{**DMENET, **changes})
