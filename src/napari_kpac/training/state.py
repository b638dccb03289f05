"""The network, optimiser and averaged weights of a run: how it begins, and what it goes on from.

A state is one file without pickles. Random numbers need none: every crop is a function of the
seed and its number (examples). Not for: finished models (weights).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.options import select_options
from napari_kpac.network import (
    DMENet,
    DMENetConfig,
    KPACConfig,
    KPACNet,
    ResidualNet,
    build,
    build_dmenet,
)
from napari_kpac.network.layers import initialise
from napari_kpac.training.defocus import start_from_vgg
from napari_kpac.training.options import TrainOptions
from napari_kpac.weights import load, load_dmenet
from napari_kpac.weights.store import write_tensors

Network = KPACNet | ResidualNet | DMENet
FIRST_LAYER = "encoder.levels.0.enter.weight"
_DECODER = re.compile(r"decoder\.levels\.(\d+)\.(.*)")
MOMENTS = ("exp_avg", "exp_avg_sq")
MAX_COUNT = 10**12
"""No run has more steps or takes more seconds."""


def start_network(options: TrainOptions) -> Network:
    """Make the network that a run begins with, untrained or with the weights of another one."""
    if options.network == "residual":
        baseline = ResidualNet(options.channels)
        initialise(baseline, torch.Generator().manual_seed(options.seed))
        return baseline
    if options.network == "dmenet":
        return _start_dmenet(options)
    config = select_options(KPACConfig, options, views=2 if options.dual else 1)
    if not options.start:
        return build(config, seed=options.seed)
    given = load(options.start)
    # What the options do not set stays as the start model has it.
    kept = ("kernel_size", "dilations", "shape_hidden", "stride_padding")
    config = replace(config, **{name: getattr(given.config, name) for name in kept})
    net = build(config, seed=options.seed)
    if FIRST_LAYER not in transfer(given, net):
        raise ConfigError(
            f"the layers of {options.start} do not fit the network that is to be trained:"
            f" it has {given.config.channels} channels, not {options.channels}"
        )
    return net.requires_grad_()


def _start_dmenet(options: TrainOptions) -> DMENet:
    """Make a DMENet: from scratch, with VGG-19's weights, or with those of another DMENet."""
    net = build_dmenet(select_options(DMENetConfig, options), seed=options.seed)
    if options.vgg:
        start_from_vgg(net, options.vgg)
    if options.start:
        given = load_dmenet(options.start)
        if given.config.width != net.config.width:
            raise ConfigError(
                f"{options.start} has a width of {given.config.width}, not {options.width}; set"
                " width to the same"
            )
        # A file may come without the heads of the training.
        net.load_state_dict(given.state_dict(), strict=False)
    return net


@torch.no_grad()
def transfer(given: KPACNet, net: KPACNet) -> list[str]:
    """Copy the weights of every layer that fits; returns the names of what was copied.

    A single-image network gives its first layer to both views of a dual-pixel network, halved.
    Levels are counted from full resolution, so that networks of 2 and 3 levels share what
    they have in common.
    """
    source = {_from_full(name, given): tensor for name, tensor in given.state_dict().items()}
    if given.config.views < net.config.views:
        source[FIRST_LAYER] = torch.cat([source[FIRST_LAYER]] * 2, dim=1) / 2
    elif given.config.views > net.config.views:
        source[FIRST_LAYER] = source[FIRST_LAYER][:, :3] + source[FIRST_LAYER][:, 3:]
    taken = []
    for name, target in net.state_dict().items():
        tensor = source.get(_from_full(name, net))
        if tensor is not None and tensor.shape == target.shape:
            target.copy_(tensor)
            taken.append(name)
    return taken


def _from_full(name: str, net: KPACNet) -> str:
    """Return a name that counts the levels of the decoder from full resolution."""
    match = _DECODER.fullmatch(name)
    if match is None:
        return name
    return f"decoder.levels.{net.config.levels - int(match[1])}/{match[2]}"


def make_optimiser(net: nn.Module, options: TrainOptions) -> torch.optim.Adam:
    """Make Adam, with a group of its own for the attention modules."""
    groups: list[dict[str, Any]] = []
    for attention in (False, True):
        named = [p for name, p in net.named_parameters() if is_attention(name) == attention]
        if named:
            groups.append({"params": named, "attention": attention})
    return torch.optim.Adam(groups, lr=options.learning_rate, betas=options.betas)


