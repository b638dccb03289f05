"""``napari-kpac train`` and ``synthesise``: train a network, and make pairs to learn from.

Not for: the training itself (training), or the blur (datasets).
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from napari_kpac.cli.common import INTERRUPTED, MISTAKE, Commands, add_command, print_json
from napari_kpac.core.errors import CancelledError, ConfigError, for_people

if TYPE_CHECKING:
    from napari_kpac.core.progress import Steps
    from napari_kpac.training import Trained, TrainProgress


def register(commands: Commands) -> None:
    """Declare the commands."""
    from napari_kpac.cli.common import add_options
    from napari_kpac.datasets import SynthesisOptions
    from napari_kpac.training import PRESETS, TrainOptions

    command = add_command(
        commands,
        "train",
        _train,
        summary="train a network on photographs or pairs of one's own",
        example="napari-kpac train --preset finetune --root photos/ -o runs/mine\n"
        "  napari-kpac train --resume runs/mine",
    )
    command.add_argument(
        "--preset",
        default="default",
        metavar="PRESET",
        help=f"{', '.join(PRESETS)}, or a .toml file; further options change it (default: default)",
    )
    command.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="folder for the run (default: runs/NAME)"
    )
    command.add_argument("--resume", type=Path, metavar="DIR", help="go on with this run")
    add_options(command, TrainOptions, "options, with defaults where the preset says nothing")
    pairs = add_command(
        commands,
        "synthesise",
        _synthesise,
        summary="make pairs of defocused and sharp images from sharp photographs",
        example="napari-kpac synthesise photos/ -o pairs --per-photo 2 --dual",
    )
    pairs.add_argument(
        "photos", type=Path, nargs="+", metavar="PHOTOS", help="images, or folders of images"
    )
    pairs.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the pairs"
    )
    add_options(pairs, SynthesisOptions)


def _train(given: argparse.Namespace) -> int:
    from napari_kpac.cli.common import given_options
    from napari_kpac.training import TrainOptions, preset
    from napari_kpac.training.loop import train_steps
    from napari_kpac.training.run_folder import RunFolder

    changes = given_options(given, TrainOptions)
    try:
        if given.resume is not None:
            if changes or given.output is not None:
                raise ConfigError("a run is resumed with the options that it has: give no others")
            steps = train_steps(RunFolder(given.resume).options(), given.resume, resume=True)
        else:
            steps = train_steps(preset(given.preset, **changes), given.output)
    except ConfigError as error:
        print(f"napari-kpac train: {for_people(error)}", file=sys.stderr)
        return MISTAKE
    trained = _followed(steps, as_json=given.json)
    if trained is None:
        print("napari-kpac train: stopped; --resume goes on from here", file=sys.stderr)
        return INTERRUPTED
    if given.json:
        print_json({"run": str(trained.run), "model": str(trained.model), "steps": trained.steps})
    else:
        print(f"{trained.steps} steps; the best model is {trained.model}")
        print(f"use it: napari-kpac models install {trained.model}")
    return 0


def _followed(steps: Steps[Trained], *, as_json: bool) -> Trained | None:
    """Run to the end, or to the end of the step in which an interrupt comes."""
    from tqdm import tqdm

    from napari_kpac.training import TrainProgress

    with (
        _interrupts() as stop,
        tqdm(desc="train", unit="step", leave=False, disable=not sys.stderr.isatty()) as bar,
    ):
        begun = False
        while True:
            try:
                progress = next(steps)
            except StopIteration as finished:
                trained: Trained = finished.value
                return trained
            except CancelledError:  # another process of the same run was interrupted
                return None
            step = progress if isinstance(progress, TrainProgress) else None
            begun = begun or step is not None
            bar.total = progress.total
            bar.set_postfix_str(f"loss {step.loss:.4f}" if step else progress.stage, refresh=False)
            bar.update(progress.done - bar.n)
            if step and step.scores is not None and not as_json:
                tqdm.write(_line(step))
                sys.stdout.flush()
            if stop:
                steps.close()
                if not begun:
                    raise KeyboardInterrupt
                return None


def _line(progress: TrainProgress) -> str:
    """Return a validation as one line."""
    scores = progress.scores
    if scores is None:
        return ""
    return (
        f"step {progress.done}: {scores.summary()}; {progress.throughput / 1e3:.0f} kpx/s,"
        f" {progress.eta / 60:.0f} min left"
    )


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Note an interrupt instead of raising it at any place; a second one raises."""
    noted: list[int] = []

    def note(number: int, _: object) -> None:
        if noted:
            raise KeyboardInterrupt
        noted.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _synthesise(given: argparse.Namespace) -> None:
    from napari_kpac.cli.common import given_options, show
    from napari_kpac.datasets import SynthesisOptions, synthesise

    options = SynthesisOptions(**given_options(given, SynthesisOptions))
    result = show(synthesise(given.photos, given.output, options), "synthesise", "pair")
    if given.json:
        print_json(
            {
                "folder": str(result.output),
                "made": result.made,
                "kept": result.kept,
                "skipped": result.skipped,
            }
        )
    else:
        print(
            f"{result.made} pairs made, {result.kept} kept, {len(result.skipped)} photographs left"
            f" out; in {result.output.resolve()}"
        )
