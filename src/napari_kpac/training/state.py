"""All that a run needs in order to go on exactly where it stopped, in one file without pickles.

Random numbers need no state: every crop is a function of the seed and its number (examples).
Not for: finished models (weights).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from napari_kpac.core.errors import FileError
from napari_kpac.training.options import TrainOptions
from napari_kpac.weights.store import write_tensors

MOST = 10**12
"""No run has more steps or takes longer."""
MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass
class Counters:
    """What a run has done so far."""

    step: int = 0
    best: float = float("inf")
    """Smallest error of a validation."""
    best_step: int = 0
    seconds: float = 0.0


def make_optimiser(net: nn.Module, options: TrainOptions) -> torch.optim.Adam:
    """Make Adam with a rate of its own for the attention modules."""
    attention: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in net.named_parameters():
        (attention if is_attention(name) else others).append(parameter)
    groups: list[dict[str, Any]] = [{"params": others, "attention": False}]
    if attention:
        groups.append({"params": attention, "attention": True})
    return torch.optim.Adam(groups, lr=options.rate, betas=options.betas)


def is_attention(name: str) -> bool:
    """Tell whether a parameter belongs to the scale or shape attention of a block."""
    return name.startswith("blocks.") and name.split(".")[2] in ("scale", "shape")


def set_rate(optimiser: torch.optim.Optimizer, rate: float, attention: float) -> None:
    """Set the learning rate, and that of the attention modules as a share of it."""
    for group in optimiser.param_groups:
        group["lr"] = rate * (attention if group["attention"] else 1.0)


class Average:
    """Weights averaged over the steps, with a decay that grows to its value at the beginning."""

    def __init__(self, net: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in net.state_dict().items()}

    @torch.no_grad()
    def update(self, net: nn.Module, step: int) -> None:
        """Take in the weights after a step."""
        keep = min(self.decay, (1 + step) / (10 + step)) if self.decay else 0.0
        for name, value in net.state_dict().items():
            self.weights[name].lerp_(value, 1 - keep)


def save_state(
    path: Path,
    net: nn.Module,
    optimiser: torch.optim.Optimizer,
    average: Average,
    counters: Counters,
) -> None:
    """Write the state; a state that was there before stays until the new one is whole."""
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in _tensors(net, optimiser, average)
    }
    write_tensors(path, tensors, {"counters": json.dumps(asdict(counters))})


def load_state(
    path: Path, net: nn.Module, optimiser: torch.optim.Optimizer, average: Average
) -> Counters:
    """Put a state that was saved back in place.

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
    net: nn.Module, optimiser: torch.optim.Optimizer, average: Average
) -> Iterator[tuple[str, Tensor]]:
    """Go through all tensors of a state, by name."""
    for name, parameter in net.named_parameters():
        yield f"net.{name}", parameter
        yield f"ema.{name}", average.weights[name]
        for moment in MOMENTS:
            yield f"{moment}.{name}", optimiser.state[parameter][moment]


def _counters(metadata: dict[str, Any]) -> Counters:
    values = json.loads(metadata.get("counters", "null"))
    if not isinstance(values, dict) or set(values) != {item.name for item in fields(Counters)}:
        raise ValueError("it has no counters")
    for item in fields(Counters):
        value, whole = values[item.name], type(item.default) is int
        fits = isinstance(value, int if whole else int | float) and value >= 0
        if not fits or (isinstance(value, int) and value > MOST):
            raise ValueError(f"its counter {item.name} is {value!r:.40}")
    return Counters(**values)
