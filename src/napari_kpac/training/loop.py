"""The training loop: a generator that yields after every step and can stop at any yield.

Not for: what a step is made of (examples, losses, state), or showing it (cli, widgets).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from napari_kpac.core.allocator import keeping_memory
from napari_kpac.core.errors import CancelledError, FileError, TrainingError
from napari_kpac.core.progress import Progress, Steps, relay
from napari_kpac.engine.device import using_threads
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.network import DMENet, KPACNet
from napari_kpac.training.examples import Data, open_data_steps
from napari_kpac.training.losses import PerceptualLoss
from napari_kpac.training.objectives import AnyScores, alpha_name, objective_of
from napari_kpac.training.options import Phase, TrainOptions
from napari_kpac.training.processes import Processes, join
from napari_kpac.training.run_folder import BEST, EMA, LAST, Metrics, RunFolder, card_of_run
from napari_kpac.training.state import (
    AveragedWeights,
    Counters,
    Network,
    averaged_weights,
    load_state,
    make_optimiser,
    save_state,
    set_learning_rate,
    start_network,
)
from napari_kpac.weights import save_network

REPORTED_STEPS = 10
"""Steps between rows of the metrics."""


@dataclass(frozen=True)
class TrainProgress(Progress):
    """One step of training is done."""

    loss: float = 0.0
    rate: float = 0.0
    throughput: float = 0.0
    """Pixels learned from in a second."""
    eta: float = 0.0
    """Seconds until the end, at this pace."""
    alphas: tuple[tuple[float, ...], ...] = ()
    """Mean of every alpha of this step's crops, for each block."""
    scores: AnyScores | None = None
    """Of a validation, after the steps that have one."""


@dataclass(frozen=True)
class Trained:
    """What a run made."""

    run: Path
    model: Path
    """The best model."""
    steps: int
    scores: AnyScores | None


def train(
    options: TrainOptions, run: str | Path | None = None, *, resume: bool = False
) -> Steps[Trained]:
    """Train a network, yielding a :class:`TrainProgress` after every step.

    Closing the generator, or an interrupt, keeps everything that was learned so far.

    Parameters
    ----------
    options
        What is trained; of a run that is resumed, those in its folder (see :func:`resume`).
    run
        Folder for the run; by default ``runs/`` and the name of the model.
    resume
        Go on with the run that is in the folder.

    Raises
    ------
    ConfigError
        If the options make no sense, or the folder holds another run.
    FileError
        If data cannot be read, or the run not be written.
    WeightsError
        If the second phase needs VGG-19 weights and there are none.
    """
    steps = train_steps(options, run, resume=resume)
    return (yield from relay(steps, lambda each: each if isinstance(each, TrainProgress) else None))


def train_steps(
    options: TrainOptions, run: str | Path | None = None, *, resume: bool = False
) -> Steps[Trained]:
    """Train a network as :func:`train` does, and yield plain progress between the steps, too.

    That is for each file that is looked at, while processes are started, and for each crop of a
    validation.
    """
    folder = RunFolder(run or Path("runs") / options.name)
    data = yield from open_data_steps(options)
    options, processes = yield from join(options, resumed=resume)
    return (yield from run_with(options, folder, processes, data, resumed=resume))


def run_with(
    options: TrainOptions, folder: RunFolder, processes: Processes, data: Data, *, resumed: bool
) -> Steps[Trained]:
    """Run the part of one process in a run."""
    with using_threads(processes.threads or None):
        perceptual = PerceptualLoss(options.vgg) if options.fine_steps else None
        leading = processes.rank == 0
        if leading and not resumed:
            folder.begin(options)
        try:
            yield from processes.begin(folder.path, resumed=resumed)
            advice = (
                f"train with a smaller batch_size (now {options.batch_size}) or crop_size (now"
                f" {options.crop_size}); what was saved is kept"
            )
            with keeping_memory(), explaining_shortage("this run", advice):
                trainer = Trainer(options, folder, processes, data, perceptual)
                return (yield from trainer.go(resumed))
        except BaseException:  # to be closed before the first step as well
            if leading and not resumed:
                folder.clear()
            raise
        finally:
            processes.end()


def resume(run: str | Path) -> Steps[Trained]:
    """Resume a run with the options that it was begun with."""
    return train(RunFolder(run).options(), run, resume=True)


