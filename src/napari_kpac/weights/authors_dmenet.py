"""The layout of the ``.npz`` files of DMENet's authors: arrays in the order of their network.

Their names are documented nowhere but for one, ``main_net/defocus_net/decoder/u0/c1_1/bias:0``. So
layers are told apart by the order in which the network was built and by their shapes; of a name,
the last part is used, which says what an array is. Not for: reading the arrays (archive.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from napari_kpac.core.errors import WeightsError
from napari_kpac.network import DMENet, DMENetConfig
from napari_kpac.network.dmenet import (
    DECODER_CONVS,
    RESIDUAL_BLOCKS,
    VGG_CONVS,
    AuxiliaryHead,
    ConvUnit,
)
from napari_kpac.weights.archive import Arrays
from napari_kpac.weights.unpickle import FloatArray

ROOT = "defocus_net/"
"""Part of every name of the network; its training had others beside it."""
ROLES = {
    "kernel": "weight",
    "W_conv2d": "weight",
    "bias": "bias",
    "b_conv2d": "bias",
    "beta": "beta",
    "moving_mean": "mean",
    "moving_variance": "variance",
}
"""What the last part of a name says, for the versions of TensorLayer."""
IN_ORDER = ("weight", "bias", "beta", "mean", "variance")
"""Arrays of a layer where they have no names."""
NORM = ("beta", "mean", "variance")


@dataclass
class _Layer:
    """A convolution as the file has it, and its batch norm where it has one."""

    name: str
    arrays: dict[str, FloatArray] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.arrays["weight"].shape

    @property
    def roles(self) -> set[str]:
        return set(self.arrays)


def is_dmenet(content: Arrays) -> bool:
    """Return True if arrays look like DMENet's: VGG-19 begins with 3x3 kernels, KPAC with 5x5."""
    if isinstance(content, dict):
        return any(ROOT in name for name in content)
    return bool(content) and content[0].ndim == 4 and content[0].shape[:3] == (3, 3, 3)


def dmenet_of(content: Arrays) -> DMENet:
    """Return the network of an authors' file.

    Raises
    ------
    WeightsError
        If a layer is missing, is one too many, or has another shape than the network; the message
        names it.
    """
    layers = list(_layers(content))
    if not layers:
        raise WeightsError("the file holds no convolution. Is this a DMENet file?")
    main, heads = _parted(layers)
    config = DMENetConfig(width=layers[0].shape[3], auxiliary=bool(heads))
    with torch.device("meta"):
        net = DMENet(config)
    state: dict[str, Tensor] = {}
    _fill(state, net, _main_places(net), _shortcuts_first(main), "network")
    _fill(state, net, _head_places(net), heads, "auxiliary heads")
    net.load_state_dict(state, assign=True)
    return net.requires_grad_(False).eval()


def _layers(content: Arrays) -> Iterator[_Layer]:
    """Yield the layers in the order of the file: each begins with its kernel."""
    layer: _Layer | None = None
    for name, role, array in _named(content):
        if role == "weight":
            if layer is not None:
                yield layer
            layer = _Layer(name)
            if array.ndim != 4:
                raise WeightsError(f"{name} has {array.ndim} axes, a kernel needs 4")
        elif layer is None or role in layer.arrays:
            raise WeightsError(
                f"{name} has no kernel before it; the arrays must be in the order in which the "
                "network was built"
            )
        if not np.isfinite(array).all():
            raise WeightsError(f"{name} holds NaN or infinite values")
        layer.arrays[role] = array
    if layer is not None:
        yield layer


def _named(content: Arrays) -> Iterator[tuple[str, str, FloatArray]]:
    """Yield name, role and values of every array of the network."""
    if isinstance(content, dict):
        for name, array in content.items():
            if ROOT not in name:
                continue
            last = name.rpartition("/")[2].removesuffix(":0")
            if last not in ROLES:
                raise WeightsError(
                    f"{name}: no array of DMENet is called {last!r}; known are {', '.join(ROLES)}"
                )
            yield name, ROLES[last], array
        return
    place = 0
    for number, array in enumerate(content, start=1):
        place = 0 if array.ndim == 4 else place + 1
        if place == len(IN_ORDER):
            raise WeightsError(f"array {number} is one too many for the layer before it")
        yield f"array {number}", IN_ORDER[place], array


