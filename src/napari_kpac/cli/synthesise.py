"""``napari-kpac synthesise``: pairs of defocused and sharp images from photographs.

Not for: making them (datasets).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from napari_kpac.cli.common import MISTAKE, Commands, add_command, print_json
from napari_kpac.core.errors import ConfigError, for_people


def register(commands: Commands) -> None:
    """Declare the command."""
    from napari_kpac.cli.common import add_options
    from napari_kpac.datasets import SynthesisOptions

    command = add_command(
        commands,
        "synthesise",
        _synthesise,
        summary="make pairs of defocused and sharp images from sharp photographs",
        example="napari-kpac synthesise photos/ -o pairs --per-photo 2 --dual",
    )
    command.add_argument(
        "photos", type=Path, nargs="+", metavar="PHOTOS", help="images, or folders of images"
    )
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the pairs"
    )
    add_options(command, SynthesisOptions)


def _synthesise(given: argparse.Namespace) -> int:
    from napari_kpac.cli.common import given_options, show
    from napari_kpac.datasets import SynthesisOptions, synthesise

    try:
        options = SynthesisOptions(**given_options(given, SynthesisOptions))
    except ConfigError as error:
        print(f"napari-kpac synthesise: {for_people(error)}", file=sys.stderr)
        return MISTAKE
    result = show(synthesise(given.photos, given.output, options), "synthesise", "pair")
    if given.json:
        print_json(
            {
                "folder": str(result.output),
                "made": result.made,
                "kept": result.kept,
                "skipped": result.skipped,
            }
        )
    else:
        print(
            f"{result.made} pairs made, {result.kept} kept, {len(result.skipped)} photographs left"
            f" out; in {result.output.resolve()}"
        )
    return 0
