"""``napari-kpac evaluate``: models and methods compared on a dataset.

Not for: measuring (evaluation).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from napari_kpac.cli.common import Commands, add_command, print_json, print_table
from napari_kpac.errors import ConfigError

if TYPE_CHECKING:
    from napari_kpac.evaluation.summary import Line

MISTAKE = 2
"""Exit code of a mistake in the call."""


def register(commands: Commands) -> None:
    """Declare the command."""
    from napari_kpac.cli.options import add_options
    from napari_kpac.evaluation.options import EvaluateOptions

    command = add_command(
        commands,
        "evaluate",
        _evaluate,
        summary="compare models and methods on a dataset",
        example="napari-kpac evaluate --dataset synthetic --root photos --split val",
    )
    add_options(command, EvaluateOptions)


def _evaluate(given: argparse.Namespace) -> int:
    from napari_kpac.cli.options import given_options
    from napari_kpac.cli.progress import show
    from napari_kpac.evaluation.evaluating import evaluate
    from napari_kpac.evaluation.options import EvaluateOptions
    from napari_kpac.evaluation.summary import summarise

    try:
        options = EvaluateOptions(**given_options(given, EvaluateOptions))
    except ConfigError as error:
        print(f"napari-kpac evaluate: {error}", file=sys.stderr)
        return MISTAKE
    found = show(evaluate(options), "evaluate", "result")
    lines = summarise(found.ledger)
    if given.json:
        print_json({"options": options.to_dict(), "lines": [line.to_dict() for line in lines]})
    else:
        print_lines(lines)
    return 0


def print_lines(lines: Sequence[Line]) -> None:
    """Print all tables of an evaluation."""
    from napari_kpac.evaluation.bins import BINS, column
    from napari_kpac.evaluation.probe import PROBE_COLUMNS

    binned = any(column("psnr", where) in line.means for line in lines for where in BINS)
    _print("All pixels, mean over pictures", lines, ("psnr", "ssim", "mae"), lambda x: x.means)
    if not binned:
        return
    for measure in ("psnr", "ssim", "mae"):
        columns = [column(measure, where) for where in BINS]
        _print(f"{measure.upper()} by radius", lines, columns, lambda line: line.means)
    print("\nPSNR above the input's by radius, in dB; mean of 1-2, 2-4 and 4-8 px")
    columns = [column("psnr", where) for where in BINS]
    print_table(
        ("method", "noise %", *(name.removeprefix("psnr ") for name in columns), "mean 1-8 px"),
        [
            (
                *_name(line),
                *(_number(line.gains.get(name), "psnr") for name in columns),
                _number(line.mean_gain, "psnr"),
            )
            for line in lines
        ],
    )
    _print("Does no harm, and uses its dilations (dB)", lines, PROBE_COLUMNS, lambda x: x.means)
    print("\nROC AUC of blurred (above 2 px) against sharp (below 0.5 px) where there is texture;")
    print("1 - AUC is that of the opposite polarity")
    measures = list(dict.fromkeys(name for line in lines for name in line.separation))
    print_table(
        ("method", "noise %", *measures),
        [
            (*_name(line), *(_number(line.separation.get(name), "auc") for name in measures))
            for line in lines
        ],
    )


def _print(
    title: str,
    lines: Sequence[Line],
    columns: Sequence[str],
    values: Callable[[Line], Mapping[str, float]],
) -> None:
    print(f"\n{title}")
    print_table(
        ("method", "noise %", "n", *columns),
        [
            (*_name(line), line.pictures, *(_number(values(line).get(c), c) for c in columns))
            for line in lines
        ],
    )


def _name(line: Line) -> tuple[str, str]:
    return line.method, f"{line.noise:g}"


def _number(value: float | None, name: str) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if name.startswith(("ssim", "mae", "auc")) else f"{value:.2f}"
