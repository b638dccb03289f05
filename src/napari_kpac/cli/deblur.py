"""``napari-kpac deblur``, ``attention`` and ``demo``: images in, images out.

Not for: the work (engine, batch).
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

import napari_kpac as kpac
from napari_kpac.cli.common import (
    Commands,
    add_command,
    add_files,
    add_options,
    batch_options,
    checked,
    given_options,
    print_report,
    print_result,
    show,
)
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import DeblurOptions


def register(commands: Commands) -> None:
    """Declare the commands."""
    deblur = add_command(
        commands,
        "deblur",
        _deblur,
        example="napari-kpac deblur holiday.jpg -o sharp.png --gains 1,1,1,0.5,0",
    )
    add_files(deblur, beside="for one image, NAME-deblurred beside it")
    deblur.add_argument(
        "--recipe", type=Path, help="recipe to replay; explicit flags override the recipe"
    )
    deblur.add_argument(
        "--defocus-map",
        type=Path,
        metavar="FILE",
        help="with a method that estimates the blur: write it, in pixels of sigma, as a TIFF file",
    )
    deblur.add_argument(
        "--sigma-map",
        type=Path,
        metavar="FILE",
        help="with --method map: the blur in pixels of sigma (half the radius of a disc), as a "
        "float TIFF or .npy file of the size of the image",
    )
    deblur.add_argument("--save-recipe", type=Path, metavar="FILE", help="write the recipe used")
    modulation = deblur.add_argument_group("modulation")
    modulation.add_argument(
        "--gains",
        type=checked(_gains),
        default=argparse.SUPPRESS,
        metavar="G1,G2,...[;...]",
        help="factor of every alpha; rows for several blocks are separated by ';'",
    )
    modulation.add_argument(
        "--strength",
        type=checked(float),
        default=argparse.SUPPRESS,
        help="0 gives the input, 1 (default) the network's result",
    )
    add_options(deblur, DeblurOptions)

    attention = add_command(
        commands, "attention", _attention, example="napari-kpac attention holiday.jpg -o maps/"
    )
    add_files(attention)
    attention.add_argument("--tiff", action="store_true", help="float32 TIFF instead of 8-bit PNG")
    add_options(attention, DeblurOptions)

    demo = add_command(
        commands, "demo", _demo, example="napari-kpac demo --headless -o demo-output"
    )
    demo.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for the files (default: %(default)s)",
    )
    demo.add_argument(
        "--headless", action="store_true", help="write files even where there is a display"
    )


def _gains(text: str) -> list[list[float]] | list[float]:
    try:
        rows = [[float(value) for value in row.split(",")] for row in text.split(";")]
    except ValueError:
        raise ConfigError(
            f"gains={text!r}: give numbers like 1,1,1,0.5,0; rows for several blocks are "
            "separated by ';'"
        ) from None
    return rows if len(rows) > 1 else rows[0]


def _deblur(given: argparse.Namespace) -> int:
    """Deblur images."""
    batch = batch_options(given)
    options, modulation, recipe = DeblurOptions(), kpac.Modulation(), None
    if given.recipe:
        recipe = kpac.load_recipe(given.recipe)
        options, modulation = recipe.options, recipe.modulation
        if "model" in given:
            recipe = replace(recipe, folder=None)
    options = replace(options, **given_options(given, DeblurOptions))
    changes = {name: vars(given)[name] for name in ("gains", "strength") if name in given}
    modulation = replace(modulation, **changes)
    if recipe is not None:
        _print_differences(recipe, options, batch)
    steps = kpac.deblur_files(
        given.inputs,
        given.output,
        options,
        modulation,
        batch,
        left=given.left,
        right=given.right,
        recipe=recipe,
        defocus_map=given.defocus_map,
        sigma_map=given.sigma_map,
    )
    report = show(steps, "deblur", "%")
    used = next((outcome.recipe for outcome in report.of("made") if outcome.recipe), None)
    if given.save_recipe and used:
        used.save(given.save_recipe)
    return print_report(given, report)


def _print_differences(
    recipe: kpac.Recipe, options: DeblurOptions, batch: kpac.BatchOptions
) -> None:
    """Print what keeps a replay from being the same bit by bit."""
    from napari_kpac.engine.recipe import differences, recorded_threads

    threads = batch.threads or recorded_threads(recipe.environment)
    found = differences(recipe, options.device, threads)
    if found and options.method == "kpac":
        print(
            f"the recipe was made with {', '.join(found)}: "
            "results agree within one grey level (1e-5)",
            file=sys.stderr,
        )


def _attention(given: argparse.Namespace) -> int:
    """Write the attention maps alpha of every block and dilation."""
    steps = kpac.attention_files(
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
    return print_report(given, report)


def _demo(given: argparse.Namespace) -> None:
    """Deblur an example image, in napari or (without a display) into files."""
    from skimage import data

    from napari_kpac.images import write_image, write_map

    image = data.coffee()
    print("Deblurring scikit-image's 'coffee' ...", file=sys.stderr)
    result = kpac.deblur(image)
    alpha = result.alpha_at_image()
    blur = kpac.blur_map(image)
    if not given.headless and _has_display():
        from napari_kpac.widgets.samples import show_demo

        show_demo(image, result.image, alpha, blur)
        return
    written = [
        write_image(given.output / "input.png", image),
        write_image(given.output / "deblurred.png", result.image),
        write_map(given.output / "blur-map.png", blur),
    ]
    for block, maps in enumerate(alpha, start=1):
        for index, values in enumerate(maps, start=1):
            name = f"block{block}-alpha{index}.png"
            written.append(write_map(given.output / name, values))
    names = "".join(f"\n  {path.name}" for path in written)
    print_result(
        given,
        [str(path) for path in written],
        f"Wrote {len(written)} images into {given.output.resolve()}:{names}",
    )


def _has_display() -> bool:
    """Return True if a window can be shown."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
