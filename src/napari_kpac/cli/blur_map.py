"""``napari-kpac blur-map``: how blurred each pixel is, what counts as blurred, and how well.

Not for: the work (detection).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from napari_kpac.cli.common import Commands, add_command, print_json, print_table
from napari_kpac.cli.images import add_files, targets
from napari_kpac.errors import ConfigError

if TYPE_CHECKING:
    from napari_kpac.detection import Detection, ScoreReport
    from napari_kpac.options import DetectionOptions


def register(commands: Commands) -> None:
    """Declare the command."""
    from napari_kpac.cli.options import add_options
    from napari_kpac.options import DetectionOptions, MapKind, parse_numbers

    command = add_command(
        commands,
        "blur-map",
        _blur_map,
        summary="write a map of how blurred each pixel is; also masks, regions and scores",
        example="napari-kpac blur-map holiday.jpg -o blur.tif --mask blurred.png",
    )
    command.set_defaults(mistake=command.error)
    add_files(command)
    files = command.add_argument_group("files")
    files.add_argument(
        "--format",
        choices=get_args(MapKind),
        help="8- or 16-bit PNG, float32 TIFF, NumPy array, or colours over the picture "
        "(default: by the name of the output)",
    )
    files.add_argument("--opacity", type=float, default=0.5, help="of the colours in an overlay")
    files.add_argument(
        "--slice", type=_index, metavar="N[,M]", help="only this slice of a stack, from 0"
    )
    files.add_argument(
        "--scale", type=parse_numbers, metavar="Y,X", help="size of a pixel, for TIFF"
    )
    files.add_argument("--units", metavar="UNIT", help="unit of the scale, for example um")
    files.add_argument("--mask", type=Path, metavar="OUT", help="write what counts as blurred")
    files.add_argument(
        "--regions", type=Path, metavar="CSV", help="write statistics of the blurred regions"
    )
    truth = command.add_argument_group("scores")
    truth.add_argument("--truth", type=Path, metavar="MASK", help="score against this mask")
    truth.add_argument(
        "--polarity", choices=("blurred", "sharp"), help="what that mask marks; must be said"
    )
    add_options(command, DetectionOptions)


def _blur_map(given: argparse.Namespace) -> None:
    options = _options(given)
    from napari_kpac.cli.progress import show
    from napari_kpac.detection import detect_steps, measure_regions, region_table, score
    from napari_kpac.detection.export import export, export_table
    from napari_kpac.pictures import read_image, read_mask

    truth = read_mask(given.truth) if given.truth else None
    maps, masks, tables = _targets(given, options)
    size = {"scale": given.scale, "units": given.units}
    records = []
    for source, target, mask, csv in zip(given.inputs, maps, masks, tables, strict=True):
        image = _slice(read_image(source), given.slice, options)
        found = show(detect_steps(image, options), source.name)
        report = None
        if truth is not None:
            report = score(found.values, truth, given.polarity, threshold=options.threshold)
        about = {
            "image": image,
            "description": json.dumps(found.to_dict()),
            "opacity": given.opacity,
            "reading": options,
            **size,
        }
        written = export(target, found.values, given.format, **about)
        if mask:
            written += export(mask, found.mask, **about)
        if csv:
            parts = measure_regions(found.values, found.mask, **size)
            written.append(export_table(csv, region_table(parts)))
        records.append(_record(source, written, found, report))
        if not given.json:
            _tell(written, report)
    if given.json:
        print_json(records)


def _options(given: argparse.Namespace) -> DetectionOptions:
    """Read the options; what does not go together is a mistake in the call."""
    from napari_kpac.cli.options import given_options
    from napari_kpac.options import DetectionOptions

    if (given.truth is None) != (given.polarity is None):
        given.mistake("--truth and --polarity go together: say what the mask marks")
    if given.truth and len(given.inputs) > 1:
        given.mistake("--truth goes with one picture")
    chosen = given_options(given, DetectionOptions)
    if "threshold" in chosen:
        chosen.setdefault("threshold_rule", "fixed")
    try:
        return DetectionOptions(**chosen)
    except ConfigError as error:
        given.mistake(str(error))
        raise


def _slice(image: Any, index: tuple[int, ...] | None, options: DetectionOptions) -> Any:
    """Take one slice of a stack, or all of it."""
    from napari_kpac.detection.planes import Planes
    from napari_kpac.errors import ImageError

    if index is None:
        return image
    leading = Planes.of(image, options).layout.leading
    if len(index) != len(leading) or any(n >= size for n, size in zip(index, leading, strict=True)):
        raise ImageError(
            f"there is no slice {','.join(map(str, index))}: the leading axes have sizes {leading}"
        )
    return image[index]


def _targets(
    given: argparse.Namespace, options: DetectionOptions
) -> tuple[list[Path], list[Path | None], list[Path | None]]:
    """Say where maps, masks and tables go; None where they are not wanted."""
    from napari_kpac.detection.export import SUFFIXES, settings_name

    name = f"-{settings_name(options)}"
    every = tuple(suffix for suffixes in SUFFIXES.values() for suffix in suffixes)
    wanted = SUFFIXES[given.format] if given.format else every
    usual = wanted[0] if given.format else None
    maps = list(targets(given.inputs, given.output, wanted, name, usual))
    nothing: list[Path | None] = [None] * len(maps)
    masks, tables = nothing, nothing
    if given.mask:
        masks = list(targets(given.inputs, given.mask, every, f"{name}-mask", ".png"))
    if given.regions:
        tables = list(targets(given.inputs, given.regions, (".csv",), f"{name}-regions", ".csv"))
    paths = [path for path in (*maps, *masks, *tables) if path is not None]
    if len(set(paths)) < len(paths):
        given.mistake("map, mask and regions need different names")
    return maps, masks, tables


def _record(
    source: Path, written: list[Path], found: Detection, report: ScoreReport | None
) -> dict[str, Any]:
    return {
        "input": str(source),
        "output": [str(path) for path in written],
        **found.to_dict(),
        "blurred": float(found.mask.mean()),
        **({} if report is None else {"scores": report.to_dict()}),
    }


def _tell(written: list[Path], report: ScoreReport | None) -> None:
    for path in written:
        print(path)
    if report is None:
        return
    rows = [row.to_dict() for row in report.rows]
    print()
    print_table(
        list(rows[0]),
        [[v if isinstance(v, str) else f"{v:.4f}" for v in row.values()] for row in rows],
    )
    for name, value in (
        ("average precision", report.average_precision),
        ("ROC AUC", report.roc_auc),
    ):
        print(f"{name}: {'not defined for this mask' if value is None else f'{value:.4f}'}")
    print(f"f0.3, f1: F-measure with beta^2 = 0.3 and 1; the mask marks what is {report.polarity}")


def _index(text: str) -> tuple[int, ...]:
    index = tuple(int(part) for part in text.split(","))
    if min(index) < 0:
        raise ValueError("slices count from 0")
    return index
