"""What a network learns: to deblur (KPAC, the residual baseline), or to estimate defocus (DMENet).

An objective computes the loss of a step's crops and validates. Not for: the order of the steps
(loop), or the single losses (losses).
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

from torch import Tensor, nn

from napari_kpac.core.progress import Steps
from napari_kpac.network import DMENet, KPACNet
from napari_kpac.training.defocus import (
    RadiusScores,
    defocus_losses,
    radius_figure_names,
    validate_radius_steps,
)
from napari_kpac.training.examples import Data, Examples
from napari_kpac.training.losses import (
    PerceptualLoss,
    attention_loss,
    frequency_error,
    mean_absolute_error,
    mean_psnr,
)
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import Processes
from napari_kpac.training.validation import (
    Scores,
    attention_shape,
    figure_names,
    run,
    validate_steps,
)

AnyScores = Scores | RadiusScores


class Learned(NamedTuple):
    """What a batch says of the network."""

    error: Tensor
    """Shown to people: of images, white being 1; of radii, in pixels."""
    loss: Tensor
    alphas: list[Tensor]
    """Of each block; none where the network has no attention."""


class Deblurring:
    """Images are learned: by their pixels, frequencies, attention and features of VGG-19."""

    def __init__(self, net: nn.Module, perceptual: PerceptualLoss | None) -> None:
        self.attention = attention_shape(net)
        self._net = net
        self._perceptual = perceptual

    def learn(
        self, learner: nn.Module, examples: Examples, options: TrainOptions, processes: Processes
    ) -> Learned:
        """Return the loss of a batch."""
        alphas: list[Tensor] = []
        with processes.computing():
            output = run(learner, examples, alphas)
        output = output.float()
        target = examples.target()
        loss = error = mean_absolute_error(output, target)
        if options.frequency_loss:
            loss = loss + options.frequency_loss * frequency_error(output, target)
        if options.psnr_loss:
            psnr = mean_psnr(output, target, examples.radius, options.focus_weight)
            loss = loss - options.psnr_loss * psnr
        if options.attention_loss and all(self.attention):
            loss = loss + options.attention_loss * attention_loss(alphas, examples.radius)
        if self._perceptual is not None and options.perceptual:
            loss = loss + options.perceptual * self._perceptual(output, examples.sharp)
        return Learned(error, loss, alphas)

    def validate(
        self, net: nn.Module, data: Data, options: TrainOptions, processes: Processes
    ) -> Steps[Scores]:
        """Return how well the network does on crops that it does not learn from."""
        return validate_steps(net, data, options, processes)

    def columns(self) -> list[str]:
        """Return the names of what is reported of alphas and validations."""
        alphas = []
        if isinstance(self._net, KPACNet):
            counts = range(len(self._net.blocks)), range(len(self._net.config.dilations))
            alphas = [alpha_name(block, index) for block, index in product(*counts)]
        return [*alphas, *figure_names(self.attention[1])]


class DefocusEstimation:
    """The known radius of every pixel is learned, by the mean squared error."""

    attention = (0, 0)

    def learn(
        self,
        learner: nn.Module,
        examples: Examples,
        options: TrainOptions,  # noqa: ARG002 - as for images
        processes: Processes,
    ) -> Learned:
        """Return the loss of a batch."""
        with processes.computing():
            maps = learner((examples.blurred + 1) / 2, auxiliary=True)
        return Learned(*defocus_losses([each.float() for each in maps], examples.radius), [])

    def validate(
        self, net: nn.Module, data: Data, options: TrainOptions, processes: Processes
    ) -> Steps[RadiusScores]:
        """Return how well the network does on crops that it does not learn from."""
        return validate_radius_steps(net, data, options, processes)

    def columns(self) -> list[str]:
        """Return the names of what is reported of validations."""
        return radius_figure_names()


Objective = Deblurring | DefocusEstimation


def objective_of(net: nn.Module, perceptual: PerceptualLoss | None) -> Objective:
    """Return what a network learns."""
    return DefocusEstimation() if isinstance(net, DMENet) else Deblurring(net, perceptual)


def alpha_name(block: int, index: int) -> str:
    """Return the name of an alpha in the table of a run; both are counted from 0."""
    return f"block {block + 1} alpha {index + 1}"
