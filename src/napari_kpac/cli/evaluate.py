"""``napari-kpac evaluate``: models and methods compared on a dataset.

Not for: measuring (evaluation).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from napari_kpac.cli.common import MISTAKE, Commands, add_command, print_json, print_tables
from napari_kpac.core.errors import ConfigError, for_people


def register(commands: Commands) -> None:
    """Declare the command."""
    from napari_kpac.cli.common import add_options
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


def _evaluate(given: argparse.Namespace) -> int:
    from napari_kpac.cli.common import given_options, show
    from napari_kpac.evaluation import EvaluateOptions, evaluate
    from napari_kpac.evaluation.tables import tables_of

    try:
        options = EvaluateOptions(**given_options(given, EvaluateOptions))
    except ConfigError as error:
        print(f"napari-kpac evaluate: {for_people(error)}", file=sys.stderr)
        return MISTAKE
    found = show(evaluate(options, given.output), "evaluate", "result")
    if given.json:
        lines = [line.to_dict() for line in found.lines]
        print_json({"options": options.to_dict(), "lines": lines})
        return 0
    print_tables(tables_of(found))
    if found.report is not None:
        print(f"\nWrote {found.report.resolve()}")
    return 0
