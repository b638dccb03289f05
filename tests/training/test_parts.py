"""Losses, rates, starts and states: each against what it should be by definition."""

import math

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from skimage.metrics import peak_signal_noise_ratio

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError, FileError, WeightsError
from napari_kpac.network import KPACConfig
from napari_kpac.training import TrainOptions
from napari_kpac.training.loop import learning_rate_at
from napari_kpac.training.losses import (
    MAX_PSNR_DB,
    PerceptualLoss,
    alpha_targets,
    attention_loss,
    frequency_error,
    mean_absolute_error,
    mean_psnr,
    vgg_features,
)
from napari_kpac.training.state import (
    FIRST_LAYER,
    AveragedWeights,
    Counters,
    is_attention,
    load_state,
    make_optimiser,
    save_state,
    set_learning_rate,
    start_network,
    transfer,
)
from napari_kpac.weights import ModelCard, save_network


def test_mean_absolute_error_is_of_the_range():
    assert float(mean_absolute_error(torch.ones(1, 3, 2, 2), -torch.ones(1, 3, 2, 2))) == 1


def test_frequencies_of_single_points_and_of_waves():
    """A point has all frequencies, each with its height over the root of the pixels; a wave two."""
    nothing = torch.zeros(1, 1, 16, 16)
    point = nothing.clone()
    point[..., 5, 7] = 1.0
    assert float(frequency_error(point, nothing)) == pytest.approx(0.5 / 16)
    wave = torch.cos(2 * math.pi * 3 * torch.arange(16) / 16).expand(1, 1, 16, 16)
    # Of 16 x 9 stored frequencies one has an amplitude, of half a wave in each of 256 pixels.
    assert float(frequency_error(wave, nothing)) == pytest.approx(0.5 * (16 / 2) / (16 * 9))


def test_the_psnr_is_the_mean_of_that_of_every_image_and_has_an_end():
    """Where no radius is known, all pixels of an image make one PSNR."""
    rng = np.random.default_rng(0)
    truth = rng.random((3, 16, 16, 3), np.float32)
    wrong = truth + np.array([0.2, 0.05, 0], np.float32)[:, None, None, None]
    output, sharp = (torch.from_numpy(each).permute(0, 3, 1, 2) * 2 - 1 for each in (wrong, truth))
    radius = torch.full((3, 16, 16), torch.nan)
    each = [peak_signal_noise_ratio(truth[i], wrong[i], data_range=1) for i in range(2)]
    found = float(mean_psnr(output[:2], sharp[:2], radius[:2]))
    assert found == pytest.approx(sum(each) / 2, abs=0.01)
    found = float(mean_psnr(output[2:], sharp[2:], radius[2:]))
    assert found == pytest.approx(MAX_PSNR_DB, abs=0.01)


def test_the_psnr_of_every_range_of_radii_counts_alike():
    """As in the benchmark: a range has one PSNR, if 1 % of the image's pixels are in it."""
    rng = np.random.default_rng(0)
    truth = rng.random((2, 32, 32, 3), np.float32)
    radius = np.full((2, 32, 32), 16, np.float32)
    radius[0, :8], radius[0, 8:20], radius[0, 20:24] = 0.5, 1.0, 7.9
    radius[1, :2], radius[1, 2, :9] = 2.0, 0.0  # 9 of 1024 pixels are too few
    wrong = truth + rng.normal(0, 0.01, truth.shape) * (1 + radius[..., None])
    output, sharp = (torch.from_numpy(each).permute(0, 3, 1, 2) * 2 - 1 for each in (wrong, truth))

    def psnr_of(image, low, high):
        inside = (radius[image] >= low) & (radius[image] < high)
        return peak_signal_noise_ratio(truth[image][inside], wrong[image][inside], data_range=1)

    first = [psnr_of(0, *edges) for edges in ((0, 1), (1, 2), (4, 8), (12, 20))]
    second = [psnr_of(1, *edges) for edges in ((2, 4), (12, 20))]
    found = float(mean_psnr(output, sharp, torch.from_numpy(radius)))
    assert found == pytest.approx((np.mean(first) + np.mean(second)) / 2, abs=0.05)
    # The first image has a part in focus, which now counts as much as the three others together.
    weighted = np.average(first, weights=[3, 1, 1, 1])
    found = float(mean_psnr(output, sharp, torch.from_numpy(radius), focus_weight=3.0))
    assert found == pytest.approx((weighted + np.mean(second)) / 2, abs=0.05)
    assert abs(weighted - np.mean(first)) > 1


def test_larger_blur_calls_larger_dilations():
    radius = torch.tensor([0.0, 1.0, 12.0, 24.0]).view(1, 1, 1, 4)
    wanted = alpha_targets(radius, 5)[0, :, 0]
    assert (wanted.diff(dim=1) >= 0).all()
    assert (wanted[:, 1:].diff(dim=0) <= 0).all()
    assert wanted[0, 1] == pytest.approx(0.5)
    assert wanted[4, 2] == pytest.approx(0.5)
    assert wanted[:, 0].max() < 0.05
    assert wanted[:, 3].min() > 0.95


