"""What commands on image files share: which go in, how a batch is run, saying what became of it.

Not for: the batches themselves (napari_kpac.batch).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from napari_kpac.cli.common import FAILED, print_json
from napari_kpac.core.errors import ConfigError, for_people

if TYPE_CHECKING:
    from napari_kpac.batch import BatchOptions, Report


def add_files(command: argparse.ArgumentParser) -> None:
    """Add the arguments for image files, for what is made of them, and for batches."""
    from napari_kpac.batch.options import BatchOptions
    from napari_kpac.cli.options import add_options

    command.set_defaults(mistake=command.error)
    command.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="pictures, stacks, folders of them, or patterns like 'photos/*.tif'",
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="a file, or a folder"
    )
    command.add_argument(
        "--left", type=Path, help="left view of a dual-pixel camera, or a folder of them"
    )
    command.add_argument(
        "--right", type=Path, help="right view of a dual-pixel camera, or a folder of them"
    )
    add_options(command, BatchOptions, "batches")


def batch_options(given: argparse.Namespace) -> BatchOptions:
    """Read how the batch is to be run; what does not go together is a mistake in the call."""
    from napari_kpac.batch.options import BatchOptions
    from napari_kpac.cli.options import given_options

    if not given.inputs and given.left is None and given.right is None:
        given.mistake("name pictures to work on, or --left and --right")
    try:
        return BatchOptions(**given_options(given, BatchOptions))
    except ConfigError as error:
        given.mistake(for_people(error))
        raise


def tell(given: argparse.Namespace, report: Report) -> int:
    """Print what became of a batch; returns the exit code."""
    if given.json:
        print_json([outcome.to_dict() for outcome in report.outcomes])
    if report.failed or len(report.outcomes) > 1 or report.of("skipped") or report.of("planned"):
        for line in report.lines():
            print(line, file=sys.stderr)
    return FAILED if report.failed else 0
