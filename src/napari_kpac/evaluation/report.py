"""The files of an evaluation besides its rows: a summary for machines, a page for people.

Not for: measuring (study), tables, or the drawing of plots (plots).
"""

from __future__ import annotations

import base64
import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import imagecodecs
import numpy as np
from scipy.ndimage import uniform_filter

from napari_kpac.core.files import replacing, write_record
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.evaluation.methods import INPUT
from napari_kpac.evaluation.metrics import BINS, ImageArray, column, psnr, squared_error
from napari_kpac.evaluation.plots import Cell, line_plot, to_rgb8
from napari_kpac.evaluation.study import PairStudy
from napari_kpac.evaluation.tables import Table, score_text, tables_of

if TYPE_CHECKING:
    from napari_kpac.evaluation.results import Results
    from napari_kpac.evaluation.study import Evaluation

SUMMARY = "summary.json"
REPORT = "report.html"
TITLE = "Evaluation with napari-kpac"
MAX_CASES = 3
"""Best cases that are shown, and as many worst ones."""
CASE_SIDE_PX = 224


@dataclass(frozen=True)
class Section:
    """A heading of a page and what stands below it."""

    title: str
    table: Table | None = None
    svg: str = ""
    images: Sequence[tuple[str, Sequence[Cell]]] = ()
    """Headings, which may be empty, and images in 0..1 with their captions."""
    text: str = ""
    """Shown as it is, with its line breaks."""
    folded: bool = False
    """Whether it is hidden until somebody asks for it."""


def write_page(path: Path, title: str, introduction: str, sections: Sequence[Section]) -> None:
    """Write a page of HTML that stands alone."""
    from jinja2 import Environment, FileSystemLoader

    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["png"] = _png
    template = templates.get_template("page.html")
    text = template.render(title=title, introduction=introduction, sections=sections)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _png(image: ImageArray) -> str:
    """Return an image in 0..1, or of 8 bits, as PNG in the letters of base 64."""
    pixels = np.ascontiguousarray(to_rgb8(image))
    return base64.b64encode(imagecodecs.png_encode(pixels)).decode()


def report_steps(found: Evaluation, folder: Path) -> Steps[Path]:
    """Write the summary and the page; yields after every case that is shown."""
    lines = [_finite(line.to_dict()) for line in found.lines]
    where = environment()
    summary = {"settings": found.study.settings, "lines": lines, "environment": where}
    write_record(folder / SUMMARY, summary)
    sections = [Section(table.title, table) for table in tables_of(found)]
    if isinstance(found.study, PairStudy):
        sections += _plots(found)
        total = len(found.study.keys)
        cases: dict[str, list[tuple[str, Sequence[Cell]]]] = {}
        for done, case in enumerate(best_and_worst(found.study, found.results), start=1):
            heading = f"{case.image}: {case.gain:.2f} dB gained"
            cases.setdefault(case.kind, []).append((heading, case.crops))
            yield Progress(total, total, f"report: case {done} of at most {2 * MAX_CASES}")
        for kind, shown in cases.items():
            title = f"The {kind} cases of {found.study.methods[1].name}"
            sections.append(Section(title, images=shown))
    sections.append(Section("Every image", _rows(found.results), folded=True))
    for title, content in (("Settings", found.study.settings), ("Environment", where)):
        sections.append(Section(title, text=json.dumps(content, indent=2)))
    images = len({row.image for row in found.results.rows})
    introduction = f"{images} images of dataset {found.options.kind}, split {found.options.split}."
    write_page(folder / REPORT, TITLE, introduction, sections)
    return folder / REPORT


def environment() -> dict[str, Any]:
    """Return where this runs, and with what."""
    import torch

    versions = {}
    for name in ("napari-kpac", "torch", "numpy", "scipy", "scikit-image"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "versions": versions,
    }


def _finite(content: Any) -> Any:
    """Write infinity as text: JSON has no number for it."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, float) and content in (float("inf"), float("-inf")):
        return str(content)
    return content


class Case(NamedTuple):
    """One image and what became of it."""

    kind: str
    """``best`` or ``worst``."""
    image: str
    gain: float
    """PSNR above the input's, in dB."""
    crops: Sequence[Cell]


def best_and_worst(study: PairStudy, results: Results) -> Iterator[Case]:
    """Yield the cases in which the first method gained most and least, at the first noise.

    Only these are computed again; results are not kept.
    """
    if len(study.methods) == 1:
        return
    method, noise = study.methods[1], study.options.noise[0]
    gains = []
    for number in range(study.count):
        row = results.find((study.pairs.name(number), method.name, noise))
        gain = results.gain(row) if row is not None else None
        if gain is not None:
            gains.append((gain, number))
    gains.sort(reverse=True)
    shown = min(MAX_CASES, (len(gains) + 1) // 2)
    worst = gains[shown:][-shown:][::-1]
    for kind, chosen in (("best", gains[:shown]), ("worst", worst)):
        for gain, number in chosen:
            yield Case(kind, study.pairs.name(number), gain, _crops(study, number, noise))


def _crops(study: PairStudy, number: int, noise: float) -> list[Cell]:
    pair = study.pair(number, noise)
    where = worst_crop(squared_error(pair.blurred, pair.sharp), CASE_SIDE_PX)
    crops = []
    for method in study.methods:
        restored = method.restore(pair.blurred, pair.views)
        score = psnr(study.as_scored(restored, pair.sharp), pair.sharp)
        crops.append((restored[where], f"{method.name}, {score:.2f} dB"))
    return [*crops, (pair.sharp[where], "sharp")]


def worst_crop(error: ImageArray, side: int) -> tuple[slice, slice]:
    """Return the square of an image in which an error (H, W) is largest."""
    side = min(side, *error.shape)
    smooth = uniform_filter(error, side)
    middle = np.unravel_index(np.argmax(smooth), smooth.shape)
    top, left = (
        int(np.clip(place - side // 2, 0, length - side))
        for place, length in zip(middle, error.shape, strict=True)
    )
    return slice(top, top + side), slice(left, left + side)


def _plots(found: Evaluation) -> list[Section]:
    sections = []
    lines, results, noises = found.lines, found.results, found.options.noise
    columns = [column("psnr", where) for where in BINS]
    if any(name in line.gains for line in lines for name in columns):
        series = [
            (
                line.method if len(noises) == 1 else f"{line.method}, {line.noise:g} %",
                [line.gains.get(name) for name in columns],
            )
            for line in lines
        ]
        places = [where.label for where in BINS]
        drawn = line_plot(series, places, x="radius of the blur in px", y="PSNR gained in dB")
        sections.append(Section("Gain by radius", svg=drawn))

    def score(image: str, method: str) -> float | None:
        row = results.find((image, method, noises[0]))
        return None if row is None else row.scores["psnr"]

    images = list(dict.fromkeys(row.image for row in results.rows))
    images.sort(key=lambda image: score(image, INPUT.name) or 0.0)
    series = [
        (method, [score(image, method) for image in images])
        for method in dict.fromkeys(line.method for line in lines)
    ]
    drawn = line_plot(
        series, [""] * len(images), x="images, by the PSNR of the input", y="PSNR in dB"
    )
    return [*sections, Section("PSNR of every image", svg=drawn)]


def _rows(results: Results) -> Table:
    columns = results.columns
    return Table(
        "",
        ("image", "method", "noise %", *columns),
        [
            (
                row.image,
                row.method,
                f"{row.noise:g}",
                *(score_text(row.scores, name) for name in columns),
            )
            for row in results.rows
        ],
    )