def is_attention(name: str) -> bool:
    """Return True if a parameter belongs to the scale or shape attention of a block."""
    return name.startswith("blocks.") and name.split(".")[2] in ("scale", "shape")


def set_learning_rate(optimiser: torch.optim.Optimizer, rate: float, attention: float) -> None:
    """Set the learning rate, and that of the attention modules as a share of it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * (attention if group["attention"] else 1.0)


class AveragedWeights:
    """Weights averaged over the steps, with a decay that grows to its value at the beginning.

    Unlike ``torch.optim.swa_utils.AveragedModel`` it averages from the first step on, with weights
    that follow from the step alone, and needs no second network.
    """

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        """Average in the weights after a step."""
        keep = min(self.decay, (1 + step) / (10 + step)) if self.decay else 0.0
        for name, value in net.state_dict().items():
            self.weights[name].lerp_(value, 1 - keep)


@dataclass
class Counters:
    """What a run has done so far."""

    step: int = 0
    best: float = float("inf")
    """Smallest error of a validation."""
    best_step: int = 0
    seconds: float = 0.0
    validated: int = 0
    """Step of the last validation."""


def save_state(
    path: Path,
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: AveragedWeights,
    counters: Counters,
) -> None:
    """Write the state; a state that was there before stays until the new one is complete."""
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in _tensors(net, optimiser, average)
    }
    write_tensors(path, tensors, {"counters": json.dumps(asdict(counters))})


def load_state(
    path: Path, net: nn.Module, optimiser: torch.optim.Optimizer, average: AveragedWeights
) -> Counters:
    """Load a saved state into the network, the optimiser and the averaged weights.

    Raises
    ------
    FileError
        If the file is missing, damaged or of another network.
    """
    if not path.is_file():
        raise FileError(f"there is no state to resume in {path.parent}; start a run instead")
    try:
        with safe_open(path, framework="pt") as file:
            counters = _counters(file.metadata() or {})
            saved = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, RecursionError) as error:
        raise FileError(f"{path} is damaged and cannot be resumed: {error}") from error
    for parameter in net.parameters():
        optimiser.state[parameter] = {
            "step": torch.tensor(float(counters.step)),
            **{moment: torch.zeros_like(parameter) for moment in MOMENTS},
        }
    expected = dict(_tensors(net, optimiser, average))
    if {k: v.shape for k, v in saved.items()} != {k: v.shape for k, v in expected.items()}:
        raise FileError(f"{path} belongs to another network than its run's options describe")
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(saved[name])
    return counters


def averaged_weights(path: Path) -> dict[str, Tensor]:
    """Read the averaged weights of a state, by the names that the network has for them."""
    try:
        with safe_open(path, framework="pt") as file:
            names = [name for name in file.keys() if name.startswith("ema.")]  # noqa: SIM118
            return {name.removeprefix("ema."): file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise FileError(f"{path} cannot be read as the state of a run: {error}") from error


def _tensors(
    net: nn.Module, optimiser: torch.optim.Optimizer, average: AveragedWeights
) -> Iterator[tuple[str, Tensor]]:
    """Yield all tensors of a state, by name."""
    for name, parameter in net.named_parameters():
        yield f"net.{name}", parameter
        yield f"ema.{name}", average.weights[name]
        for moment in MOMENTS:
            yield f"{moment}.{name}", optimiser.state[parameter][moment]
    for name, buffer in net.named_buffers():
        yield f"net.{name}", buffer
        yield f"ema.{name}", average.weights[name]


def _counters(metadata: dict[str, Any]) -> Counters:
    values = json.loads(metadata.get("counters", "null"))
    if isinstance(values, dict) and "step" in values:  # runs of before do not count validations
        values.setdefault("validated", values["step"])
    if not isinstance(values, dict) or set(values) != {item.name for item in fields(Counters)}:
        raise ValueError("it has no counters")
    for item in fields(Counters):
        value, whole = values[item.name], type(item.default) is int
        fits = isinstance(value, int if whole else int | float) and value >= 0
        if not fits or (isinstance(value, int) and value > MAX_COUNT):
            raise ValueError(f"its counter {item.name} is {value!r:.40}")
    return Counters(**values)
