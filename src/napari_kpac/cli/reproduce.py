"""``napari-kpac reproduce``: the paper's tables and figures, ours beside them.

Not for: making them (reproduction).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.cli.common import (
    Commands,
    Run,
    add_command,
    checked,
    print_json,
    print_table,
    print_tables,
    show,
)
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.estimators import ESTIMATOR_NAMES

if TYPE_CHECKING:
    from napari_kpac.evaluation import EvaluateOptions
    from napari_kpac.evaluation.tables import Table
    from napari_kpac.reproduction import CountRow, Figure

EXPERIMENTS = {
    "weight-sharing": "train with and without weight sharing",
    "ablation": "train without attention, with each kind, with both, and the baseline",
    "num-blocks": "train with one to four KPAC blocks",
    "noise": "train with and without noise, and compare at four noise levels",
    "levels": "train with 2 and 3 levels",
    "dual": "train on single images and on dual-pixel views",
    "all": "everything that can be reproduced, in one report",
}
PAIR_KINDS = ("dpdd", "pairs", "synthetic")
DETECTION_KINDS = ("cuhk", "synthetic")
MODELS = ("kpac-2level", "kpac-3level")
"""Models that stand for the paper's."""
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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

    def add(name: str, run: Run, summary: str, more: str = "") -> argparse.ArgumentParser:
        example = f"napari-kpac reproduce {name} {more}".rstrip()
        return add_command(targets, name, run, summary=summary, example=example)

    add("params", _params, "count the parameters of every network in the paper's tables")
    estimators = add(
        "estimators",
        _estimators,
        "measure all estimators of defocus on the same scenes whose radii are known",
        "--root photos",
    )
    estimators.add_argument(
        "--root", type=Path, required=True, metavar="PHOTOS", help="folder of sharp photographs"
    )
    estimators.add_argument("--split", default="val", help="by its MANIFEST.csv (default: val)")
    estimators.add_argument("--photos", type=int, help="use only the first photographs")
    estimators.add_argument("--seed", type=int, default=0, help="default: 0")
    estimators.add_argument("--model", default="default", help="of alpha_1 (default: default)")
    estimators.add_argument(
        "--estimator-model",
        type=checked(_estimator_model),
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="model of an estimator that is a network; without one it is left out",
    )
    estimators.add_argument("--device", default="auto", help="default: auto")
    comparison = add(
        "comparison",
        _comparison,
        "compare all methods of the paper's table of deblurring, two-step ones with the "
        "literature's settings of deconvolution",
        "--root dpdd -o report",
    )
    _add_comparison(comparison, PAIR_KINDS)
    comparison.add_argument(
        "--dual",
        action="store_true",
        help="the data has dual-pixel views: compare kpac-dual as well",
    )
    detection = add(
        "detection",
        _detection,
        "compare all measures of the paper's table of blur detection",
        "--root cuhk --blurred white -o report",
    )
    _add_comparison(detection, DETECTION_KINDS)
    detection.add_argument(
        "--blurred", choices=("white", "black"), help="cuhk: what the masks show blurred pixels as"
    )
    add("flops", _flops, "count FLOPs at 1280x720, the paper's way and in full")
    kernels = add(
        "inverse-kernels",
        _inverse_kernels,
        "make the figures on inverse kernels again, as PNG and one JSON of numbers",
        "-o figures",
    )
    _add_output(kernels, "folder for the figures")
    kernels.add_argument(
        "--epsilon",
        type=checked(_positive),
        default=0.01,
        help="noise-to-signal ratio of the inverse (default: %(default)s)",
    )
    cost = add(
        "cost",
        _cost,
        "measure time and memory of the paper's networks and estimators here, and count the rest",
        "--size 1280x720",
    )
    cost.add_argument(
        "--size", type=_size, default=(720, 1280), metavar="WxH", help="default: 1280x720"
    )
    cost.add_argument(
        "--repeats", type=int, default=3, help="the best time counts (default: %(default)s)"
    )
    cost.add_argument(
        "--network",
        action="append",
        metavar="LABEL",
        help="measure only this, as the table calls it; once for each (default: all)",
    )
    for name, run, what in (
        ("attention", _attention, "an image and every alpha of every block"),
        ("modulation", _modulation, "the result with each dilation alone"),
    ):
        summary = f"make the paper's figure of {what}, for any image"
        figure = add(name, run, summary, "photo.jpg -o figures")
        figure.add_argument(
            "image",
            type=Path,
            nargs="?",
            metavar="IMAGE",
            help="default: scikit-image's 'coffee'",
        )
        _add_network(figure)
    summary = "show what a model cannot do: odd bokeh, very large blur"
    _add_network(add("limits", _limits, summary, "-o figures"))
    for name, summary in EXPERIMENTS.items():
        train = _all if name == "all" else _experiment(name)
        _add_training(add(name, train, summary, f"--root photos --budget 60m -o {name}"))


