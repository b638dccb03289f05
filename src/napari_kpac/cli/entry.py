"""The command ``napari-kpac``: its parser, and the exit codes of errors.

Not for: the subcommands (the modules beside this one).
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
import warnings
from collections.abc import Sequence

import napari_kpac as kpac
from napari_kpac.cli import blur_map, deblur, evaluate, models, reproduce, train
from napari_kpac.cli.common import FAILED, INTERRUPTED, MISTAKE
from napari_kpac.core.errors import ConfigError, KpacError, for_people

OUTPUT_ERRORS = (errno.ENOSPC, errno.EPIPE, errno.EFBIG)
"""Errors of printing where the output is full or closed."""
COMMANDS = (deblur, blur_map, evaluate, models, reproduce, train)


def parser() -> argparse.ArgumentParser:
    """Build the parser of the whole command."""
    root = argparse.ArgumentParser(
        prog="napari-kpac",
        description="Defocus deblurring with KPAC, from the terminal.",
        epilog="'napari-kpac COMMAND --help' shows the options of a command and an example.",
    )
    root.add_argument("--version", action="version", version=f"napari-kpac {kpac.__version__}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        command.register(commands)
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code: 0 done, 1 work failed, 2 error in the options."""
    root = parser()
    given = root.parse_args(arguments)
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
        return MISTAKE if isinstance(error, ConfigError) else FAILED
    except OSError as error:
        if error.filename is not None or error.errno not in OUTPUT_ERRORS:
            raise
        # What is still in the buffer has nowhere to go; Python would complain of it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"napari-kpac: cannot print the result: {error.strerror}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("napari-kpac: interrupted; no incomplete files were left behind", file=sys.stderr)
        return INTERRUPTED
