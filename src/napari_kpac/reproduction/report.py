"""Reports: variants beside the paper's rows, and everything on one page.

Not for: measuring (variants, cost, figures).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from skimage import data

from napari_kpac.core.files import write_record
from napari_kpac.core.progress import Steps
from napari_kpac.evaluation.metrics import psnr, squared_error
from napari_kpac.evaluation.paper import PaperRow
from napari_kpac.evaluation.plots import Cell, RGBImage, sheet
from napari_kpac.evaluation.report import Section, environment, worst_crop, write_page
from napari_kpac.evaluation.tables import Table, decimal
from napari_kpac.images import write_image
from napari_kpac.reproduction.cost import (
    SIZE,
    cost_steps,
    cost_table,
    flops_as_tables,
    parameters_as_tables,
)
from napari_kpac.reproduction.figures import attention_figure, limits_figure, modulation_figure
from napari_kpac.reproduction.inverse_kernels import inverse_kernel_figures
from napari_kpac.reproduction.variants import (
    EXPERIMENTS,
    Compared,
    Experiment,
    VariantOptions,
    variant_steps,
)

MAX_CROPS = 3
"""Crops that are shown of an experiment."""
CROP_SIDE_PX = 220


def label(compared: Compared) -> str:
    """Return a text on what our figures are of."""
    return f"synthetic data, {compared.steps} steps each"


def table(experiment: Experiment, compared: Compared) -> Table:
    """Return the paper's figures and ours side by side."""
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
                    decimal(theirs.psnr, 2),
                    decimal(theirs.parameters, 2),
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


def crops(experiment: Experiment, compared: Compared) -> RGBImage:
    """Show what each variant makes of the same crops, as in the paper's figure."""
    networks = {v.label: compared.trained(v.slug) for v in experiment.variants}
    count = len(compared.cases)
    rows: list[list[Cell]] = []
    for index in np.linspace(0, count - 1, min(MAX_CROPS, count)).round().astype(int):
        pair = compared.cases[int(index)]
        where = worst_crop(squared_error(pair.blurred, pair.sharp), CROP_SIDE_PX)
        before = psnr(pair.blurred, pair.sharp)
        row: list[Cell] = [(pair.blurred[where], f"input\n{before:.2f} dB")]
        for name, network in networks.items():
            restored = network.restore(pair)
            row.append((restored[where], f"{name}\n{psnr(restored, pair.sharp):.2f} dB"))
        rows.append([*row, (pair.sharp[where], "sharp")])
    return sheet(f"{experiment.title}: {label(compared)}", rows, side=CROP_SIDE_PX)


def write_variants(
    experiments: Sequence[Experiment],
    compared: Compared,
    before: Sequence[Section] = (),
) -> list[Table]:
    """Write the numbers, the crops and a page, sections before ours; returns the tables."""
    folder = compared.folder
    tables, sections = [], list(before)
    for experiment in experiments:
        made, image = table(experiment, compared), crops(experiment, compared)
        tables.append(made)
        write_image(folder / f"{experiment.name}.png", image)
        sections.append(Section(made.title, made, images=[("", [(image, experiment.title)])]))
    write_record(folder / "results.json", _plain(experiments, compared))
    title = "The paper's experiments, made again with napari-kpac"
    write_page(folder / "report.html", title, f"Ours: {label(compared)}.", sections)
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


EPSILON = 0.01
"""Of the inverse kernels."""


def everything_steps(
    options: VariantOptions, folder: Path, size: tuple[int, int] = SIZE
) -> Steps[list[Table]]:
    """Train all variants of all experiments, measure the cost at a size, draw every figure."""
    experiments = list(EXPERIMENTS.values())
    compared = yield from variant_steps(experiments, options, folder)
    costs = cost_table((yield from cost_steps(size)), size)
    counted = [*parameters_as_tables(), *flops_as_tables()]
    sections = [Section(table.title, table) for table in (costs, *counted)]
    for title, name, image in _figures(options.device):
        write_image(folder / f"{name}.png", image)
        sections.append(Section(title, images=[("", [(image, title)])]))
    return [costs, *counted, *write_variants(experiments, compared, sections)]


def _figures(device: str) -> Iterator[tuple[str, str, RGBImage]]:
    """Draw the figures that need no training; yields title, name and image of each."""
    for figure in inverse_kernel_figures(EPSILON):
        yield f"Inverse kernels: {figure.name.replace('_', ' ')}", figure.name, figure.image
    photo = data.coffee()
    yield "Scale attention", "attention", attention_figure(photo, device=device).image
    yield "Modulated attention", "modulation", modulation_figure(photo, device=device).image
    yield "Known limits", "limits", limits_figure(device=device).image
