"""The paper's tables and figures, made again beside what it prints.

Loads nothing heavy before it is used. Not for: scores of models (evaluation), or training itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from napari_kpac.core.packages import lazily

if TYPE_CHECKING:
    from napari_kpac.reproduction.cost import CountRow as CountRow
    from napari_kpac.reproduction.cost import flops_tables as flops_tables
    from napari_kpac.reproduction.cost import parameter_tables as parameter_tables
    from napari_kpac.reproduction.inverse_kernels import Figure as Figure
    from napari_kpac.reproduction.inverse_kernels import (
        inverse_kernel_figures as inverse_kernel_figures,
    )

_HOMES = {
    "CountRow": "cost",
    "Figure": "inverse_kernels",
    "flops_tables": "cost",
    "inverse_kernel_figures": "inverse_kernels",
    "parameter_tables": "cost",
}

__all__ = sorted(_HOMES)


__getattr__ = lazily(__name__, _HOMES)
