"""How well a network does on crops that it does not learn from.

Not for: the fixed benchmark and the paper's measures (evaluation).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from napari_kpac.training.examples import Data, Examples
from napari_kpac.training.losses import mean_absolute_error
from napari_kpac.training.options import TrainOptions

BINS = {f"{low}-{high} px": (low, high) for low, high in pairwise((0, 1, 2, 4, 8, 12))}
"""Radii in pixels between which the gain is told."""
SHOWN = 3
"""Crops in a preview."""


@dataclass(frozen=True)
class Scores:
    """What a validation found."""

    mae: float
    """Mean absolute error, white being 1."""
    input_mae: float
    """The same of the blurred pictures."""
    gains: dict[str, float]
    """Gain in dB by radius of the blur in pixels, over all crops together; "all" over all."""
    alphas: tuple[tuple[float, ...], ...]
    """Mean of every alpha, for each block."""
    preview: npt.NDArray[np.uint8]
    """Blurred, deblurred and sharp, from left to right, of a few crops."""


def validate(
    net: torch.nn.Module, data: Data, options: TrainOptions, device: torch.device
) -> Scores:
    """Run a network over the crops kept for validation."""
    sums: dict[str, Tensor] = {}
    rows, means, errors = [], [], []
    for index in range(options.crops):
        examples = data.held_out(options, index).to(device)
        alphas: list[Tensor] = []
        with torch.no_grad():
            output = run(net, examples, alphas)
        errors.append(
            [
                float(mean_absolute_error(picture, examples.sharp))
                for picture in (output, examples.blurred)
            ]
        )
        means.append([alpha.mean(dim=(0, 2, 3)).tolist() for alpha in alphas])
        for name, value in _squared(output, examples).items():
            sums[name] = sums.get(name, torch.zeros_like(value)) + value
        if index < SHOWN:
            rows.append(torch.cat([examples.blurred, output, examples.sharp], dim=3))
    gains = {
        name: float(10 * torch.log10(before / after))
        for name, (before, after, count) in sums.items()
        if count > 0 and after > 0
    }
    mae, input_mae = np.mean(errors, axis=0)
    mean = np.mean(means, axis=0)
    shown = torch.cat(rows, dim=2)[0].permute(1, 2, 0).clamp(-1, 1)
    preview = ((shown + 1) * 127.5).round().byte().cpu().numpy()
    return Scores(float(mae), float(input_mae), gains, tuple(map(tuple, mean.tolist())), preview)


def run(net: torch.nn.Module, examples: Examples, alphas: list[Tensor]) -> Tensor:
    """Deblur examples; the alphas of the blocks are added to the list."""

    def keep(_: int, alpha: Tensor) -> Tensor:
        alphas.append(alpha)
        return alpha

    output: Tensor = net(examples.blurred, examples.views, modulate=keep)
    return output


def _squared(output: Tensor, examples: Examples) -> dict[str, Tensor]:
    """Sum squared errors before and after, and pixels, by radius."""
    truth = examples.sharp.double()
    before = (examples.blurred.double() - truth).pow(2).mean(dim=1)
    after = (output.double().clamp(-1, 1) - truth).pow(2).mean(dim=1)

    def sums(mask: Tensor) -> Tensor:
        return torch.stack([before[mask].sum(), after[mask].sum(), mask.double().sum()])

    found = {"all": sums(torch.ones_like(before, dtype=torch.bool))}
    if examples.radius is not None:
        for name, (low, high) in BINS.items():
            found[name] = sums((examples.radius >= low) & (examples.radius < high))
    return found
