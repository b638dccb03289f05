"""``napari-kpac reproduce``: the paper's tables and figures, ours beside them.

Not for: computing them (evaluation).
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.cli import reproduce_figures, reproduce_variants
from napari_kpac.cli.common import Commands, add_command, print_json, print_table, print_tables

if TYPE_CHECKING:
    from napari_kpac.reproduction import CountRow


def register(commands: Commands) -> None:
    """Declare the command."""
    group = add_command(
        commands,
        "reproduce",
        None,
        summary="reproduce the paper's tables and figures",
        example="napari-kpac reproduce params",
    )
    targets = group.add_subparsers(title="what", metavar="WHAT", required=True)
    add_command(
        targets,
        "params",
        _params,
        summary="count the parameters of every network in the paper's tables",
        example="napari-kpac reproduce params",
    )
    add_command(
        targets,
        "flops",
        _flops,
        summary="count FLOPs at 1280x720, the paper's way and in full",
        example="napari-kpac reproduce flops",
    )
    kernels = add_command(
        targets,
        "inverse-kernels",
        _inverse_kernels,
        summary="make the figures on inverse kernels again, as PNG and one JSON of numbers",
        example="napari-kpac reproduce inverse-kernels -o figures",
    )
    kernels.add_argument(
        "-o", "--output", type=Path, required=True, metavar="DIR", help="folder for the figures"
    )
    kernels.add_argument(
        "--epsilon",
        type=_positive,
        default=0.01,
        help="noise-to-signal ratio of the inverse (default: %(default)s)",
    )
    reproduce_figures.register(targets)
    reproduce_variants.register(targets)


def _params(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction import parameter_tables
    from napari_kpac.reproduction.cost import parameters_as_tables

    if given.json:
        _print_tables_json(parameter_tables())
        return
    print_tables(parameters_as_tables())


def _flops(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction import flops_tables
    from napari_kpac.reproduction.cost import flops_as_tables

    if given.json:
        _print_tables_json(flops_tables())
        return
    print_tables(flops_as_tables())


def _print_tables_json(tables: dict[str, list[CountRow]]) -> None:
    print_json({title: [asdict(row) for row in rows] for title, rows in tables.items()})


def _inverse_kernels(given: argparse.Namespace) -> None:
    from tqdm import tqdm

    from napari_kpac.core.files import write_record
    from napari_kpac.images import write_image
    from napari_kpac.reproduction import inverse_kernel_figures

    numbers: dict[str, Any] = {"epsilon": given.epsilon}
    written = []
    for figure in tqdm(inverse_kernel_figures(given.epsilon), total=5, disable=None, unit="figure"):
        written.append(write_image(given.output / f"{figure.name}.png", figure.image))
        numbers[figure.name] = figure.numbers
    written.append(write_record(given.output / "numbers.json", numbers))
    if given.json:
        print_json({"numbers": numbers, "files": [str(path) for path in written]})
        return
    _print_inverse_kernels(numbers)
    print(f"\nWrote {len(written)} files into {given.output.resolve()}")


def _print_inverse_kernels(numbers: dict[str, Any]) -> None:
    print(f"Eq. 4 at scale 5, epsilon {numbers['epsilon']:g}, PSNR in dB")
    columns = ("psnr_direct", "psnr_upsampled", "psnr_between")
    rows = [
        (row["kernel"], *(f"{row[name]:.2f}" for name in columns))
        for row in numbers["kernel_example"]
    ]
    printed = numbers["kernel_example"][0]["paper"]
    rows.append(("paper, its own image", *(f"{printed[name]:.2f}" for name in columns)))
    print_table(("kernel", "inverse of enlarged", "enlarged inverse", "between them"), rows)

    print("\nUpsampled against dilated inverse kernels, PSNR in dB (paper: over 40 between them)")
    print_table(
        ("kernel", "image", "scale", "blurred", "upsampled", "dilated", "between them"),
        [
            (
                row["kernel"],
                row["image"],
                row["scale"],
                *(
                    f"{row[f'psnr_{name}']:.2f}"
                    for name in ("blurred", "upsampled", "dilated", "between")
                ),
            )
            for row in numbers["dilated_kernels"]
        ],
    )

    print("\nEq. 5, accuracy in percent; pixels below 0.05 are left out")
    example = numbers["deblur_example"][0]
    blends = [
        ("3 3.5 4, main paper", "camera", "upsampled", example, example["paper"]),
        *(
            (
                " ".join(f"{scale:g}" for scale in row["scales"]),
                row["image"],
                how,
                row[how],
                {"nnls": row["paper"][how]},
            )
            for row in numbers["scale_triples"]
            for how in ("upsampled", "dilated")
        ),
    ]
    print_table(
        ("scales", "image", "kernels", "equal", "paper", "fitted", "paper", "left out"),
        [
            (
                scales,
                image,
                how,
                _percent(ours["equal"]),
                _percent(printed.get("equal")),
                _percent(ours["nnls"]),
                _percent(printed.get("nnls")),
                _percent(ours["left_out"]),
            )
            for scales, image, how, ours, printed in blends
        ],
    )
    worst = numbers["gaussian_upsampling"][0]["largest_difference_share_of_peak"]
    print(f"\nA Gaussian enlarged 3 times differs from one of 3 times the width by {worst:.2%}")
    print("of the peak at most.")


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
    return value


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.2f}"
