"""How well a network does on crops that it does not learn from.

Radii come from a continuum, whatever a phase of the training is built on. Gains are the PSNR won
over the blurred crop, in dB, on the pixels of a range of radii; a crop counts where it has one
pixel in a hundred there, and the mean is over the crops. Not for: the fixed benchmark and the
paper's measures (evaluation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.core.units import MIN_BIN_SHARE, RADIUS_BINS, RadiusBin
from napari_kpac.network import KPACNet
from napari_kpac.training.examples import NOISE, Data, Examples, coarse
from napari_kpac.training.losses import mean_absolute_error
from napari_kpac.training.options import TrainOptions
from napari_kpac.training.processes import Processes

BINS = (*RADIUS_BINS, RadiusBin(RADIUS_BINS[-1].high, 20))
PLACES = ("all", *(f"{each.label} px" for each in BINS))
"""Where gains are measured: on all pixels, and in ranges of radii."""
NOISE_SIGMA = 0.01
"""Of the noisy crops, white being 1."""
PREVIEWED_CROPS = 3
NAN = float("nan")

Gains = dict[str, float]
"""dB by place."""


@dataclass(frozen=True)
class RealScores:
    """Gains in dB on real pairs, after a fit of gain and offset to each channel."""

    mean: float
    worst: float
    muted: float
    """The mean with every alpha muted."""


@dataclass(frozen=True)
class Scores:
    """What a validation found."""

    mae: float
    """Mean absolute error, white being 1."""
    input_mae: float
    """The same of the blurred crops."""
    gains: Gains
    """Gain without noise."""
    alphas: tuple[tuple[float, ...], ...]
    """Mean of every alpha, for each block."""
    preview: npt.NDArray[np.uint8]
    """Blurred, deblurred and sharp, from left to right, of a few crops."""
    noisy: Gains = field(default_factory=dict)
    """Gain with noise of 1 %."""
    sharp_kept: float = NAN
    """PSNR of what becomes of the sharp crops, against themselves."""
    muting: tuple[Gains, ...] = ()
    """Gain lost when every alpha is muted, then when the alphas of each dilation are."""
    real: RealScores | None = None
    """Where real pairs were given."""

    def figures(self) -> dict[str, float]:
        """Return all figures by name; all but the errors are in dB."""
        return {name: value for name, value in self._all_figures().items() if np.isfinite(value)}

    def summary(self) -> str:
        """Return the error, the gains and the alphas in a line."""
        gains = "  ".join(f"{name} {gain:+.2f}" for name, gain in self.gains.items())
        alphas = " | ".join(" ".join(f"{mean:.2f}" for mean in block) for block in self.alphas)
        return (
            f"error {self.mae:.5f} (input {self.input_mae:.5f}); gain in dB: {gains}; alphas:"
            f" {alphas}"
        )

    def _all_figures(self) -> dict[str, float]:
        found = {"mae": self.mae, "input mae": self.input_mae, "sharp kept": self.sharp_kept}
        found |= {f"gain {place}": value for place, value in self.gains.items()}
        found |= {f"gain with noise {place}": value for place, value in self.noisy.items()}
        for index, costs in enumerate(self.muting):
            what = f"cost of muting {index or 'everything'}"
            found |= {f"{what} {place}": value for place, value in costs.items()}
        if self.real is not None:
            found |= {
                "real gain": self.real.mean,
                "worst real gain": self.real.worst,
                "real gain muted": self.real.muted,
            }
        return found


def figure_names(dilations: int) -> list[str]:
    """Return the names of all figures that a validation may find."""
    gains = dict.fromkeys(PLACES, NAN)
    muting = (gains,) * (dilations + 1) if dilations else ()
    nothing = np.zeros((0, 0, 3), np.uint8)
    real = RealScores(NAN, NAN, NAN)
    return list(Scores(NAN, NAN, gains, (), nothing, gains, NAN, muting, real)._all_figures())


def validate_steps(
    net: torch.nn.Module, data: Data, options: TrainOptions, processes: Processes
) -> Steps[Scores]:
    """Run a network over the crops kept for validation, yielding after each.

    Processes share the crops, and all of them yield equally often.
    """
    blocks, dilations = attention_shape(net)
    # Everything muted, then each dilation.
    mutings = [[float(d != muted) for d in range(dilations)] for muted in range(dilations)]
    mutings = [[0.0] * dilations, *mutings] if dilations else []
    # For each way to run the network: the sums of gains, and how many they are.
    sums = torch.zeros(2 + len(mutings), 2, len(PLACES), dtype=torch.float64)
    totals = torch.zeros(4, dtype=torch.float64)
    reals = torch.full((options.validation_crops, 2), NAN, dtype=torch.float64)
    alpha_sums = torch.zeros(blocks, dilations, dtype=torch.float64)
    rows: list[Tensor] = []

    @torch.no_grad()
    def add(index: int) -> None:
        examples = data.held_out(options, index).to(processes.device)
        alphas: list[Tensor] = []
        output = run(net, examples, alphas)
        # Blocks without scale attention say 1 everywhere.
        for block, alpha in enumerate(alphas[:blocks]):
            alpha_sums[block] += alpha.mean(dim=(0, 2, 3)).double().cpu()
        noisy = _noisy(examples, options.seed, index)
        tries = [(examples, output), (noisy, run(net, noisy, []))]
        tries += [(examples, run(net, examples, [], gains)) for gains in mutings]
        for each, (given, made) in zip(sums, tries, strict=True):
            before, after = (_squared(image, examples) for image in (given.blurred, made))
            _add_gains(each, before, after, examples.radius.cpu())
        kept = _decibels(_squared(run(net, _in_focus(examples), []), examples).mean())
        errors = [
            mean_absolute_error(image, examples.sharp) for image in (output, examples.blurred)
        ]
        totals.add_(torch.tensor([*map(float, (*errors, kept)), 1.0], dtype=torch.float64))
        if len(rows) < PREVIEWED_CROPS:
            rows.append(torch.cat([examples.blurred, output, examples.sharp], dim=3))
        real = data.held_out_real(options, index)
        if real is not None:
            reals[index] = torch.tensor(_real_gains(net, real.to(processes.device), mutings))

    for done, index in shared_crops(options, processes):
        if index is not None:
            add(index)
        yield Progress(done, options.validation_crops, "validating")

    def summed(values: Tensor) -> Tensor:
        mean = processes.mean(values.float().to(processes.device))
        return (mean * processes.world).double().cpu()

    mae, input_mae, kept_sum, count = summed(totals).tolist()
    clean, with_noise, *muted = map(_gains, summed(sums))
    alpha_means = summed(alpha_sums) / count if alpha_sums.numel() else alpha_sums
    shown = torch.cat(rows, dim=2)[0] if rows else torch.zeros(3, 1, 1)
    preview = ((shown.permute(1, 2, 0).clamp(-1, 1) + 1) * 127.5).round().byte().cpu().numpy()
    return Scores(
        mae / count,
        input_mae / count,
        clean,
        tuple(map(tuple, alpha_means.tolist())),
        preview,
        with_noise,
        kept_sum / count,
        tuple({place: clean[place] - gain for place, gain in each.items()} for each in muted),
        _real_scores(summed(reals.nan_to_num(0.0)), summed((~reals.isnan()).double()) > 0),
    )


def shared_crops(options: TrainOptions, processes: Processes) -> Iterator[tuple[int, int | None]]:
    """Yield how many crops are done after each, and its number; None where others have the last."""
    crops, world = options.validation_crops, processes.world
    for first in range(0, crops, world):
        index = first + processes.rank
        yield min(first + world, crops), index if index < crops else None


def run(
    net: torch.nn.Module,
    examples: Examples,
    alphas: list[Tensor],
    gains: Sequence[float] | None = None,
) -> Tensor:
    """Deblur examples; their own gains, and gains for each dilation, multiply alpha.

    The alphas of the blocks are added to the list ``alphas``, before any change.
    """

    def modulate(block: int, alpha: Tensor) -> Tensor:
        alphas.append(alpha)
        if examples.gains is not None and examples.mask is not None:
            size = (alpha.shape[-2], alpha.shape[-1])
            alpha = alpha * examples.gains[:, block, :, None, None] * coarse(examples.mask, size)
        if gains is not None:
            alpha = alpha * alpha.new_tensor(list(gains)).view(1, -1, 1, 1)
        return alpha

    output: Tensor = net(examples.blurred, examples.views, modulate=modulate)
    return output


def attention_shape(net: torch.nn.Module) -> tuple[int, int]:
    """Return how many blocks and dilations have alphas; none in networks without."""
    if not isinstance(net, KPACNet) or not net.config.scale_attention:
        return 0, 0
    return net.config.blocks, len(net.config.dilations)


def _add_gains(sums: Tensor, before: Tensor, after: Tensor, radius: Tensor) -> None:
    """Add the gains of a crop, from squared errors (1, H, W), where it has enough pixels."""
    masks = [torch.ones_like(radius, dtype=torch.bool)]
    masks += [(radius >= low) & (radius < high) for low, high in BINS]
    for index, mask in enumerate(masks):
        if mask.double().mean() >= MIN_BIN_SHARE:
            gain = _decibels(after[mask].mean()) - _decibels(before[mask].mean())
            sums[0, index] += float(gain)
            sums[1, index] += 1


def _gains(sums: Tensor) -> Gains:
    """Return the mean gains; places without crops are left out."""
    places = zip(PLACES, *sums.tolist(), strict=True)
    return {place: total / count for place, total, count in places if count}


def _real_scores(gains: Tensor, there: Tensor) -> RealScores | None:
    """Summarise gains (crops, 2), plain and muted, of the crops that are there."""
    if not there.any():
        return None
    plain, muted = (gains[:, i][there[:, i]] for i in (0, 1))
    without = float(muted.mean()) if len(muted) else NAN
    return RealScores(float(plain.mean()), float(plain.min()), without)


def _noisy(examples: Examples, seed: int, index: int) -> Examples:
    """Add noise to the blurred crop and its views; white and black are 2 apart here."""
    generator = torch.Generator().manual_seed(seed * 100_003 + index * 11 + NOISE)

    def with_noise(image: Tensor) -> Tensor:
        noise = torch.randn(image.shape, generator=generator).to(image.device)
        return image + 2 * NOISE_SIGMA * noise

    views = examples.views and (with_noise(examples.views[0]), with_noise(examples.views[1]))
    blurred = (views[0] + views[1]) / 2 if views else with_noise(examples.blurred)
    return replace(examples, blurred=blurred, views=views)


def _in_focus(examples: Examples) -> Examples:
    views = examples.views and (examples.sharp, examples.sharp)
    return replace(examples, blurred=examples.sharp, views=views)


def _real_gains(
    net: torch.nn.Module, examples: Examples, mutings: Sequence[Sequence[float]]
) -> list[float]:
    """Return the gain on a real pair, and that with everything muted."""
    made = [run(net, examples, [])]
    made += [run(net, examples, [], mutings[0])] if mutings else []
    before, *after = (
        float(_decibels(_fitted_error(image, examples.sharp)))
        for image in (examples.blurred, *made)
    )
    gains = [value - before for value in after]
    return [*gains, NAN][:2]


def _fitted_error(image: Tensor, sharp: Tensor) -> Tensor:
    """Return the squared error after a fit of gain and offset to each channel, white being 1.

    Images of a real pair can differ in exposure, which says nothing of blur.
    """
    values, truth = (each[0].double().flatten(1) / 2 for each in (image, sharp))
    values = values - values.mean(dim=1, keepdim=True)
    truth = truth - truth.mean(dim=1, keepdim=True)
    slope = (values * truth).sum(dim=1) / values.pow(2).sum(dim=1).clamp(min=1e-12)
    return (slope[:, None] * values - truth).pow(2).mean()


def _squared(image: Tensor, examples: Examples) -> Tensor:
    """Return the squared error (1, H, W) of an image, white being 1."""
    made, truth = image.double().clamp(-1, 1), examples.sharp.double()
    return ((made - truth) / 2).pow(2).mean(dim=1).cpu()


def _decibels(error: Tensor) -> Tensor:
    return -10 * torch.log10(error.clamp(min=1e-10))
