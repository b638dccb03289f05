"""``napari-kpac evaluate`` and ``bench``: the quality of models and methods, and their speed.

Not for: measuring either (evaluation).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from napari_kpac.cli.common import (
    Commands,
    add_command,
    add_options,
    given_options,
    print_json,
    print_table,
    print_tables,
    show,
)


def register(commands: Commands) -> None:
    """Declare the commands."""
    from napari_kpac.evaluation import EvaluateOptions

    command = add_command(
        commands,
        "evaluate",
        _evaluate,
        summary="compare models and methods on a dataset",
        example="napari-kpac evaluate --dataset synthetic --root photos --method ebdb -o report",
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="folder for results.csv, summary.json and report.html; a run that was stopped goes on",
    )
    add_options(command, EvaluateOptions, flags={"kind": "dataset"})
    bench = add_command(
        commands,
        "bench",
        _bench,
        summary="measure speed and memory on this machine",
        example="napari-kpac bench --large",
    )
    bench.add_argument("--model", default="default", help="model to measure (default: default)")
    bench.add_argument(
        "--repeats", type=int, default=3, help="interleaved repetitions, best counts"
    )
    bench.add_argument("--large", action="store_true", help="also 12 megapixels in tiles (minutes)")
    bench.add_argument("--huge", action="store_true", help="also 100 megapixels (many minutes)")
    bench.add_argument("--device", help="measure only this device, for example cuda:0 or mps")
    bench.add_argument("--training", action="store_true", help="measure only how fast a CPU learns")
    bench.add_argument(
        "--check", action="store_true", help="only compare the results of all devices with the CPU"
    )


def _evaluate(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation import EvaluateOptions, evaluate
    from napari_kpac.evaluation.tables import tables_of

    options = EvaluateOptions(**given_options(given, EvaluateOptions))
    found = show(evaluate(options, given.output), "evaluate", "result")
    if given.json:
        lines = [line.to_dict() for line in found.lines]
        print_json({"options": options.to_dict(), "lines": lines})
        return
    print_tables(tables_of(found))
    if found.report is not None:
        print(f"\nWrote {found.report.resolve()}")


def _window_worker() -> Any:
    """Return what runs a function in a worker of the window; None where Qt is missing."""
    try:
        from napari_kpac.widgets.task import run_in_worker
    except (ImportError, RuntimeError):  # qtpy's own errors are RuntimeErrors
        return None
    return run_in_worker


def _bench(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation.speed import (
        bench_steps,
        check_devices,
        device_steps,
        training_steps,
    )

    if given.check:
        measures = check_devices(given.model)
    elif given.training:
        measures = show(training_steps(given.repeats), "bench")
    elif given.device:
        steps = device_steps(given.device, given.model, repeats=given.repeats)
        measures = show(steps, "bench")
    else:
        steps = bench_steps(
            given.model, repeats=given.repeats, large=given.large, huge=given.huge,
            worker=_window_worker(),
        )  # fmt: skip
        measures = show(steps, "bench")
    if given.json:
        print_json([asdict(measure) for measure in measures])
        return
    print_table(
        ("measure", "value", "", "must", "aim", ""),
        [(m.name, f"{m.value:.2f}", m.unit, m.must, m.aim, m.note) for m in measures],
    )
