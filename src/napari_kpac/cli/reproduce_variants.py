"""``napari-kpac reproduce ablation`` and its like: variants of the network, trained and compared.

Not for: training and comparing them (evaluation).
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from napari_kpac.cli.common import Commands, Run, add_command, print_json, print_tables

if TYPE_CHECKING:
    from napari_kpac.evaluation.tables import Table
    from napari_kpac.reproduction.variants import VariantOptions

TARGETS = {
    "weight-sharing": "train with and without weight sharing",
    "ablation": "train without attention, with each kind, with both, and the baseline",
    "num-blocks": "train with one to four KPAC blocks",
    "noise": "train with and without noise, and compare at four noise levels",
    "levels": "train with 2 and 3 levels",
    "dual": "train on single images and on dual-pixel views",
    "all": "everything that can be reproduced, in one report",
}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def register(targets: Commands) -> None:
    """Declare the commands."""
    for name, summary in TARGETS.items():
        command = add_command(
            targets,
            name,
            _all if name == "all" else _one(name),
            summary=summary,
            example=f"napari-kpac reproduce {name} --root photos --budget 60m -o {name}",
        )
        command.add_argument(
            "--root",
            required=True,
            metavar="PHOTOS",
            help="folder of sharp photographs; its MANIFEST.csv says which are for comparing",
        )
        command.add_argument(
            "--budget",
            type=_seconds,
            default=3600.0,
            metavar="TIME",
            help="for all variants together, as 90s, 60m or 2h (default: 60m)",
        )
        command.add_argument("--steps", type=int, help="steps of each variant, not the budget's")
        command.add_argument(
            "--photos", type=int, default=10, help="photographs to compare on (default: 10)"
        )
        command.add_argument("--seed", type=int, default=0, help="default: 0")
        command.add_argument("--device", default="auto", help="default: auto")
        command.add_argument("--preset", default="default", help="of training (default: default)")
        command.add_argument(
            "-o",
            "--output",
            type=Path,
            required=True,
            metavar="DIR",
            help="folder for runs and results; what was stopped goes on",
        )


def _one(name: str) -> Run:
    def run(given: argparse.Namespace) -> None:
        from napari_kpac.cli.common import show
        from napari_kpac.reproduction.experiments import find_experiment
        from napari_kpac.reproduction.report import write_variants
        from napari_kpac.reproduction.variants import variant_steps

        experiments = [find_experiment(name)]
        steps = variant_steps(experiments, _options(given), given.output)
        compared = show(steps, name, "step")
        _tell(given, write_variants(experiments, compared))

    return run


def _all(given: argparse.Namespace) -> None:
    from napari_kpac.cli.common import show
    from napari_kpac.reproduction.report import everything_steps

    _tell(given, show(everything_steps(_options(given), given.output), "all", "step"))


def _tell(given: argparse.Namespace, tables: list[Table]) -> None:
    from napari_kpac.core.files import read_record

    if given.json:
        print_json(read_record(given.output / "results.json"))
        return
    print_tables(tables)
    print(f"\nWrote {(given.output / 'report.html').resolve()}")


def _options(given: argparse.Namespace) -> VariantOptions:
    from napari_kpac.reproduction.variants import VariantOptions

    return VariantOptions(
        root=given.root,
        budget=given.budget,
        steps=given.steps,
        photos=given.photos,
        seed=given.seed,
        device=given.device,
        preset=given.preset,
    )


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is no time; write 90s, 60m or 2h")
    return float(match[1]) * _SECONDS[match[2] or "s"]