def _add_comparison(command: argparse.ArgumentParser, kinds: tuple[str, ...]) -> None:
    command.add_argument("--root", required=True, metavar="DIR", help="folder of the data")
    command.add_argument("--dataset", choices=kinds, default=kinds[0], help=f"default: {kinds[0]}")
    command.add_argument("--split", help="default: test of dpdd, else val")
    command.add_argument("--limit", type=int, help="use only the first images or photographs")
    command.add_argument(
        "--model",
        action="append",
        help=f"a model, a DMENet too; once for each (default: {', '.join(MODELS)})",
    )
    command.add_argument("--device", default="auto", help="default: auto")
    _add_output(command, "folder for results and report; what was stopped goes on")


def _add_output(command: argparse.ArgumentParser, text: str) -> None:
    command.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help=text)


def _add_network(figure: argparse.ArgumentParser) -> None:
    _add_output(figure, "folder for the figure")
    figure.add_argument("--model", default="default", help="name or file (default: default)")
    figure.add_argument("--device", default="auto", help="default: auto")


def _add_training(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--root",
        required=True,
        metavar="PHOTOS",
        help="folder of sharp photographs; its MANIFEST.csv says which are for comparing",
    )
    command.add_argument(
        "--budget",
        type=_seconds,
        default=3600.0,
        metavar="TIME",
        help="for all variants together, as 90s, 60m or 2h (default: 60m)",
    )
    command.add_argument("--steps", type=int, help="steps of each variant, not the budget's")
    command.add_argument(
        "--photos", type=int, default=10, help="photographs to compare on (default: 10)"
    )
    command.add_argument("--seed", type=int, default=0, help="default: 0")
    command.add_argument("--device", default="auto", help="default: auto")
    command.add_argument("--preset", default="default", help="of training (default: default)")
    _add_output(command, "folder for runs and results; what was stopped goes on")


