"""``napari-kpac bench``: speed and memory on this machine, as ratios.

Not for: measuring (evaluation.speed).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

from napari_kpac.cli.common import Commands, add_command, print_json, print_table


def register(commands: Commands) -> None:
    """Declare the command."""
    command = add_command(
        commands,
        "bench",
        _bench,
        summary="measure speed and memory on this machine",
        example="napari-kpac bench --large",
    )
    command.add_argument("--model", default="default", help="model to measure (default: default)")
    command.add_argument(
        "--repeats", type=int, default=3, help="interleaved repetitions, best counts"
    )
    command.add_argument(
        "--large", action="store_true", help="also 12 megapixels in tiles (minutes)"
    )
    command.add_argument("--huge", action="store_true", help="also 100 megapixels (many minutes)")
    command.add_argument(
        "--training", action="store_true", help="measure only how fast a CPU learns"
    )
    command.add_argument(
        "--check", action="store_true", help="only compare the results of all devices with the CPU"
    )


def _bench(given: argparse.Namespace) -> None:
    from napari_kpac.cli.common import show
    from napari_kpac.evaluation.speed import bench_steps, check_devices, training_steps

    if given.check:
        measures = check_devices(given.model)
    elif given.training:
        measures = show(training_steps(given.repeats), "bench")
    else:
        steps = bench_steps(given.model, repeats=given.repeats, large=given.large, huge=given.huge)
        measures = show(steps, "bench")
    if given.json:
        print_json([asdict(measure) for measure in measures])
        return
    print_table(
        ("measure", "value", "", "must", "aim", ""),
        [(m.name, f"{m.value:.2f}", m.unit, m.must, m.aim, m.note) for m in measures],
    )
