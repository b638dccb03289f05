"""The network that a run begins with: untrained, or with the weights of another one.

Not for: going on with a run (state).
"""

from __future__ import annotations

import re
from dataclasses import replace

import torch
from torch import Tensor

from napari_kpac.core.errors import ConfigError
from napari_kpac.network import KPACConfig, KPACNet, ResidualNet, build
from napari_kpac.network.layers import initialise
from napari_kpac.training.options import TrainOptions
from napari_kpac.weights import load

FIRST = "encoder.levels.0.enter.weight"
_DECODER = re.compile(r"decoder\.levels\.(\d+)\.(.*)")


Network = KPACNet | ResidualNet


def start_network(options: TrainOptions) -> Network:
    """Make the network of a run, ready to learn."""
    if options.network == "residual":
        return _residual(options)
    wanted = KPACConfig(
        levels=options.levels,
        blocks=options.blocks,
        channels=options.channels,
        shared_kernels=options.shared_kernels,
        scale_attention=options.scale_attention,
        shape_attention=options.shape_attention,
        views=2 if options.dual else 1,
    )
    if not options.start:
        return build(wanted, seed=options.seed)
    given = load(options.start)
    # What the options say nothing of stays as the start model has it.
    wanted = replace(
        wanted,
        kernel_size=given.config.kernel_size,
        dilations=given.config.dilations,
        shape_hidden=given.config.shape_hidden,
        stride_padding=given.config.stride_padding,
    )
    net = build(wanted, seed=options.seed)
    if FIRST not in transfer(given, net):
        raise ConfigError(
            f"the layers of {options.start} do not fit the network that is to be trained:"
            f" it has {given.config.channels} channels, not {options.channels}"
        )
    return net.requires_grad_()


def _residual(options: TrainOptions) -> ResidualNet:
    net = ResidualNet(options.channels)
    initialise(net, torch.Generator().manual_seed(options.seed))
    return net


@torch.no_grad()
def transfer(given: KPACNet, net: KPACNet) -> list[str]:
    """Copy the weights of every layer that fits; returns the names of what was copied.

    A single-image network gives its first layer to both views of a dual-pixel network, halved.
    Levels are counted from full resolution, so that networks of 2 and 3 levels share what
    they have in common.
    """
    source = {_from_full(name, given): tensor for name, tensor in given.state_dict().items()}
    taken = []
    for name, target in net.state_dict().items():
        tensor = source.get(_from_full(name, net))
        if tensor is not None and name == FIRST:
            tensor = _for_views(tensor, given.config.views, net.config.views)
        if tensor is not None and tensor.shape == target.shape:
            target.copy_(tensor)
            taken.append(name)
    return taken


def _for_views(weight: Tensor, given: int, wanted: int) -> Tensor:
    if (given, wanted) == (1, 2):
        return torch.cat([weight, weight], dim=1) / 2
    if (given, wanted) == (2, 1):
        return weight[:, :3] + weight[:, 3:]
    return weight


def _from_full(name: str, net: KPACNet) -> str:
    """Name the levels of the decoder by their distance from full resolution."""
    match = _DECODER.fullmatch(name)
    if match is None:
        return name
    return f"decoder.levels.{net.config.levels - int(match[1])}/{match[2]}"