def _parted(layers: Sequence[_Layer]) -> tuple[list[_Layer], list[_Layer]]:
    """Part the network and its auxiliary heads.

    A head ends in a single channel with a batch norm, wherever in the order it was built; the end
    of the network has no batch norm.
    """
    ends = {i for i, each in enumerate(layers) if each.shape[3] == 1 and "beta" in each.arrays}
    of_heads = ends | {i - 1 for i in ends}
    return (
        [each for i, each in enumerate(layers) if i not in of_heads],
        [each for i, each in enumerate(layers) if i in of_heads],
    )


def _shortcuts_first(layers: list[_Layer]) -> list[_Layer]:
    """Put the 1x1 convolution of every residual block before its 3x3 convolutions."""
    begin = sum(VGG_CONVS) + sum(DECODER_CONVS)
    end = begin + 3 * RESIDUAL_BLOCKS
    if len(layers) < end or layers[begin].shape[0] == 1:
        return layers
    blocks = [layers[i : i + 3] for i in range(begin, end, 3)]
    turned = [each for first, second, shortcut in blocks for each in (shortcut, first, second)]
    return [*layers[:begin], *turned, *layers[end:]]


@dataclass(frozen=True)
class _Place:
    """A convolution of our network, by the names that its tensors have."""

    conv: str
    norm: str | None


def _main_places(net: DMENet) -> list[_Place]:
    """List the convolutions of the network in the order in which they are run."""
    found = [
        _Place(f"encoder.{level}.convs.{conv}", None)
        for level, count in enumerate(VGG_CONVS)
        for conv in range(count)
    ]
    for name, module in net.named_modules():
        if isinstance(module, ConvUnit) and not name.startswith("heads."):
            found.append(_Place(f"{name}.conv", f"{name}.norm"))
    return [*found, _Place("output", None)]


def _head_places(net: DMENet) -> list[_Place]:
    found = []
    for name, module in net.named_modules():
        if isinstance(module, AuxiliaryHead):
            found.append(_Place(f"{name}.narrow.conv", f"{name}.narrow.norm"))
            found.append(_Place(f"{name}.output", f"{name}.norm"))
    return found


def _fill(
    state: dict[str, Tensor],
    net: DMENet,
    places: Sequence[_Place],
    layers: Sequence[_Layer],
    what: str,
) -> None:
    """Put the arrays of the layers into a state, each at its place."""
    expected = net.state_dict()
    counted = (
        f"the file has {len(layers)} layers of the {what}, DMENet has {len(places)}. Is this a"
        " DMENet file, with its arrays in their order?"
    )
    for place, layer in zip(places, layers, strict=False):
        names = {"weight": f"{place.conv}.weight", "bias": f"{place.conv}.bias"}
        if place.norm is not None:
            names |= {role: f"{place.norm}.{role}" for role in NORM}
        missing, extra = sorted(set(names) - layer.roles), sorted(layer.roles - set(names))
        if missing or extra:
            raise WeightsError(
                f"{layer.name}, which should be {place.conv}, has "
                + (f"no {', '.join(missing)}" if missing else f"a {', '.join(extra)} too many")
                + f"; {counted}"
            )
        for role, ours in names.items():
            tensor = torch.from_numpy(layer.arrays[role].astype(np.float32))
            wanted = tuple(expected[ours].shape)
            given = tuple(tensor.shape)
            if role == "weight":
                tensor, wanted = tensor.permute(3, 2, 0, 1), (*wanted[2:], wanted[1], wanted[0])
            if given != wanted:
                raise WeightsError(
                    f"{layer.name}: the {role} of {place.conv} must have shape {wanted}, not"
                    f" {given}; {counted}"
                )
            state[ours] = tensor.contiguous()
    if len(layers) < len(places):
        raise WeightsError(
            f"{len(places) - len(layers)} layers of the {what} are missing, the first of them is"
            f" {places[len(layers)].conv}"
        )
    if len(layers) > len(places):
        raise WeightsError(
            f"{len(layers) - len(places)} layers too many for the {what}, the first of them is"
            f" {layers[len(places)].name}"
        )
