"""The convolution for learning on a CPU: the same numbers and gradients as torch's own."""

import pytest
import torch
from torch.nn import functional as F

import napari_kpac as kpac
from napari_kpac.network.layers import ColourHead, conv2d


@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 1, 1), (2, 0, 1), (1, 6, 3)])
@pytest.mark.parametrize("biased", [True, False])
def test_gradients_are_those_of_torch(stride, padding, dilation, biased):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    x = draw(2, 3, 20, 17).contiguous(memory_format=torch.channels_last)
    size = 5 if dilation == 3 else 3
    given = [x, draw(4, 3, size, size), draw(4) if biased else None]
    results = []
    for convolve in (
        lambda x, w, b: conv2d(x, w, b, stride=stride, padding=padding, dilation=dilation),
        lambda x, w, b: F.conv2d(x, w, b, stride, padding, dilation),
    ):
        inputs = [None if t is None else t.clone().requires_grad_() for t in given]
        output = convolve(*inputs)
        (output**2).sum().backward()
        results.append([output, *(t.grad for t in inputs if t is not None)])
    for ours, reference in zip(*results, strict=True):
        torch.testing.assert_close(ours, reference, rtol=1e-12, atol=1e-12)


def test_an_input_without_gradient_costs_none():
    x, weight = torch.randn(1, 3, 8, 8), torch.randn(2, 3, 3, 3, requires_grad=True)
    conv2d(x, weight, None, padding=1, dilation=1).sum().backward()
    assert x.grad is None
    assert weight.grad is not None


def test_learning_and_using_give_the_same_image():
    net = kpac.build(kpac.KPACConfig(channels=6), seed=3).double()
    image = torch.rand(1, 3, 32, 40, dtype=torch.float64)
    learning = net(image)
    with torch.no_grad():
        using = net(image)
    assert learning.requires_grad
    torch.testing.assert_close(learning.detach(), using, rtol=1e-12, atol=1e-12)


def test_the_colour_head_learns_like_a_plain_convolution():
    head = ColourHead((4, 4), 3, 5).double()
    parts = [torch.randn(1, 4, 9, 12, dtype=torch.float64) for _ in range(2)]
    (head(parts) ** 2).sum().backward()
    ours = head.weight.grad.clone()
    head.zero_grad()
    plain = F.conv2d(torch.cat(parts, dim=1), head.weight, head.bias, padding=2)
    (plain**2).sum().backward()
    torch.testing.assert_close(ours, head.weight.grad, rtol=1e-10, atol=1e-10)
