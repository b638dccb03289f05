"""The files of an evaluation besides its rows: a summary for machines, a page for people.

Not for: measuring, or HTML itself (page).
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from html import escape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_kpac.core.files import replacing, write_record
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.evaluation.bins import BINS, column
from napari_kpac.evaluation.cases import SHOWN, Case, best_and_worst
from napari_kpac.evaluation.drawing import line_plot
from napari_kpac.evaluation.page import Section, folded, image_html, page, table_html
from napari_kpac.evaluation.study import PairStudy
from napari_kpac.evaluation.summary import INPUT, Line
from napari_kpac.evaluation.tables import Table, number, tables_of

if TYPE_CHECKING:
    from napari_kpac.evaluation.evaluating import Evaluation

SUMMARY = "summary.json"
REPORT = "report.html"
TITLE = "Evaluation with napari-kpac"


def report_steps(found: Evaluation, folder: Path) -> Steps[Path]:
    """Write the summary and the page; yields after every case that is shown."""
    write_record(folder / SUMMARY, summary_of(found))
    cases: list[tuple[str, Case]] = []
    total = len(found.study.keys)
    if isinstance(found.study, PairStudy):
        for done, case in enumerate(best_and_worst(found.study, found.ledger), start=1):
            cases.append(case)
            yield Progress(total, total, f"report: case {done} of at most {2 * SHOWN}")
    with replacing(folder / REPORT) as temporary:
        temporary.write_text(page_of(found, cases), encoding="utf-8")
    return folder / REPORT


def summary_of(found: Evaluation) -> dict[str, Any]:
    """Give the means, settings and environment as plain values."""
    return {
        "settings": found.study.settings,
        "lines": [_finite(line.to_dict()) for line in found.lines],
        "environment": environment(),
    }


def environment() -> dict[str, Any]:
    """Say where this runs."""
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


def page_of(found: Evaluation, cases: Sequence[tuple[str, Case]]) -> str:
    """Put the page together."""
    options = found.options
    images = len({row.image for row in found.ledger.rows})
    introduction = f"{images} images of dataset {options.kind}, split {options.split}."
    sections = [Section(table.title, table_html(table)) for table in tables_of(found)]
    if isinstance(found.study, PairStudy):
        sections += [*_plots(found), *_case_sections(cases)]
    sections.append(Section("Every image", folded("show", table_html(_rows(found)))))
    for title, content in (("Settings", found.study.settings), ("Environment", environment())):
        sections.append(Section(title, f"<pre>{_json(content)}</pre>"))
    return page(TITLE, introduction, sections)


def _plots(found: Evaluation) -> list[Section]:
    sections = []
    lines = found.lines
    if any(column("psnr", where) in line.gains for line in lines for where in BINS):
        series = [
            (_label(line, found), [line.gains.get(column("psnr", where)) for where in BINS])
            for line in lines
        ]
        places = [where.label for where in BINS]
        drawn = line_plot(series, places, x="radius of the blur in px", y="PSNR gained in dB")
        sections.append(Section("Gain by radius", drawn))
    noise = found.options.noise[0]
    names = list(dict.fromkeys(row.image for row in found.ledger.rows))

    def score(name: str, method: str) -> float | None:
        row = found.ledger.find((name, method, noise))
        return None if row is None else row.scores["psnr"]

    names.sort(key=lambda name: score(name, INPUT) or 0.0)
    series = [
        (method, [score(name, method) for name in names])
        for method in dict.fromkeys(line.method for line in found.lines)
    ]
    drawn = line_plot(
        series, [""] * len(names), x="images, by the PSNR of the input", y="PSNR in dB"
    )
    sections.append(Section("PSNR of every image", drawn))
    return sections


def _label(line: Line, found: Evaluation) -> str:
    return line.method if len(found.options.noise) == 1 else f"{line.method}, {line.noise:g} %"


def _case_sections(cases: Sequence[tuple[str, Case]]) -> list[Section]:
    sections = []
    for kind in ("best", "worst"):
        shown = [case for which, case in cases if which == kind]
        if shown:
            body = "".join(
                f"<h3>{escape(case.image)}: {number(case.gain, 'psnr')} dB gained</h3>"
                + "".join(image_html(crop, caption) for crop, caption in case.crops)
                for case in shown
            )
            sections.append(Section(f"The {kind} cases of {shown[0].method}", body))
    return sections


def _rows(found: Evaluation) -> Table:
    columns = found.ledger.columns
    return Table(
        "",
        ("image", "method", "noise %", *columns),
        [
            (
                row.image,
                row.method,
                f"{row.noise:g}",
                *(number(row.scores.get(name), name) for name in columns),
            )
            for row in found.ledger.rows
        ],
    )


def _json(content: Any) -> str:
    return escape(json.dumps(content, indent=2))


def _finite(content: Any) -> Any:
    """Write infinity as text: JSON has no number for it."""
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, float) and content in (float("inf"), float("-inf")):
        return str(content)
    return content
