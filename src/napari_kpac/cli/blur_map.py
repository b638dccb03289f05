"""``napari-kpac blur-map``: how blurred each pixel is, what counts as blurred, and how well.

Not for: the work (detection).
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from napari_kpac.cli.common import (
    Commands,
    add_command,
    add_files,
    add_options,
    batch_options,
    checked,
    given_options,
    print_report,
    print_table,
    show,
)
from napari_kpac.core.errors import ConfigError, for_people
from napari_kpac.core.options import parse_numbers

if TYPE_CHECKING:
    from napari_kpac.batch import Outcome
    from napari_kpac.core.options import DetectionOptions


def register(commands: Commands) -> None:
    """Declare the command."""
    from napari_kpac.core.options import DetectionOptions, MapKind

    command = add_command(
        commands,
        "blur-map",
        _blur_map,
        summary="write a map of how blurred each pixel is; also masks, regions and scores",
        example="napari-kpac blur-map holiday.jpg -o blur.tif --mask blurred.png",
    )
    add_files(command)
    files = command.add_argument_group("files")
    files.add_argument(
        "--format",
        choices=get_args(MapKind),
        help="8- or 16-bit PNG, float32 TIFF, NumPy array, or colours over the image "
        "(default: by the name of the output)",
    )
    files.add_argument(
        "--opacity", type=checked(float), default=0.5, help="of the colours in an overlay"
    )
    files.add_argument(
        "--slice", type=checked(_index), metavar="N[,M]", help="only this slice of a stack, from 0"
    )
    files.add_argument(
        "--scale", type=checked(_scale), metavar="Y,X", help="size of a pixel, for TIFF"
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


def _blur_map(given: argparse.Namespace) -> int:
    options, batch = _options(given), batch_options(given)
    from napari_kpac.batch import blur_map_files
    from napari_kpac.images import read_mask

    steps = blur_map_files(
        given.inputs,
        given.output,
        options,
        batch,
        left=given.left,
        right=given.right,
        kind=given.format,
        mask=given.mask,
        regions=given.regions,
        opacity=given.opacity,
        slice=given.slice,
        scale=given.scale,
        units=given.units,
        truth=read_mask(given.truth) if given.truth else None,
        polarity=given.polarity,
    )
    report = show(steps, "blur-map", "%")
    if not given.json:
        for outcome in report.of("made"):
            _tell(outcome)
    return print_report(given, report)


def _options(given: argparse.Namespace) -> DetectionOptions:
    """Read the options; what does not go together is a mistake in the call."""
    from napari_kpac.core.options import DetectionOptions

    if (given.truth is None) != (given.polarity is None):
        given.mistake("--truth and --polarity go together: say what the mask marks")
    if given.truth and len(given.inputs) > 1:
        given.mistake("--truth goes with one image")
    names = [path for path in (given.output, given.mask, given.regions) if path and path.suffix]
    if len(set(names)) < len(names):
        given.mistake("map, mask and regions need different names")
    chosen = given_options(given, DetectionOptions)
    if "threshold" in chosen:
        chosen.setdefault("threshold_rule", "fixed")
    try:
        return DetectionOptions(**chosen)
    except ConfigError as error:
        given.mistake(for_people(error))
        raise


def _tell(outcome: Outcome) -> None:
    for path in outcome.written:
        print(path)
    if outcome.record.get("note"):
        print(f"{outcome.written[0].name}: {outcome.record['note']}", file=sys.stderr)
    scores = outcome.record.get("scores")
    if scores is None:
        return
    rows = scores["thresholds"]
    print()
    print_table(
        list(rows[0]),
        [[v if isinstance(v, str) else f"{v:.4f}" for v in row.values()] for row in rows],
    )
    for name, key in (("average precision", "average_precision"), ("ROC AUC", "roc_auc")):
        value = scores[key]
        print(f"{name}: {'not defined for this mask' if value is None else f'{value:.4f}'}")
    marked = scores["polarity"]
    print(f"f0.3, f1: F-measure with beta^2 = 0.3 and 1; the mask marks what is {marked}")


def _scale(text: str) -> tuple[float, ...]:
    scale = parse_numbers(text)
    if not all(0 < size < math.inf for size in scale):
        raise ConfigError(f"scale={text!r}: the size of a pixel must be above 0")
    return scale


def _index(text: str) -> tuple[int, ...]:
    index = tuple(int(part) for part in text.split(","))
    if min(index) < 0:
        raise ValueError("slices count from 0")
    return index
