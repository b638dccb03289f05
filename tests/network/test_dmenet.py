"""DMENet: its parameters, its cost, how far it sees, and what its output means."""

import numpy as np
import pytest
import torch

import napari_kpac as kpac
from napari_kpac.core.errors import ConfigError
from napari_kpac.network import DMENet, DMENetConfig, build_dmenet, count_flops, count_parameters
from napari_kpac.network.dmenet import defocus_of, sigma_of


@pytest.mark.parametrize(("auxiliary", "expected"), [(True, 26_939_819), (False, 25_349_025)])
def test_it_has_the_published_number_of_parameters(auxiliary, expected):
    with torch.device("meta"):
        assert count_parameters(DMENet(DMENetConfig(auxiliary=auxiliary))) == expected


def test_flops_are_those_of_its_convolutions():
    """Twice the multiply-accumulates of every layer, counted by hand at 32x32."""
    w = 64
    full, flops = 32 * 32, 0
    widths = [3, w, 2 * w, 4 * w, 8 * w, 8 * w]
    for level, count in enumerate((2, 2, 4, 4, 4)):
        pixels, (a, b) = full // 4**level, widths[level : level + 2]
        flops += 2 * 9 * pixels * (a * b + (count - 1) * b * b)
    deep = 8 * w
    for level, (out, count) in zip(
        (3, 2, 1, 0), ((4 * w, 3), (2 * w, 3), (w, 3), (w, 1)), strict=True
    ):
        inputs = deep + widths[level + 1]
        flops += 2 * 9 * (full // 4**level) * (inputs * out + (count - 1) * out * out)
        deep = out
    flops += 2 * full * (7 * (w * w + 2 * 9 * w * w) + 9 * (w * w + w * w // 2 + w // 2))
    assert count_flops(DMENet, (1, 3, 32, 32)).flops == flops


@torch.no_grad()
def test_the_halo_is_all_that_a_pixel_depends_on():
    net = build_dmenet(DMENetConfig(width=2), seed=1).double().eval()
    image = torch.rand(1, 3, 32, 416, generator=torch.Generator().manual_seed(0)).double()
    inside = slice(0, 416 - 192)
    whole = net(image)[0][..., inside]
    assert net.halo <= 192

    changed = image.clone()
    changed[..., inside.stop + 192 - 16 :] = 0.5
    assert torch.equal(net(image[..., : inside.stop + 192])[0][..., inside], whole)
    assert not torch.equal(net(changed)[0][..., inside], whole)


def test_heads_speak_at_every_resolution_and_only_when_asked():
    net = build_dmenet(DMENetConfig(width=2), seed=0)
    image = torch.rand(2, 3, 32, 48)
    said = net(image, auxiliary=True)
    assert [tuple(each.shape[-2:]) for each in said] == [
        (32, 48), (2, 3), (4, 6), (8, 12), (16, 24), (32, 48),
    ]  # fmt: skip
    assert len(net.eval()(image)) == 1
    assert len(list(net.stages(image))) == net.STAGES


def test_sigma_and_radius():
    d = torch.tensor([0.0, 1 / 15, 0.2, 1.0])
    np.testing.assert_allclose(sigma_of(d), [0, 0, 1, 7], atol=1e-6)
    radius = torch.tensor([0.0, 2.0, 14.0, 30.0])
    np.testing.assert_allclose(2 * sigma_of(defocus_of(radius)), [0, 2, 14, 14], atol=1e-5)


@pytest.mark.parametrize("changes", [{"width": 3}, {"width": 0}, {"width": True}, {"auxiliary": 1}])
def test_bad_configurations_are_refused(changes):
    with pytest.raises(ConfigError, match=next(iter(changes))):
        DMENetConfig(**changes)
    with pytest.raises(ConfigError, match="unknown"):
        DMENetConfig.from_dict({"levels": 3})
    assert DMENetConfig.from_dict(DMENetConfig(6).to_dict()) == DMENetConfig(6)
    assert issubclass(ConfigError, kpac.KpacError)