def _params(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction import cost

    _print_counts(given, cost.parameter_tables, cost.parameters_as_tables)


def _flops(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction import cost

    _print_counts(given, cost.flops_tables, cost.flops_as_tables)


def _estimators(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation.estimators import accuracy_steps, accuracy_table

    steps = accuracy_steps(
        given.root,
        given.split,
        limit=given.photos,
        seed=given.seed,
        model=given.model,
        estimator_models=dict(given.estimator_model),
        device=given.device,
    )
    rows = show(steps, "estimators", "map")
    if given.json:
        print_json([row.to_dict() for row in rows])
    else:
        print_tables([accuracy_table(rows)])


def _comparison(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation import EvaluateOptions
    from napari_kpac.evaluation.options import METHODS

    models = (*MODELS, "kpac-dual") if given.dual else MODELS
    options = EvaluateOptions(
        kind=given.dataset,
        root=given.root,
        split=given.split or ("test" if given.dataset == "dpdd" else "val"),
        model=tuple(given.model or models),
        method=tuple(name for name in METHODS if name in ESTIMATOR_NAMES),
        deconvolution="paper",
        ssim="paper",
        dual=given.dual,
        limit=given.limit,
        device=given.device,
    )
    _evaluate(given, options, given.output)


def _detection(given: argparse.Namespace) -> None:
    from napari_kpac.evaluation import EvaluateOptions
    from napari_kpac.reproduction.masks import write_masks_steps

    root, blurred, output = given.root, given.blurred, given.output
    if given.dataset == "synthetic":
        root, blurred = output / "images", "white"
        steps = write_masks_steps(Path(given.root), given.split or "val", root, given.limit)
        show(steps, "blur", "image")
    elif given.split is not None:
        raise ConfigError("cuhk has no splits: leave the split out")
    options = EvaluateOptions(
        kind="cuhk",
        root=str(root),
        model=tuple(given.model or MODELS),
        blurred=blurred,
        limit=given.limit if given.dataset == "cuhk" else None,
        device=given.device,
    )
    _evaluate(given, options, output)


def _evaluate(given: argparse.Namespace, options: EvaluateOptions, output: Path) -> None:
    from napari_kpac.evaluation import evaluate
    from napari_kpac.evaluation.tables import tables_of

    found = show(evaluate(options, output), "compare", "result")
    if given.json:
        lines = [line.to_dict() for line in found.lines]
        print_json({"options": options.to_dict(), "lines": lines})
        return
    print_tables(tables_of(found))
    print(f"\nWrote {(output / 'report.html').resolve()}")


def _estimator_model(text: str) -> tuple[str, str]:
    name, _, model = text.partition("=")
    if name not in ESTIMATOR_NAMES or not model:
        raise ConfigError(f"{text!r}: write NAME=FILE, NAME one of {', '.join(ESTIMATOR_NAMES)}")
    return name, model


def _print_counts(
    given: argparse.Namespace,
    count: Callable[[], dict[str, list[CountRow]]],
    as_tables: Callable[[], list[Table]],
) -> None:
    if given.json:
        print_json({title: [asdict(row) for row in rows] for title, rows in count().items()})
    else:
        print_tables(as_tables())


def _cost(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction.cost import MEASURED, cost_steps, cost_table

    rows = show(cost_steps(given.size, given.repeats, given.network or MEASURED), "cost", "network")
    if given.json:
        print_json([asdict(row) for row in rows])
    else:
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
    from napari_kpac.reproduction.figures import limits_figure

    _write(given, "limits", limits_figure(given.model, given.device))


def _image(path: Path | None) -> tuple[str, Any]:
    from skimage import data

    from napari_kpac.images import read_image

    return ("coffee", data.coffee()) if path is None else (path.stem, read_image(path))


def _write(given: argparse.Namespace, name: str, figure: Figure) -> None:
    from napari_kpac.core.files import write_record
    from napari_kpac.images import write_image

    written = write_image(given.output / f"{name}.png", figure.image)
    numbers = write_record(written.with_suffix(".json"), figure.numbers)
    if given.json:
        print_json({"numbers": figure.numbers, "files": [str(written), str(numbers)]})
    else:
        print(f"Wrote {written.resolve()} and {numbers.name}")


def _experiment(name: str) -> Run:
    def run(given: argparse.Namespace) -> None:
        from napari_kpac.reproduction.report import write_variants
        from napari_kpac.reproduction.variants import find_experiment, variant_steps

        experiments = [find_experiment(name)]
        steps = variant_steps(experiments, _variant_options(given), given.output)
        compared = show(steps, name, "step")
        _print_report(given, write_variants(experiments, compared))

    return run


def _all(given: argparse.Namespace) -> None:
    from napari_kpac.reproduction.report import everything_steps

    steps = everything_steps(_variant_options(given), given.output)
    _print_report(given, show(steps, "all", "step"))


def _variant_options(given: argparse.Namespace) -> Any:
    from napari_kpac.cli.common import given_options
    from napari_kpac.reproduction.variants import VariantOptions

    return VariantOptions(**given_options(given, VariantOptions))


def _print_report(given: argparse.Namespace, tables: list[Table]) -> None:
    from napari_kpac.core.files import read_record

    if given.json:
        print_json(read_record(given.output / "results.json"))
        return
    print_tables(tables)
    print(f"\nWrote {(given.output / 'report.html').resolve()}")


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


def _size(text: str) -> tuple[int, int]:
    try:
        width, height = (int(part) for part in text.lower().split("x"))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text} is no size; write WxH, e.g. 1280x720") from error
    return height, width


def _seconds(text: str) -> float:
    match = _TIME.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"{text} is no time; write 90s, 60m or 2h")
    return float(match[1]) * _SECONDS[match[2] or "s"]
