"""What networks cost, as tables: the paper's figures beside ours.

Not for: counting (counts) and measuring (costing).
"""

from __future__ import annotations

from collections.abc import Sequence

from napari_kpac.evaluation.costing import SIZE, CostRow
from napari_kpac.evaluation.counts import flops_tables, parameter_tables
from napari_kpac.evaluation.tables import Table, printed


def cost_table(rows: Sequence[CostRow], size: tuple[int, int] = SIZE) -> Table:
    """Put cost as it was measured here beside the paper's."""
    least = min(row.cpu_seconds for row in rows)
    return Table(
        f"Cost, measured here at {size[1]}x{size[0]}",
        (
            "network", "params (M)", "paper's", "GFLOPs", "paper's way", "paper's",
            "seconds", "CPU seconds", "ratio", "paper's (s)", "peak (GB)", "forward (GB)",
        ),
        [
            (
                row.label,
                f"{row.parameters / 1e6:.2f}",
                printed(row.paper_parameters, 2),
                f"{row.flops / 1e9:.0f}",
                f"{row.flops_paper_way / 1e9:.0f}",
                printed(row.paper_flops, 0),
                f"{row.seconds:.2f}",
                f"{row.cpu_seconds:.2f}",
                f"{row.cpu_seconds / least:.2f}",
                printed(row.paper_seconds, 2),
                f"{row.peak / 1e9:.2f}",
                f"{row.forward / 1e9:.2f}",
            )
            for row in rows
        ],
        "The paper's columns are the paper's, at 1280x720, its time on the authors' GPU; its way "
        "of counting leaves the transposed convolutions out; DPDNet is counted on its published "
        "code. CPU seconds are of all threads together, and the ratio is theirs. Peak is the whole "
        "process, torch included; forward is what a forward pass adds to the loaded network and "
        "input.",
    )  # fmt: skip


def parameters_as_tables() -> list[Table]:
    """Give the parameters of every network in the paper's tables."""
    return [
        Table(
            f"Parameters: {title}",
            ("network", "paper (M)", "ours (M)", "ours, exactly", ""),
            [
                (
                    row.label,
                    printed(row.paper, 2),
                    f"{row.ours / 1e6:.2f}",
                    f"{row.ours:,}",
                    row.note,
                )
                for row in rows
            ],
        )
        for title, rows in parameter_tables().items()
    ]


def flops_as_tables() -> list[Table]:
    """Give the FLOPs of the networks whose cost the paper states."""
    return [
        Table(
            f"{title}, in billions; two per multiply-accumulate",
            ("network", "paper", "ours, paper's way", "ours, in full", ""),
            [
                (
                    row.label,
                    printed(row.paper, 0),
                    printed(row.ours_paper_way and row.ours_paper_way / 1e9, 1),
                    f"{row.ours / 1e9:.1f}",
                    row.note,
                )
                for row in rows
            ],
            "The paper's way leaves the transposed convolutions out.",
        )
        for title, rows in flops_tables().items()
    ]
