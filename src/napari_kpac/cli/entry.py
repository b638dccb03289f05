"""The command ``napari-kpac``: finds the subcommand, turns errors into exit codes.

Not for: the subcommands themselves, one module each.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence

from napari_kpac.cli import (
    bench,
    blur_map,
    deblur,
    demo,
    evaluate,
    models,
    reproduce,
    synthesise,
    train,
)
from napari_kpac.cli.common import FAILED, INTERRUPTED, MISTAKE
from napari_kpac.core.errors import KpacError, for_people

FULL = (errno.ENOSPC, errno.EPIPE, errno.EFBIG)
"""What printing meets where nothing more can be printed."""
COMMANDS = (deblur, blur_map, evaluate, models, reproduce, synthesise, train, bench, demo)


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command."""
    root = argparse.ArgumentParser(
        prog="napari-kpac",
        description="Defocus deblurring with KPAC, from the terminal.",
        epilog="'napari-kpac COMMAND --help' shows the options of a command and an example.",
    )
    root.add_argument("--version", action="store_true", help="print the version and stop")
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.register(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 work failed, 2 mistake in the call."""
    root = parser()
    given = root.parse_args(arguments)
    if given.version:
        from napari_kpac import __version__

        print(f"napari-kpac {__version__}")
        return 0
    if not hasattr(given, "run"):
        root.print_help(sys.stderr)
        return MISTAKE
    # Photographs of 100 megapixels are what this is for, and no attack.
    warnings.filterwarnings("ignore", message="Image size .* exceeds limit")
    try:
        code = int(given.run(given) or 0)
        sys.stdout.flush()
        return code
    except (KpacError, MemoryError) as error:
        print(f"napari-kpac: {for_people(error)}", file=sys.stderr)
        return FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in FULL:
            raise
        # What is still in the buffer has nowhere to go; Python would complain of it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"napari-kpac: cannot print the result: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("napari-kpac: interrupted; nothing half-written was left behind", file=sys.stderr)
        return INTERRUPTED