def test_attention_loss_is_smallest_at_its_target():
    radius = torch.rand(2, 32, 32) * 10
    pooled = torch.nn.functional.avg_pool2d(radius[:, None], 8)
    wanted = alpha_targets(pooled, 5)
    best = attention_loss([wanted], radius)
    assert best < attention_loss([wanted * 0.8], radius)
    assert best < attention_loss([1 - wanted], radius)


def test_a_small_place_in_focus_counts_as_much_for_attention_as_all_the_blur_around_it():
    radius = torch.full((1, 64, 64), 3.0)
    radius[:, :16, :16] = 0.0  # 4 of 64 cells
    radius = torch.cat([radius, torch.full_like(radius, 3.0)])
    wanted = alpha_targets(radius[:, None, ::8, ::8], 5)
    entropy = -(wanted * wanted.log() + (1 - wanted) * (1 - wanted).log())
    focused, blurred = entropy[0, :, 0, 0].mean(), entropy[0, :, 4, 4].mean()
    expected = ((focused + blurred) / 2 + blurred) / 2
    assert float(attention_loss([wanted], radius)) == pytest.approx(float(expected), rel=1e-4)


def test_the_rate_rises_falls_and_changes_phase():
    options = TrainOptions(
        steps=100,
        warmup=10,
        learning_rate=1e-3,
        final_learning_rate=0.1,
        fine_steps=5,
        fine_learning_rate=7e-6,
    )
    rates = [
        learning_rate_at(step - phase.begin, phase.options)
        for phase in options.schedule()
        for step in range(phase.begin, phase.end)
    ]
    assert len(rates) == 105
    assert rates[:10] == pytest.approx([1e-3 * (i + 1) / 11 for i in range(10)])
    assert rates[10] == pytest.approx(1e-3)
    assert rates[55] == pytest.approx(1e-3 * (0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2))
    assert rates[10:100] == sorted(rates[10:100], reverse=True)
    assert rates[100:] == [7e-6] * 5
    steady = TrainOptions(steps=100, warmup=0, learning_rate=1e-3, final_learning_rate=1.0)
    assert {learning_rate_at(step, steady) for step in range(100)} == {1e-3}


def test_attention_has_a_rate_of_its_own():
    net = kpac.build(KPACConfig(channels=4))
    optimiser = make_optimiser(net, TrainOptions())
    set_learning_rate(optimiser, 1e-3, 0.05)
    names = {id(p): name for name, p in net.named_parameters()}
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            share = 0.05 if is_attention(names[id(parameter)]) else 1
            assert group["lr"] == pytest.approx(1e-3 * share)
    assert sum(is_attention(name) for name in names.values()) == 2 * (10 + 4)


def test_the_average_follows_its_formula():
    net = torch.nn.Linear(1, 1, bias=False)
    average, expected = AveragedWeights(net, 0.5), float(net.weight.detach())
    for step in range(20):
        with torch.no_grad():
            net.weight.fill_(step)
        average.update(net, step)
        keep = min(0.5, (1 + step) / (10 + step))
        expected = keep * expected + (1 - keep) * step
    assert float(average.weights["weight"]) == pytest.approx(expected, rel=1e-5)


def saved(tmp_path, config, seed=7):
    net = kpac.build(config, seed=seed)
    path = tmp_path / "start.safetensors"
    save_network(net, path, ModelCard(name="start"))
    return net, path


def test_a_dual_network_starts_as_the_single_one(tmp_path):
    """On equal views the first layer gives what it gave: half of each, added up."""
    single, path = saved(tmp_path, KPACConfig(channels=4, shape_hidden=12))
    dual = start_network(TrainOptions(start=str(path), dual=True, channels=4))
    assert dual.config.views == 2
    assert dual.config.shape_hidden == 12
    image = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(dual(image, (image, image)), single(image))
    assert all(parameter.requires_grad for parameter in dual.parameters())


def test_two_levels_start_with_what_fits(tmp_path):
    three, path = saved(tmp_path, KPACConfig(channels=4))
    two = start_network(TrainOptions(start=str(path), levels=2, channels=4))
    ours, theirs = two.state_dict(), three.state_dict()
    assert torch.equal(
        ours["encoder.levels.2.enter.weight"], theirs["encoder.levels.2.enter.weight"]
    )
    for level in (0, 1):
        for part in ("up.weight", "merge.weight"):
            name = f"decoder.levels.{level}.{part}"
            assert torch.equal(ours[name], theirs[f"decoder.levels.{level + 1}.{part}"])
    assert torch.equal(ours["blocks.1.fusion.weight"], theirs["blocks.1.fusion.weight"])


