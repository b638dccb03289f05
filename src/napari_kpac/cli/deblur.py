"""``napari-kpac deblur`` and ``attention``: image files in, image files out.

Not for: the work (engine).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from napari_kpac.cli.common import Commands, add_command, print_json
from napari_kpac.cli.images import add_files, targets, tell
from napari_kpac.errors import FileError

if TYPE_CHECKING:
    from napari_kpac.engine import DeblurOptions, Modulation, Recipe, Result


def register(commands: Commands) -> None:
    """Declare the commands."""
    from napari_kpac.cli.options import add_options
    from napari_kpac.options import DeblurOptions

    deblur = add_command(
        commands,
        "deblur",
        _deblur,
        summary="deblur pictures",
        example="napari-kpac deblur holiday.jpg -o sharp.png --gains 1,1,1,0.5,0",
    )
    add_files(deblur)
    deblur.add_argument("--left", type=Path, help="left view of a dual-pixel camera")
    deblur.add_argument("--right", type=Path, help="right view of a dual-pixel camera")
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


def _deblur(given: argparse.Namespace) -> None:
    from napari_kpac.cli.progress import show
    from napari_kpac.engine import deblur_steps
    from napari_kpac.pictures import SUFFIXES, read_image, write_image

    options, modulation = _settings(given)
    pairs = list(zip(given.inputs, targets(given.inputs, given.output, SUFFIXES), strict=True))
    views = _views(given)
    if given.defocus_map and (options.method != "ebdb" or len(pairs) > 1):
        raise FileError("--defocus-map goes with --method ebdb and one picture")
    done = []
    for source, target in pairs:
        steps = deblur_steps(read_image(source), options, modulation, views=views)
        result = show(steps, source.name)
        write_image(target, result.image, json.dumps(result.recipe.to_dict()))
        if given.save_recipe:
            result.recipe.save(given.save_recipe)
        if given.defocus_map and result.sigma is not None:
            write_image(given.defocus_map, result.sigma, "blur in pixels of sigma (EBDB)")
        done.append(_record(source, target, result))
        if not given.json:
            print(f"{source} -> {target}", file=sys.stderr)
    if given.json:
        print_json(done)


def _settings(given: argparse.Namespace) -> tuple[DeblurOptions, Modulation]:
    """Combine flags and recipe: what is given on the command line goes before the recipe."""
    from dataclasses import replace

    from napari_kpac.cli.options import given_options
    from napari_kpac.engine import DeblurOptions, Modulation, load_recipe

    chosen = given_options(given, DeblurOptions)
    options, modulation = DeblurOptions(**chosen), Modulation()
    if given.recipe:
        recipe = load_recipe(given.recipe)
        options, modulation = replace(recipe.options, **chosen), recipe.modulation
        _check_model(recipe, options.model)
    changes: dict[str, Any] = {}
    if given.gains is not None:
        changes["gains"] = given.gains
    if given.strength is not None:
        changes["strength"] = given.strength
    return options, replace(modulation, **changes)


def _check_model(recipe: Recipe, model: str) -> None:
    """Refuse to replay a recipe with other weights than it was made with."""
    from napari_kpac.errors import RecipeError
    from napari_kpac.weights import load

    if model != recipe.options.model or recipe.options.method != "kpac":
        return
    card = load(model).card
    if card.sha256 != recipe.model_sha256:
        raise RecipeError(
            f"the recipe was made with other weights of {recipe.model_name!r} than are installed "
            f"here; install those, or give --model {model} explicitly to use what there is"
        )


def _views(given: argparse.Namespace) -> tuple[Any, Any] | None:
    from napari_kpac.pictures import read_image

    if (given.left is None) != (given.right is None):
        raise FileError("--left and --right go together")
    if given.left is None:
        return None
    if len(given.inputs) != 1:
        raise FileError("--left and --right go with one picture")
    return read_image(given.left), read_image(given.right)


def _record(source: Path, target: Path, result: Result) -> dict[str, Any]:
    return {"input": str(source), "output": str(target), "recipe": result.recipe.to_dict()}


def _attention(given: argparse.Namespace) -> None:
    from napari_kpac.cli.options import given_options
    from napari_kpac.cli.progress import show
    from napari_kpac.engine import DeblurOptions, deblur_steps
    from napari_kpac.pictures import read_image, write_map

    options = DeblurOptions(**given_options(given, DeblurOptions))
    written = []
    for source in given.inputs:
        result = show(deblur_steps(read_image(source), options), source.name)
        note = json.dumps(result.recipe.to_dict())
        maps = result.alpha_at_image()
        for index in np.ndindex(maps.shape[:-2]):
            *leading, block, dilation = index
            place = "".join(f"-{n}" for n in leading)
            name = f"{source.stem}{place}-block{block + 1}-alpha{dilation + 1}"
            target = given.output / f"{name}{'.tif' if given.tiff else '.png'}"
            written.append(str(write_map(target, maps[index], note)))
    tell(given, written)
