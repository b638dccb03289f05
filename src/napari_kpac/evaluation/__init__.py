"""How good, how large, how fast: the paper's tables beside ours.

Not for: training, or images themselves (engine).
"""

from napari_kpac.evaluation.counts import CountRow, flops_tables, parameter_tables

__all__ = ["CountRow", "flops_tables", "parameter_tables"]