def test_a_single_network_from_a_dual_one():
    dual, single = kpac.build(KPACConfig(channels=4, views=2)), kpac.build(KPACConfig(channels=4))
    assert FIRST_LAYER in transfer(dual, single)
    image = torch.rand(1, 3, 32, 32)
    torch.testing.assert_close(single(image), dual(image, (image, image)))


def test_a_start_that_does_not_fit_is_refused(tmp_path):
    _, path = saved(tmp_path, KPACConfig(channels=6))
    with pytest.raises(ConfigError, match="has 6 channels, not 5"):
        start_network(TrainOptions(start=str(path), channels=5))


def test_a_state_comes_back_whole(tmp_path):
    options = TrainOptions()

    def fresh(seed):
        net = kpac.build(KPACConfig(channels=4), seed=seed)
        return net, make_optimiser(net, options), AveragedWeights(net, 0.9)

    net, optimiser, average = fresh(1)
    for step in range(3):
        net(torch.rand(1, 3, 16, 16)).square().mean().backward()
        optimiser.step()
        average.update(net, step)
    path = tmp_path / "state.safetensors"
    save_state(path, net, optimiser, average, Counters(3, 0.5, 2, 1.5))
    other, other_optimiser, other_average = fresh(2)
    assert load_state(path, other, other_optimiser, other_average) == Counters(3, 0.5, 2, 1.5)
    image = torch.rand(1, 3, 16, 16)
    for each, its_optimiser in ((net, optimiser), (other, other_optimiser)):
        each.zero_grad()
        each(image).square().mean().backward()
        its_optimiser.step()
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
        assert torch.equal(average.weights[name], other_average.weights[name])


def test_damaged_and_foreign_states_are_refused(tmp_path):
    net = kpac.build(KPACConfig(channels=4))
    given = net, make_optimiser(net, TrainOptions()), AveragedWeights(net, 0.9)
    path = tmp_path / "state.safetensors"
    with pytest.raises(FileError, match="no state to resume"):
        load_state(path, *given)
    path.write_bytes(b"nonsense")
    with pytest.raises(FileError, match="damaged"):
        load_state(path, *given)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(FileError, match="no counters"):
        load_state(path, *given)
    save_file(
        {"a": torch.zeros(1)},
        path,
        {"counters": '{"step": 1, "best": 1, "best_step": 1, "seconds": 1}'},
    )
    with pytest.raises(FileError, match="another network"):
        load_state(path, *given)


def random_vgg():
    generator = torch.Generator().manual_seed(0)
    return {
        f"features.{name}": torch.randn(tensor.shape, generator=generator) * 0.05
        for name, tensor in vgg_features().state_dict().items()
    }


def test_the_perceptual_loss_is_vgg_up_to_conv4_4(tmp_path):
    """Against the same layers written out as modules, in torchvision's order."""
    from torch import nn

    weights, modules = random_vgg(), []
    for width in (64, 64, "M", 128, 128, "M", 256, 256, 256, 256, "M", 512, 512, 512, 512):
        if width == "M":
            modules.append(nn.MaxPool2d(2))
            continue
        name = f"features.{len(modules)}"
        conv = nn.Conv2d(weights[f"{name}.weight"].shape[1], width, 3, padding=1)
        conv.load_state_dict({kind: weights[f"{name}.{kind}"] for kind in ("weight", "bias")})
        modules += [conv, nn.ReLU()]
    assert len(modules) == 27
    reference = nn.Sequential(*modules)
    images = [torch.rand(1, 3, 32, 40) * 2.4 - 1.2 for _ in range(2)]

    def normalised(image):
        mean = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
        std = torch.tensor([0.229, 0.224, 0.225])[:, None, None]
        return (((image + 1) / 2).clip(0, 1) - mean) / std

    first, second = (reference(normalised(image)) for image in images)
    save_file(weights, tmp_path / "vgg.safetensors")
    loss = PerceptualLoss(str(tmp_path / "vgg.safetensors"))(*images)
    torch.testing.assert_close(loss, ((first - second) ** 2).mean())


def test_vgg_weights_are_checked_before_training(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(WeightsError, match="needs VGG-19 weights"):
        PerceptualLoss()
    file = tmp_path / "hub" / "checkpoints" / "vgg19-dcbb9e9d.pth"
    file.parent.mkdir(parents=True)
    torch.save(random_vgg(), file)
    with pytest.raises(WeightsError, match="SHA-256"):
        PerceptualLoss()
    good = tmp_path / "vgg.safetensors"
    save_file(random_vgg(), good)
    loaded = PerceptualLoss(str(good)).state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in random_vgg().items())
    partial = random_vgg()
    del partial["features.25.weight"]
    save_file(partial, good)
    with pytest.raises(WeightsError, match=r"features\.25\.weight"):
        PerceptualLoss(str(good))
