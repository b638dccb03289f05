"""``napari-kpac demo``: the main job on an image that comes with the dependencies.

Not for: your own images (deblur).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from napari_kpac.cli.common import Commands, add_command, print_json


def register(commands: Commands) -> None:
    """Declare the command."""
    command = add_command(
        commands,
        "demo",
        _demo,
        summary="deblur an example image, in napari or (without a display) into files",
        example="napari-kpac demo --headless -o demo-output",
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("demo-output"),
        metavar="DIR",
        help="folder for the files (default: %(default)s)",
    )
    command.add_argument(
        "--headless", action="store_true", help="write files even where there is a display"
    )


def _demo(given: argparse.Namespace) -> None:
    from skimage import data

    from napari_kpac.engine import blur_map, deblur

    image = data.coffee()
    print("Deblurring scikit-image's 'coffee' ...", file=sys.stderr)
    result = deblur(image)
    alpha = result.alpha_at_image()
    blur = blur_map(image)
    from napari_kpac.images import write_image, write_map

    if not given.headless and has_display():
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
    if given.json:
        print_json([str(path) for path in written])
    else:
        print(f"Wrote {len(written)} images into {given.output.resolve()}:")
        for path in written:
            print(f"  {path.name}")


def has_display() -> bool:
    """Tell whether a window can be shown."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