def read_trained(run: str | Path) -> Network:
    """Make the network of a run with its averaged weights, as they are after its last step."""
    folder = RunFolder(run)
    net = start_network(folder.options())
    try:
        net.load_state_dict(averaged_weights(folder.state))
    except RuntimeError as error:  # what torch raises where names or shapes differ
        raise FileError(
            f"{folder.state} belongs to another network than its run's options describe"
        ) from error
    return net.requires_grad_(False).eval()


class Trainer:
    """A run at work."""

    def __init__(
        self,
        options: TrainOptions,
        folder: RunFolder,
        processes: Processes,
        data: Data,
        perceptual: PerceptualLoss | None,
    ) -> None:
        self.options, self.folder, self.processes, self.data = options, folder, processes, data
        self.leading = processes.rank == 0
        net = start_network(options).to(processes.device).train()
        self.net: Network = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.optimiser = make_optimiser(self.net, options)
        self.average = AveragedWeights(self.net, options.ema_decay)
        self.counters = Counters()
        self.scores: AnyScores | None = None
        self.phases = options.schedule()
        self.objective = objective_of(self.net, perceptual and perceptual.to(processes.device))
        self._saved = -1
        """Step of the last saved state; -1 before there is one."""
        self._before = 0.0
        """When the step that is being done began."""

    def go(self, resumed: bool) -> Steps[Trained]:
        """Learn to the end."""
        options = self.options
        if resumed:
            self.counters = load_state(self.folder.state, self.net, self.optimiser, self.average)
        counters = self.counters
        learner, optimiser = self.processes.set_up(self.net, self.optimiser)
        metrics = (
            Metrics(self.folder.path, self._columns(), counters.step) if self.leading else None
        )
        begun, pace = counters.step, 0.0
        self._before = time.monotonic()
        self._saved = counters.step if resumed else -1
        try:
            if resumed and counters.validated < counters.step and self._due(options.validate_every):
                # The run was stopped while it validated.
                self.scores = yield from self._validated()
                if metrics is not None:
                    metrics.add(counters.step, _row_of_validation(self.scores))
                    self._save()
            while counters.step < options.total:
                phase = next(phase for phase in self.phases if counters.step < phase.end)
                rate = learning_rate_at(counters.step - phase.begin, phase.options)
                set_learning_rate(optimiser, rate, phase.options.attention_learning_rate)
                loss, alphas = self.step(learner, optimiser, phase)
                self.average.update(self.net, counters.step)
                counters.step += 1
                step = counters.step
                now = time.monotonic()
                lasted = now - self._before
                counters.seconds += lasted
                pace = lasted if step == begun + 1 else 0.9 * pace + 0.1 * lasted
                self._before = now
                self.scores = None
                if self._due(options.validate_every):
                    self.scores = yield from self._validated()
                progress = TrainProgress(
                    step,
                    options.total,
                    phase.label,
                    loss=loss,
                    rate=rate,
                    throughput=phase.options.batch_size * phase.options.crop_size**2 / pace,
                    eta=pace * (options.total - step),
                    alphas=alphas,
                    scores=self.scores,
                )
                if metrics is not None and (step % REPORTED_STEPS == 0 or self.scores is not None):
                    metrics.add(step, _row(progress))
                if self.leading and self._due(options.save_every):
                    self._save()
                yield from self._reporting(progress)
        finally:
            if metrics is not None:
                metrics.close()
        return Trained(self.folder.path, self.folder.path / BEST, counters.step, self.scores)

    def _reporting(self, progress: Progress) -> Steps[None]:
        """Yield progress; where any process is closed there, save and end in all of them.

        Everything that was learned is complete between two steps.
        """
        reported = time.monotonic()
        closed: GeneratorExit | None = None
        try:
            yield progress
        except GeneratorExit as leaving:
            closed = leaving
        step = self.counters.step
        if self.processes.any_stops(closed is not None):
            if self.leading and step != self._saved:
                self._save()
            raise closed or CancelledError(
                f"another process of this run was stopped after {step} steps; what was"
                " learned is kept: resume the run to go on from here"
            )
        # A pause there costs time, but is no work.
        self._before += time.monotonic() - reported

    def step(
        self, learner: torch.nn.Module, optimiser: torch.optim.Optimizer, phase: Phase
    ) -> tuple[float, tuple[tuple[float, ...], ...]]:
        """Learn from one batch; returns the error and the mean of every alpha."""
        options, processes = phase.options, self.processes
        examples = self.data.batch(
            options,
            self.counters.step,
            processes.rank,
            processes.world,
            attention=self.objective.attention,
        ).to(processes.device)
        optimiser.zero_grad(set_to_none=True)
        error, loss, alphas = self.objective.learn(learner, examples, options, processes)
        processes.backward(loss)
        if options.gradient_clip:
            torch.nn.utils.clip_grad_norm_(self.net.parameters(), options.gradient_clip)
        value, total = processes.mean(torch.stack([error.detach(), loss.detach()])).tolist()
        if not math.isfinite(total):
            raise TrainingError(
                f"the loss is {total} after {self.counters.step} steps; what was saved is kept:"
                " start a new run from it, with a lower learning rate"
            )
        optimiser.step()
        self._share_buffers()
        means = (alpha.detach().float().mean(dim=(0, 2, 3)) for alpha in alphas)
        return value, tuple(tuple(processes.mean(mean).tolist()) for mean in means)

    def _share_buffers(self) -> None:
        """Average what the norms of each process have seen, so that all have the same network."""
        buffers = list(self.net.buffers())
        if buffers and self.processes.world > 1:
            shared = self.processes.mean(torch.cat([buffer.reshape(-1) for buffer in buffers]))
            parts = shared.split([buffer.numel() for buffer in buffers])
            for buffer, part in zip(buffers, parts, strict=True):
                buffer.copy_(part.view(buffer.shape))

    def _due(self, every: int) -> bool:
        return self.counters.step % every == 0 or self.counters.step == self.options.total

    def _validated(self) -> Steps[AnyScores]:
        """Validate the averaged weights, and keep them if they are the best so far."""
        counters, total = self.counters, self.options.total
        options = self.phases[-1].options
        crops = self.objective.validate(self.net, self.data, options, self.processes)
        with closing(crops):
            while True:
                # The weights that are learned are in their place whenever this yields.
                with self._averaged():
                    try:
                        crop = next(crops)
                    except StopIteration as stop:
                        scores: AnyScores = stop.value
                        break
                stage = f"{crop.stage}, {crop.done} of {crop.total} crops"
                yield from self._reporting(Progress(counters.step, total, stage))
        counters.validated = counters.step
        if scores.mae < counters.best:
            counters.best, counters.best_step = scores.mae, counters.step
            if self.leading:
                with self._averaged():
                    self._write(BEST, scores)
        if self.leading:
            self.folder.preview(counters.step, scores)
        return scores

    def _save(self) -> None:
        """Save the state, and the weights as models."""
        self._saved = self.counters.step
        save_state(self.folder.state, self.net, self.optimiser, self.average, self.counters)
        self._write(LAST, self.scores)
        if self.options.ema_decay:
            with self._averaged():
                self._write(EMA, self.scores)

    def _write(self, name: str, scores: AnyScores | None) -> None:
        if isinstance(self.net, KPACNet | DMENet):
            card = card_of_run(self.options, self.counters, self.data.about, scores)
            save_network(self.net, self.folder.path / name, card)

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Use the averaged weights in the network for a while."""
        kept = {name: value.detach().clone() for name, value in self.net.state_dict().items()}
        self.net.load_state_dict(self.average.weights)
        try:
            yield
        finally:
            self.net.load_state_dict(kept)

    def _columns(self) -> list[str]:
        return ["step", "loss", "rate", "pixels per second", *self.objective.columns()]


def _row(progress: TrainProgress) -> dict[str, float]:
    """Return a row of the metrics."""
    row = {
        "loss": progress.loss,
        "rate": progress.rate,
        "pixels per second": progress.throughput,
    }
    if progress.scores is not None:
        return row | _row_of_validation(progress.scores)
    return row | _named(progress.alphas)


def _row_of_validation(scores: AnyScores) -> dict[str, float]:
    return _named(scores.alphas) | scores.figures()


def _named(alphas: Sequence[Sequence[float]]) -> dict[str, float]:
    """Return the means of alpha of every block by the names that the metrics have for them."""
    return {
        alpha_name(block, index): mean
        for block, means in enumerate(alphas)
        for index, mean in enumerate(means)
    }


def learning_rate_at(step: int, options: TrainOptions) -> float:
    """Return the learning rate of a step of a phase, counted from 0: a rise, then half a cosine.

    With ``final_learning_rate`` 1 it stays as it is after its rise.
    """
    if step < options.warmup:
        return options.learning_rate * (step + 1) / (options.warmup + 1)
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    final = options.final_learning_rate
    return options.learning_rate * (final + (1 - final) * (1 + math.cos(math.pi * done)) / 2)
