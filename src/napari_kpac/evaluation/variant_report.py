"""What training the paper's variants showed: tables, crops side by side, a page.

Not for: training them (variants).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from napari_kpac.core.files import replacing, write_record
from napari_kpac.evaluation.cases import crop_where
from napari_kpac.evaluation.experiments import Experiment
from napari_kpac.evaluation.metrics import psnr, squared_error
from napari_kpac.evaluation.page import Section, page, picture_html, table_html
from napari_kpac.evaluation.panels import Cell, Picture, sheet
from napari_kpac.evaluation.paper import PaperRow
from napari_kpac.evaluation.report import environment
from napari_kpac.evaluation.tables import Table, printed
from napari_kpac.evaluation.variants import Compared
from napari_kpac.images import write_image

SHOWN = 3
"""Crops that are shown of an experiment."""
SIDE = 220


def label(compared: Compared) -> str:
    """Say what our figures are of."""
    return f"synthetic data, {compared.steps} steps each"


def table(experiment: Experiment, compared: Compared) -> Table:
    """Put the paper's figures and ours side by side."""
    rows = []
    for noise in experiment.noises:
        blurred = compared.input_scores[f"{noise:g}"]
        rows.append(("blurred input", f"{noise:g}", "-", "-", "-", *_cells(blurred), "-"))
        for variant in experiment.variants:
            outcome = compared.outcomes[variant.slug]
            scores = outcome.scores[f"{noise:g}"]
            theirs = variant.printed.get(noise, PaperRow(variant.label))
            rows.append(
                (
                    variant.label,
                    f"{noise:g}",
                    printed(theirs.psnr, 2),
                    printed(theirs.parameters, 2),
                    f"{outcome.parameters / 1e6:.2f}",
                    *_cells(scores),
                    f"{scores['psnr'] - blurred['psnr']:+.2f}",
                )
            )
    return Table(
        experiment.title,
        (
            "variant", "noise %", "paper: PSNR", "paper: params (M)", "params (M)",
            "PSNR", "SSIM", "MAE", "gain (dB)",
        ),
        rows,
        f"The paper's figures are the paper's, on DPDD; ours: {label(compared)}.",
    )  # fmt: skip


def crops(experiment: Experiment, compared: Compared) -> Picture:
    """Show what each variant makes of the same crops, as in the paper's figure."""
    networks = {v.label: compared.trained(v.slug) for v in experiment.variants}
    count = len(compared.cases)
    rows: list[list[Cell]] = []
    for index in np.linspace(0, count - 1, min(SHOWN, count)).round().astype(int):
        pair = compared.cases[int(index)]
        where = crop_where(squared_error(pair.blurred, pair.sharp), SIDE)
        before = psnr(pair.blurred, pair.sharp)
        row: list[Cell] = [(pair.blurred[where], f"input\n{before:.2f} dB")]
        for name, network in networks.items():
            restored = network.restore(pair)
            row.append((restored[where], f"{name}\n{psnr(restored, pair.sharp):.2f} dB"))
        rows.append([*row, (pair.sharp[where], "sharp")])
    return sheet(f"{experiment.title}: {label(compared)}", rows, side=SIDE)


def write_variants(
    experiments: Sequence[Experiment],
    compared: Compared,
    more: Sequence[Section] = (),
) -> list[Table]:
    """Write the numbers, the crops and a page; returns the tables."""
    folder = compared.folder
    tables, sections = [], list(more)
    for experiment in experiments:
        made, picture = table(experiment, compared), crops(experiment, compared)
        tables.append(made)
        write_image(folder / f"{experiment.name}.png", picture)
        body = table_html(made) + picture_html(picture / np.float32(255), experiment.title)
        sections.append(Section(made.title, body))
    write_record(folder / "results.json", _plain(experiments, compared))
    title = "The paper's experiments, made again with napari-kpac"
    with replacing(folder / "report.html") as temporary:
        temporary.write_text(page(title, f"Ours: {label(compared)}.", sections), encoding="utf-8")
    return tables


def _plain(experiments: Sequence[Experiment], compared: Compared) -> dict[str, Any]:
    return {
        "label": label(compared),
        "steps": compared.steps,
        "input": compared.input_scores,
        "variants": {
            slug: {"parameters": outcome.parameters, "scores": outcome.scores}
            for slug, outcome in compared.outcomes.items()
        },
        "experiments": {e.name: [v.slug for v in e.variants] for e in experiments},
        "environment": environment(),
    }


def _cells(scores: Any) -> tuple[str, str, str]:
    return f"{scores['psnr']:.2f}", f"{scores['ssim']:.4f}", f"{scores['mae']:.4f}"
