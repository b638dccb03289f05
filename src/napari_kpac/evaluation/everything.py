"""Everything of the paper that can be made again here, in one report.

Not for: the parts (counts, costing, inverse_kernels, figures, limits, variants).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from skimage import data

from napari_kpac.core.progress import Steps
from napari_kpac.evaluation.cost_tables import cost_table, flops_as_tables, parameters_as_tables
from napari_kpac.evaluation.costing import SIZE, cost_steps
from napari_kpac.evaluation.experiments import EXPERIMENTS
from napari_kpac.evaluation.figures import attention_figure, modulation_figure
from napari_kpac.evaluation.inverse_kernels import inverse_kernel_figures
from napari_kpac.evaluation.limits import limits_figure
from napari_kpac.evaluation.page import Section, picture_html, table_html
from napari_kpac.evaluation.panels import Picture
from napari_kpac.evaluation.tables import Table
from napari_kpac.evaluation.variant_report import write_variants
from napari_kpac.evaluation.variants import VariantOptions, variant_steps
from napari_kpac.images import write_image

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
    sections = [Section(table.title, table_html(table)) for table in (costs, *counted)]
    for title, name, picture in _figures(options.device):
        write_image(folder / f"{name}.png", picture)
        sections.append(Section(title, picture_html(picture / np.float32(255), title)))
    return [costs, *counted, *write_variants(experiments, compared, sections)]


def _figures(device: str) -> Iterator[tuple[str, str, Picture]]:
    """Draw the figures that need no training of their own: title, name, picture."""
    for figure in inverse_kernel_figures(EPSILON):
        yield f"Inverse kernels: {figure.name.replace('_', ' ')}", figure.name, figure.picture
    photo = data.coffee()
    yield "Scale attention", "attention", attention_figure(photo, device=device).picture
    yield "Modulated attention", "modulation", modulation_figure(photo, device=device).picture
    yield "Known limits", "limits", limits_figure(device=device).picture
