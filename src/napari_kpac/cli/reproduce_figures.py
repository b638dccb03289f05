"""``napari-kpac reproduce cost|attention|modulation|limits``: what networks cost and do.

Not for: computing them (evaluation).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.cli.common import Commands, add_command, print_json, print_tables

if TYPE_CHECKING:
    from napari_kpac.reproduction.figures import NetworkFigure


def register(targets: Commands) -> None:
    """Declare the commands."""
    cost = add_command(
        targets,
        "cost",
        _cost,
        summary="measure time and memory of the paper's networks here, and count the rest",
        example="napari-kpac reproduce cost --size 1280x720",
    )
    cost.add_argument(
        "--size", type=_size, default=(720, 1280), metavar="WxH", help="default: 1280x720"
    )
    cost.add_argument(
        "--repeats", type=int, default=3, help="the best time counts (default: %(default)s)"
    )
    for name, what in (
        ("attention", "an image and every alpha of every block"),
        ("modulation", "the result with each dilation alone"),
    ):
        figure = add_command(
            targets,
            name,
            _attention if name == "attention" else _modulation,
            summary=f"make the paper's figure of {what}, for any image",
            example=f"napari-kpac reproduce {name} photo.jpg -o figures",
        )
        figure.add_argument(
            "image",
            type=Path,
            nargs="?",
            metavar="IMAGE",
            help="default: scikit-image's 'coffee'",
        )
        _add_network(figure)
    limits = add_command(
        targets,
        "limits",
        _limits,
        summary="show what a model cannot do: odd bokeh, very large blur",
        example="napari-kpac reproduce limits -o figures",
    )
    _add_network(limits)


def _add_network(figure: argparse.ArgumentParser) -> None:
    figure.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the figure"
    )
    figure.add_argument("--model", default="default", help="name or file (default: default)")
    figure.add_argument("--device", default="auto", help="default: auto")


def _cost(given: argparse.Namespace) -> None:
    from napari_kpac.cli.common import show
    from napari_kpac.reproduction.cost import cost_steps, cost_table

    rows = show(cost_steps(given.size, given.repeats), "cost", "network")
    if given.json:
        print_json([row.to_dict() for row in rows])
        return
    print_tables([cost_table(rows, given.size)])


def _attention(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction.figures import attention_figure

    name, image = _image(given.image)
    _write(given, f"{name}-attention", attention_figure(image, given.model, given.device))


def _modulation(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction.figures import modulation_figure

    name, image = _image(given.image)
    _write(given, f"{name}-modulation", modulation_figure(image, given.model, given.device))


def _limits(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction.limits import limits_figure

    _write(given, "limits", limits_figure(given.model, given.device))


def _image(path: Path | None) -> tuple[str, Any]:
    from napari_kpac.images import read_image

    if path is not None:
        return path.stem, read_image(path)
    from skimage import data

    return "coffee", data.coffee()


def _write(given: argparse.Namespace, name: str, figure: NetworkFigure) -> None:
    from napari_kpac.core.files import write_record
    from napari_kpac.images import write_image

    written = write_image(given.output / f"{name}.png", figure.image)
    numbers = write_record(written.with_suffix(".json"), figure.numbers)
    if given.json:
        print_json({"numbers": figure.numbers, "files": [str(written), str(numbers)]})
    else:
        print(f"Wrote {written.resolve()} and {numbers.name}")


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in text.lower().split("x"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no size; write WxH, e.g. 1280x720") from error
    return height, width
