"""What several commands share: how a subcommand is declared, tables, JSON.

Not for: anything that computes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_kpac.evaluation.tables import Table

Commands = Any
"""What argparse's ``add_subparsers`` returns; its class has no public name."""

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
"""Exit codes: work that failed, a mistake in the call, an interrupt."""

Run = Callable[[argparse.Namespace], int | None]


def add_command(
    commands: Commands, name: str, run: Run | None, *, summary: str, example: str
) -> argparse.ArgumentParser:
    """Declare a subcommand with an example in its help and ``--json`` for machines."""
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        command.add_argument("--json", action="store_true", help="print JSON, for machines")
        command.set_defaults(run=run)
    return command


def print_json(data: object) -> None:
    """Print a result for machines."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns for people; numbers to the right."""
    cells = [list(map(str, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [bool(rows) and all(_is_numeric(row[i]) for row in cells) for i in range(len(headings))]

    def line(values: Sequence[str]) -> str:
        padded = (
            value.rjust(width) if to_right else value.ljust(width)
            for value, width, to_right in zip(values, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    print(line(list(headings)))
    print(line(["-" * width for width in widths]))
    for row in cells:
        print(line(row))


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, each below its title and above its note."""
    for table in tables:
        print(f"\n{table.title}")
        print_table(table.headings, table.rows)
        if table.note:
            print(fill(table.note, 100))


def _is_numeric(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()
