"""Parameters and FLOPs, to the last digit that is known of them."""

import pytest
import torch

from napari_kpac.network import (
    DPDNet,
    KPACConfig,
    KPACNet,
    ResidualNet,
    count_flops,
    count_parameters,
)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"levels": 2}, 1_579_437),
        ({}, 2_059_053),
        ({"levels": 2, "shape_hidden": 12}, 1_578_277),
        ({"shape_hidden": 12}, 2_057_893),
        ({"views": 2, "shape_hidden": 12}, 2_061_493),
        ({"views": 2}, 2_062_653),
        ({"levels": 2, "blocks": 1}, 1_047_768),
        ({"levels": 2, "blocks": 3}, 2_111_106),
        ({"levels": 2, "blocks": 4}, 2_642_775),
        ({"levels": 2, "shared_kernels": False}, 2_501_037),
        ({"levels": 2, "scale_attention": False, "shape_attention": False}, 1_327_299),
        ({"levels": 2, "scale_attention": False}, 1_332_035),
        ({"levels": 2, "shape_attention": False}, 1_574_701),
    ],
)
def test_parameters_of_kpac(fields, expected):
    with torch.device("meta"):
        assert count_parameters(KPACNet(KPACConfig(**fields))) == expected


def test_parameters_of_the_baselines():
    with torch.device("meta"):
        assert count_parameters(ResidualNet()) == 2_259_843
        # The published DPDNet code; the paper prints 32.25 M.
        assert count_parameters(DPDNet(1)) == 31_033_423
        assert count_parameters(DPDNet(2)) == 31_033_423 + 3 * 64 * 9


@pytest.mark.parametrize(("levels", "paper", "full"), [(2, 357.8, 383.3), (3, 196.4, 226.1)])
def test_flops_at_720p(levels, paper, full):
    cost = count_flops(lambda: KPACNet(KPACConfig(levels=levels)), (1, 3, 720, 1280))
    assert abs(cost.paper_flops / 1e9 - paper) < 0.1
    assert abs(cost.flops / 1e9 - full) < 0.05


def test_flops_against_a_hand_count():
    conv = torch.nn.Conv2d(3, 8, 5, padding=2)
    up = torch.nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1)
    cost = count_flops(lambda: torch.nn.Sequential(conv, up).to("meta"), (1, 3, 10, 6))
    assert cost.paper_flops == 2 * 10 * 6 * 5 * 5 * 3 * 8
    assert cost.transposed == 2 * 10 * 6 * 4 * 4 * 8 * 4
