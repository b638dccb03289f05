"""What all commands share: exit codes, flags from options, progress bars, printed results.

A command is declared with :func:`add_command`: the docstring of the function that runs it is its
help. The function may print with :func:`print_result` and return an exit code. Errors need no
handling there: a ``ConfigError`` exits with 2, any other ``KpacError`` with 1 (entry.py).

Not for: any one command.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeVar

from tqdm import tqdm

from napari_kpac.batch import BatchOptions
from napari_kpac.core.errors import ConfigError, for_people
from napari_kpac.core.progress import Steps
from napari_kpac.images.remote import location

if TYPE_CHECKING:
    from napari_kpac.batch import Report
    from napari_kpac.evaluation.tables import Table

Commands = Any
"""What argparse's ``add_subparsers`` returns; its class has no public name."""

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
"""Exit codes: work that failed, an error in the options, an interrupt."""

Run = Callable[[argparse.Namespace], int | None]


def add_command(
    commands: Commands, name: str, run: Run | None, *, example: str, summary: str | None = None
) -> argparse.ArgumentParser:
    """Declare a subcommand with an example in its help and ``--json`` for machines.

    ``run`` runs it (None for a group of commands); its docstring is the default summary.
    """
    if summary is None:
        summary = (run.__doc__ or name).splitlines()[0].rstrip(".")
        summary = summary[:1].lower() + summary[1:]
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        command.add_argument("--json", action="store_true", help="print JSON, for machines")
        command.set_defaults(run=run, mistake=command.error)
    return command


def print_result(given: argparse.Namespace, data: object, text: str) -> None:
    """Print a result: as JSON where ``--json`` was given, otherwise as text."""
    if given.json:
        print_json(data)
    else:
        print(text)


def print_json(data: object) -> None:
    """Print a result for machines."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns for people; numbers to the right."""
    cells = [list(map(str, row)) for row in rows]
    columns = []
    for heading, *column in zip(headings, *cells, strict=True):
        align = ">" if column and all(map(_is_numeric, column)) else "<"
        columns.append((align, max(map(len, (heading, *column)))))
    rule = ["-" * width for _, width in columns]
    for row in (headings, rule, *cells):
        padded = (
            f"{cell:{align}{width}}" for cell, (align, width) in zip(row, columns, strict=True)
        )
        print("  ".join(padded).rstrip())


def print_tables(tables: Sequence[Table]) -> None:
    """Print tables, each below its title and above its note."""
    for table in tables:
        print(f"\n{table.title}")
        print_table(table.headings, table.rows)
        if table.note:
            print(fill(table.note, 100))


def _is_numeric(cell: str) -> bool:
    return cell == "-" or cell.replace(",", "").replace(".", "", 1).lstrip("+-").isdigit()


T = TypeVar("T")


def show(steps: Steps[T], title: str, unit: str = "tile") -> T:
    """Run long work to the end behind a bar on the error stream (none where it is a file)."""
    with tqdm(desc=title, unit=unit, leave=False, disable=not sys.stderr.isatty()) as bar:
        while True:
            try:
                progress = next(steps)
            except StopIteration as stop:
                result: T = stop.value
                return result
            bar.total = progress.total
            bar.set_postfix_str(progress.stage, refresh=False)
            bar.update(progress.done - bar.n)
            if progress.note:
                tqdm.write(f"{title}: {progress.note}", file=sys.stderr)


def add_options(
    parser: argparse.ArgumentParser,
    record: type[Any],
    title: str = "options",
    *,
    flags: Mapping[str, str] | None = None,
) -> None:
    """Add a flag for every field of an options record; what is not given stays a default.

    A flag is called like its field, unless ``flags`` has another name for it.
    """
    group = parser.add_argument_group(title)
    for item in fields(record):
        if not item.metadata:  # not for a command line
            continue
        name = (flags or {}).get(item.name, item.name)
        flag = "--" + name.replace("_", "-")
        text = item.metadata["help"]
        shown = f"{text} (default: {item.default})" if item.default is not None else text
        keywords: dict[str, Any] = {"dest": item.name, "default": argparse.SUPPRESS}
        if "bool" in str(item.type):
            keywords["action"] = argparse.BooleanOptionalAction
        else:
            keywords["action"] = "append" if item.metadata["many"] else "store"
            keywords["type"] = checked(item.metadata["parse"])
            keywords["metavar"] = name.split("_")[-1].upper()
        group.add_argument(flag, help=shown, **keywords)
        for alias in item.metadata["aliases"]:  # not shown, but accepted as before
            earlier = "--" + alias.replace("_", "-")
            group.add_argument(earlier, help=argparse.SUPPRESS, **keywords)


def given_options(given: argparse.Namespace, record: type[Any]) -> dict[str, Any]:
    """Return the options that were given, by field name."""
    names = {item.name for item in fields(record)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(given).items()
        if name in names
    }


_KINDS = {int: "a whole number", float: "a number"}


def checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Turn errors into those of argparse, which name the flag."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(for_people(error)) from error
        except ValueError as error:
            kind = _KINDS.get(parse, "what this option takes")  # type: ignore[call-overload]
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}; see --help") from error

    return read


def add_files(command: argparse.ArgumentParser, beside: str = "") -> None:
    """Add the arguments for image files, for the output and for batches.

    ``beside`` says where the result of one image goes without an output, if anywhere.
    """
    command.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="images, stacks, folders of them, patterns like 'photos/*.tif', or URLs",
    )
    command.add_argument(
        "-o",
        "--output",
        type=checked(location),
        required=not beside,
        metavar="OUT",
        help="a file, a folder, or a URL" + (f" (default: {beside})" if beside else ""),
    )
    command.add_argument(
        "--left",
        type=checked(location),
        help="left view of a dual-pixel camera, or a folder of them",
    )
    command.add_argument(
        "--right",
        type=checked(location),
        help="right view of a dual-pixel camera, or a folder of them",
    )
    add_options(command, BatchOptions, "batches")


def batch_options(given: argparse.Namespace) -> BatchOptions:
    """Return the options of the batch."""
    if not given.inputs and given.left is None and given.right is None:
        given.mistake("no input: name images, or give --left and --right")
    return BatchOptions(**given_options(given, BatchOptions))


def print_report(given: argparse.Namespace, report: Report) -> int:
    """Print the report of a batch and return the exit code."""
    if given.json:
        print_json([outcome.to_dict() for outcome in report.outcomes])
    if report.failed or len(report.outcomes) > 1 or report.of("skipped") or report.of("planned"):
        for line in report.lines():
            print(line, file=sys.stderr)
    return FAILED if report.failed else 0
