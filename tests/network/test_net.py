"""The network against an independent forward pass, and the rules of its stages."""

import numpy as np
import pytest
import torch

from napari_kpac import KPACConfig, KpacError, build
from napari_kpac.network import DPDNet, ResidualNet
from tests import reference

VARIANTS = {
    "3-level": {"levels": 3},
    "2-level": {"levels": 2},
    "dual": {"levels": 2, "views": 2},
    "symmetric": {"levels": 2, "stride_padding": "symmetric"},
    "own kernels": {"levels": 2, "shared_kernels": False},
    "no scale": {"levels": 2, "scale_attention": False},
    "no shape": {"levels": 2, "shape_attention": False},
    "3x3, few dilations": {"levels": 2, "kernel_size": 3, "dilations": (1, 4)},
    "one block": {"levels": 3, "blocks": 1},
    "three blocks": {"levels": 2, "blocks": 3},
}


def tiny(**fields):
    return KPACConfig(**{"channels": 3, "shape_hidden": 2, "blocks": 2, **fields})


def loaded(config, params):
    """A float64 network with the reference's parameters, assigned without our reader."""
    net = build(config).double().eval().requires_grad_(False)
    ours = {}

    def put(name, short):
        w = torch.from_numpy(params[f"{short}.W"])
        linear = ".squeeze" in name or ".expand" in name
        ours[f"{name}.weight"] = w[0, 0].T if linear else w.permute(3, 2, 0, 1)
        ours[f"{name}.bias"] = torch.from_numpy(params[f"{short}.b"])

    for level, short in enumerate(("c0", "c2", "c3", "c4")[: config.levels + 1]):
        put(f"encoder.levels.{level}.enter", short)
        put(f"encoder.levels.{level}.refine", f"{short}_2")
    for k in range(config.blocks):
        for i in range(1 if config.shared_kernels else len(config.dilations)):
            kernel = torch.from_numpy(params[f"dc1.{k}.{i}"]).permute(3, 2, 0, 1)
            ours[f"blocks.{k}.atrous.{i}.weight"] = kernel
        if config.scale_attention:
            for layer in range(4):
                put(f"blocks.{k}.scale.hidden.{layer}", f"sca_dc{layer + 1}.{k}")
            put(f"blocks.{k}.scale.head", f"sca_c2.{k}")
        if config.shape_attention:
            put(f"blocks.{k}.shape.squeeze", f"sha_c1.{k}")
            put(f"blocks.{k}.shape.expand", f"sha_c2.{k}")
        put(f"blocks.{k}.fusion", f"cf.{k}")
    put("decoder.gather", "cm_1")
    put("decoder.refine", "cm_2")
    for level, short in enumerate(("d0", "d1", "d2")[3 - config.levels :]):
        put(f"decoder.levels.{level}.up", short)
        put(f"decoder.levels.{level}.merge", f"{short}_2")
    net.load_state_dict(ours)
    return net


def tensor(array):
    return torch.from_numpy(np.moveaxis(array, -1, 0)[None].copy())


def array(tensor):
    return np.moveaxis(tensor[0].numpy(), 0, -1)


def everything(net, image, views=None):
    x, _ = net.join(image, views)
    encoded = net.encode(x)
    out, features = {"enc": array(encoded.features)}, [encoded.features]
    for k in range(net.config.blocks):
        state = net.step(k, features[-1])
        features.append(state.fused)
        out |= {f"alpha{k}": array(state.alpha), f"cf{k}": array(state.fused)}
        out[f"beta{k}"] = state.beta[0].numpy()
    out["cm2"] = array(net.decoder.enter(features))
    out["y"] = array(net(image, views))
    return out


@pytest.mark.parametrize("name", VARIANTS)
def test_every_stage_equals_the_independent_forward(name):
    config = tiny(**VARIANTS[name])
    params = reference.random_params(config)
    net = loaded(config, params)
    rng = np.random.default_rng(1)
    images = rng.uniform(-1, 1, (3, 16, 24, 3))
    if config.views == 2:
        expected = reference.forward(params, config, images[0], np.concatenate(images[1:], axis=-1))
        actual = everything(net, tensor(images[0]), (tensor(images[1]), tensor(images[2])))
    else:
        expected = reference.forward(params, config, images[0])
        actual = everything(net, tensor(images[0]))
    assert actual.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(actual[key], value, atol=1e-10, err_msg=key)


def test_modulated_alpha_is_what_the_fusion_uses():
    config = tiny(levels=2)
    params = reference.random_params(config)
    image = np.random.default_rng(2).uniform(-1, 1, (12, 8, 3))
    gains = np.array([[0.0, 2.0, 1.0, 0.5, 1.0], [1.0, 0.0, 0.0, 1.0, 1.5]])
    expected = reference.forward(
        params, config, image, modulate=lambda block, alpha: alpha * gains[block]
    )
    actual = loaded(config, params)(
        tensor(image),
        modulate=lambda block, alpha: alpha * torch.from_numpy(gains[block])[:, None, None],
    )
    np.testing.assert_allclose(array(actual), expected["y"], atol=1e-10)


def test_neutral_modulation_is_bit_identical():
    net = build(tiny(), seed=0)
    image = torch.rand(1, 3, 32, 40, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert torch.equal(net(image), net(image, modulate=lambda block, alpha: alpha * 1.0))


def test_dual_without_centre_uses_the_mean():
    net = build(tiny(views=2), seed=0)
    left, right = torch.rand(2, 1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    assert torch.equal(net(None, (left, right)), net((left + right) / 2, (left, right)))


def test_gradients_reach_every_parameter():
    net = build(tiny(), seed=0)
    net(torch.rand(2, 3, 16, 16)).square().mean().backward()
    for name, parameter in net.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_wrong_calls_say_what_to_do():
    single, dual = build(tiny()), build(tiny(views=2))
    with pytest.raises(KpacError, match="multiples of 8"):
        single(torch.zeros(1, 3, 20, 16))
    with pytest.raises(KpacError, match="views"):
        dual(torch.zeros(1, 3, 16, 16))
    with pytest.raises(KpacError, match="no views"):
        single(torch.zeros(1, 3, 16, 16), (torch.zeros(1, 3, 16, 16),) * 2)


def test_initialisation_is_seeded_and_as_the_authors_do():
    a, b, c = build(seed=1), build(seed=1), build(seed=2)
    weight = a.decoder.gather.weight
    assert torch.equal(weight, b.decoder.gather.weight)
    assert not torch.equal(weight, c.decoder.gather.weight)
    assert abs(weight.std().item() - 0.04) < 1e-3
    assert a.decoder.gather.bias.abs().max() == 0


def test_the_baselines_run_and_keep_the_size():
    image = torch.rand(1, 3, 32, 48)
    assert ResidualNet(channels=4, blocks=2)(image).shape == image.shape
    widths = (4, 8, 8, 16, 16)
    single = DPDNet(1, widths).eval()(image)
    assert single.shape == image.shape
    assert single.min() > 0
    assert single.max() < 1
    assert DPDNet(2, widths).eval()(torch.cat((image, image), 1)).shape == image.shape
