"""How good, how large, how fast: the paper's tables beside ours.

Not for: training, or images themselves (engine).
"""

from napari_kpac.evaluation.counts import CountRow, flops_tables, parameter_tables
from napari_kpac.evaluation.inverse_kernels import Figure, inverse_kernel_figures

__all__ = [
    "CountRow",
    "Figure",
    "flops_tables",
    "inverse_kernel_figures",
    "parameter_tables",
]
