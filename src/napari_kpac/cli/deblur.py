"""``napari-kpac deblur`` and ``attention``: image files in, image files out.

Not for: the work (engine).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.cli.common import Commands, add_command, add_files, batch_options, tell

if TYPE_CHECKING:
    from napari_kpac.batch import BatchOptions
    from napari_kpac.engine import DeblurOptions, Modulation, Recipe


def register(commands: Commands) -> None:
    """Declare the commands."""
    from napari_kpac.cli.common import add_options
    from napari_kpac.core.options import DeblurOptions

    deblur = add_command(
        commands,
        "deblur",
        _deblur,
        summary="deblur images",
        example="napari-kpac deblur holiday.jpg -o sharp.png --gains 1,1,1,0.5,0",
    )
    add_files(deblur)
    deblur.add_argument(
        "--recipe", type=Path, help="recipe to replay; options given beside it go before it"
    )
    deblur.add_argument(
        "--defocus-map",
        type=Path,
        metavar="FILE",
        help="with --method ebdb: write the estimated blur, in pixels of sigma, as a TIFF file",
    )
    deblur.add_argument("--save-recipe", type=Path, metavar="FILE", help="write the recipe used")
    _add_modulation(deblur)
    add_options(deblur, DeblurOptions)

    attention = add_command(
        commands,
        "attention",
        _attention,
        summary="write the attention maps alpha of every block and dilation",
        example="napari-kpac attention holiday.jpg -o maps/",
    )
    add_files(attention)
    attention.add_argument("--tiff", action="store_true", help="float32 TIFF instead of 8-bit PNG")
    add_options(attention, DeblurOptions)


def _add_modulation(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("modulation")
    group.add_argument(
        "--gains",
        type=_gains,
        metavar="G1,G2,...[;...]",
        help="factor of every alpha; rows for several blocks are separated by ';'",
    )
    group.add_argument(
        "--strength", type=float, help="0 gives the input, 1 (default) the network's result"
    )


def _gains(text: str) -> list[list[float]] | list[float]:
    rows = [[float(value) for value in row.split(",")] for row in text.split(";")]
    return rows if len(rows) > 1 else rows[0]


def _deblur(given: argparse.Namespace) -> int:
    from napari_kpac.batch import deblur_files
    from napari_kpac.cli.common import show
    from napari_kpac.engine import load_recipe

    batch = batch_options(given)
    recipe = load_recipe(given.recipe) if given.recipe else None
    if recipe is not None and "model" in given:
        recipe = replace(recipe, folder=None)
    options, modulation = _settings(given, recipe)
    if recipe is not None:
        _say_what_differs(recipe, options, batch)
    steps = deblur_files(
        given.inputs,
        given.output,
        options,
        modulation,
        batch,
        left=given.left,
        right=given.right,
        recipe=recipe,
        defocus_map=given.defocus_map,
    )
    report = show(steps, "deblur", "%")
    used = next((outcome.recipe for outcome in report.of("made") if outcome.recipe), None)
    if given.save_recipe and used:
        used.save(given.save_recipe)
    return tell(given, report)


def _settings(given: argparse.Namespace, recipe: Recipe | None) -> tuple[DeblurOptions, Modulation]:
    """Combine flags and recipe: what is given on the command line goes before the recipe."""
    from napari_kpac.cli.common import given_options
    from napari_kpac.engine import DeblurOptions, Modulation

    chosen = given_options(given, DeblurOptions)
    options, modulation = DeblurOptions(**chosen), Modulation()
    if recipe is not None:
        options, modulation = replace(recipe.options, **chosen), recipe.modulation
    changes: dict[str, Any] = {}
    if given.gains is not None:
        changes["gains"] = given.gains
    if given.strength is not None:
        changes["strength"] = given.strength
    return options, replace(modulation, **changes)


def _say_what_differs(recipe: Recipe, options: DeblurOptions, batch: BatchOptions) -> None:
    """Tell what keeps a replay from being the same bit by bit."""
    from napari_kpac.engine.recipe import differences, recorded_threads

    threads = batch.threads or recorded_threads(recipe.environment)
    found = differences(recipe, options.device, threads)
    if found and options.method == "kpac":
        print(
            f"made with {', '.join(found)}: the same within one grey level (1e-5)", file=sys.stderr
        )


def _attention(given: argparse.Namespace) -> int:
    from napari_kpac.batch import attention_files
    from napari_kpac.cli.common import given_options, show
    from napari_kpac.engine import DeblurOptions

    steps = attention_files(
        given.inputs,
        given.output,
        DeblurOptions(**given_options(given, DeblurOptions)),
        batch_options(given),
        left=given.left,
        right=given.right,
        suffix=".tif" if given.tiff else ".png",
    )
    report = show(steps, "attention", "%")
    if not given.json:
        for outcome in report.of("made"):
            for path in outcome.written:
                print(path)
    return tell(given, report)
