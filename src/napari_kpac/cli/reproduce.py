"""``napari-kpac reproduce``: the paper's tables and figures, ours beside them.

Not for: computing them (evaluation).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from napari_kpac.cli.common import Commands, add_command, print_json, print_table

if TYPE_CHECKING:
    from napari_kpac.evaluation import CountRow


def register(commands: Commands) -> None:
    """Declare the command."""
    group = add_command(
        commands,
        "reproduce",
        None,
        summary="reproduce the paper's tables and figures",
        example="napari-kpac reproduce params",
    )
    targets = group.add_subparsers(title="what", metavar="WHAT", required=True)
    add_command(
        targets,
        "params",
        _params,
        summary="count the parameters of every network in the paper's tables",
        example="napari-kpac reproduce params",
    )
    add_command(
        targets,
        "flops",
        _flops,
        summary="count FLOPs at 1280x720, the paper's way and in full",
        example="napari-kpac reproduce flops",
    )


def _params(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation import parameter_tables

    tables = parameter_tables()
    if given.json:
        _print_tables_json(tables)
        return
    for title, rows in tables.items():
        print(f"\nParameters: {title}")
        print_table(
            ("network", "paper (M)", "ours (M)", "ours, exactly", ""),
            [
                (
                    row.label,
                    "-" if row.paper is None else f"{row.paper:.2f}",
                    f"{row.ours / 1e6:.2f}",
                    f"{row.ours:,}",
                    row.note,
                )
                for row in rows
            ],
        )


def _flops(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation import flops_tables

    tables = flops_tables()
    if given.json:
        _print_tables_json(tables)
        return
    for title, rows in tables.items():
        print(f"\n{title}, in billions; two per multiply-accumulate")
        print_table(
            ("network", "paper", "ours, paper's way", "ours, in full", ""),
            [
                (
                    row.label,
                    "-" if row.paper is None else f"{row.paper:.0f}",
                    "-" if row.ours_paper_way is None else f"{row.ours_paper_way / 1e9:.1f}",
                    f"{row.ours / 1e9:.1f}",
                    row.note,
                )
                for row in rows
            ],
        )
    print("\nThe paper's way leaves the transposed convolutions out.")


def _print_tables_json(tables: dict[str, list[CountRow]]) -> None:
    print_json({title: [asdict(row) for row in rows] for title, rows in tables.items()})
