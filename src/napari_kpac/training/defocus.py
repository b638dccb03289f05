"""Training of DMENet: its loss, its validation, and VGG-19's weights to start from.

Not for: the training of networks that deblur (losses, validation).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, mse_loss

from napari_kpac.core.errors import TrainingError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.network import DMENet
from napari_kpac.network.dmenet import (
    FULL_SCALE_PX,
    MEANS_BGR,
    VGG_CONVS,
    defocus_of,
    sigma_of,
)
from napari_kpac.training.examples import Data
from napari_kpac.training.losses import VGG_MEAN, VGG_STD, read_vgg
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import Processes
from napari_kpac.training.validation import PREVIEWED_CROPS, shared_crops

AUXILIARY_WEIGHT = 0.1
"""Of what the auxiliary heads say, all together, in the loss."""
SAMPLES = 16
"""Rows and columns of a crop that count for the rank correlation."""


@dataclass(frozen=True)
class RadiusScores:
    """What a validation of an estimator of defocus found."""

    mae: float
    """Mean error of the radius, in pixels."""
    input_mae: float
    """The same for the best constant guess, the median of the true radii."""
    rank: float
    """Spearman's correlation of the estimated with the true radii; 0 for a constant map."""
    preview: npt.NDArray[np.uint8]
    """Blurred, the estimated and the true radius, from left to right, of a few crops."""
    alphas: tuple[tuple[float, ...], ...] = ()
    """None: the network has no attention."""

    def figures(self) -> dict[str, float]:
        """Return all figures by name."""
        return dict(zip(radius_figure_names(), (self.mae, self.input_mae, self.rank), strict=True))

    def summary(self) -> str:
        """Return the figures in a line."""
        return (
            f"error of the radius {self.mae:.3f} px (constant guess {self.input_mae:.3f}); rank"
            f" correlation {self.rank:.3f}"
        )


def radius_figure_names() -> list[str]:
    """Return the names of all figures that a validation finds."""
    return ["mae", "input mae", "rank correlation"]


def defocus_losses(maps: Sequence[Tensor], radius: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean error of the radius in pixels, and the loss.

    Parameters
    ----------
    maps
        What the network and then its auxiliary heads say, (B, 1, h, w) each.
    radius
        (B, H, W), in pixels.
    """
    if radius.isnan().any():
        raise TrainingError(
            "the radius of the blur is not known in these images, and DMENet learns nothing else;"
            " train it on synthetic data, or on pairs that synthesise wrote"
        )
    wanted = defocus_of(radius)[:, None]
    main, *others = maps
    loss = mse_loss(main, wanted)
    for said in others:
        target = adaptive_avg_pool2d(wanted, (said.shape[-2], said.shape[-1]))
        loss = loss + AUXILIARY_WEIGHT / len(others) * mse_loss(said, target)
    return (radius_of(main) - radius).abs().mean(), loss


def radius_of(defocus: Tensor) -> Tensor:
    """Return the radii in pixels, (B, H, W), of what the network says."""
    return 2 * sigma_of(defocus[:, 0])


def validate_radius_steps(
    net: nn.Module, data: Data, options: TrainOptions, processes: Processes
) -> Steps[RadiusScores]:
    """Run a network over the crops kept for validation, yielding after each.

    Processes share the crops, and all of them yield equally often. The network is in evaluation
    mode until the end.
    """
    count = options.validation_crops
    errors = torch.zeros(count)
    samples = torch.zeros(count, 2, SAMPLES, SAMPLES)
    rows: list[Tensor] = []

    @torch.no_grad()
    def add(index: int) -> None:
        examples = data.held_out(options, index).to(processes.device)
        image = (examples.blurred + 1) / 2
        maps: tuple[Tensor, ...] = net(image)
        error, _ = defocus_losses(maps, examples.radius)
        found = torch.stack([radius_of(maps[0])[0], examples.radius[0]]).cpu()
        errors[index] = error.cpu()
        every = found.shape[-1] // SAMPLES
        samples[index] = found[:, every // 2 :: every, every // 2 :: every][:, :SAMPLES, :SAMPLES]
        if len(rows) < PREVIEWED_CROPS:
            grey = (found / (FULL_SCALE_PX - 1)).clamp(0, 1)
            side_by_side = [image[0].cpu(), *(each.expand(3, -1, -1) for each in grey)]
            rows.append(torch.cat(side_by_side, dim=2))

    net.eval()
    try:
        for done, index in shared_crops(options, processes):
            if index is not None:
                add(index)
            yield Progress(done, count, "validating")
    finally:
        net.train()

    def summed(values: Tensor) -> Tensor:
        return (processes.mean(values.to(processes.device)) * processes.world).cpu()

    made, truth = summed(samples).transpose(0, 1).flatten(1).double().numpy()
    varies = np.ptp(made) > 0 and np.ptp(truth) > 0
    shown = torch.cat(rows, dim=1) if rows else torch.zeros(3, 1, 1)
    return RadiusScores(
        float(summed(errors).mean()),
        float(np.abs(truth - np.median(truth)).mean()),
        float(spearmanr(made, truth).statistic) if varies else 0.0,
        (shown.permute(1, 2, 0).clamp(0, 1) * 255).round().byte().numpy(),
    )


@torch.no_grad()
def start_from_vgg(net: DMENet, file: str) -> None:
    """Copy VGG-19's convolutions into the encoder.

    torchvision's weights expect RGB minus means, divided by deviations; the network's own input is
    BGR in 0..255 minus slightly other means. The first layer is changed to match.
    """
    places: dict[str, str] = {}
    index = 0
    for level, count in enumerate(VGG_CONVS):
        for conv in range(count):
            for kind in ("weight", "bias"):
                places[f"{index}.{kind}"] = f"encoder.{level}.convs.{conv}.{kind}"
            index += 2  # a convolution and its ReLU
        index += 1  # the pooling
    own = net.state_dict()
    given = read_vgg(file, {theirs: own[ours] for theirs, ours in places.items()})
    deviation = 255 * torch.tensor(VGG_STD).view(1, 3, 1, 1)
    kernel = (given["0.weight"].float() / deviation).flip(1)
    shift = torch.tensor(MEANS_BGR) - 255 * torch.tensor(VGG_MEAN).flip(0)
    given["0.weight"] = kernel
    given["0.bias"] = given["0.bias"].float() + kernel.sum(dim=(2, 3)) @ shift
    for theirs, ours in places.items():
        own[ours].copy_(given[theirs])
