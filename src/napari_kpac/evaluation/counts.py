"""The countable part of the paper's tables: parameters and FLOPs, ours beside the paper's.

Not for: quality figures, which need data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from napari_kpac.evaluation import paper
from napari_kpac.network import (
    DPDNet,
    KPACConfig,
    KPACNet,
    ResidualNet,
    count_flops,
    count_parameters,
)

FLOPS_SIZE = (720, 1280)
DPDNET_NOTE = "the published DPDNet code has 31.03 M, whatever the paper's table says"

Make = Callable[[], nn.Module]


@dataclass(frozen=True)
class CountRow:
    """One row of a table: what the paper prints and what counting gives."""

    label: str
    paper: float | None
    ours: int
    ours_paper_way: int | None = None
    """FLOPs without the transposed convolutions, which is how the paper counts them."""
    note: str = ""


def parameter_tables() -> dict[str, list[CountRow]]:
    """Parameters of every network in the paper's tables (paper's column in millions)."""

    def two(**changes: object) -> Make:
        return _kpac(levels=2, **changes)

    full = two()
    tables: dict[str, tuple[Sequence[paper.PaperRow], Sequence[Make]]] = {
        "weight sharing (2-level)": (paper.WEIGHT_SHARING, (two(shared_kernels=False), full)),
        "ablation (2-level)": (
            paper.ABLATION,
            (
                ResidualNet,
                two(scale_attention=False, shape_attention=False),
                two(scale_attention=False),
                two(shape_attention=False),
                full,
            ),
        ),
        "number of blocks (2-level)": (
            paper.NUMBER_OF_BLOCKS,
            [two(blocks=blocks) for blocks in (1, 2, 3, 4)],
        ),
        "comparison": (
            paper.COMPARISON,
            (lambda: DPDNet(1), lambda: DPDNet(2), full, _kpac(), _kpac(views=2)),
        ),
    }
    rows = {
        title: [
            CountRow(row.label, row.parameters, _parameters(make), note=_note(row))
            for row, make in zip(printed, makes, strict=True)
        ]
        for title, (printed, makes) in tables.items()
    }
    rows["authors' files (shape attention of width 12)"] = [
        CountRow("KPAC (2-level)", 1.58, _parameters(_kpac(levels=2, shape_hidden=12))),
        CountRow("KPAC (3-level)", 2.06, _parameters(_kpac(shape_hidden=12))),
        CountRow("KPAC (dual)", 2.06, _parameters(_kpac(views=2, shape_hidden=12))),
    ]
    return rows


def flops_tables() -> dict[str, list[CountRow]]:
    """FLOPs at 1280x720 of the networks whose cost the paper states (its column in billions)."""
    printed = {row.label: row for row in paper.COMPARISON}
    single, dual = (1, 3, *FLOPS_SIZE), (1, 6, *FLOPS_SIZE)
    rows = []
    for label, make, shape in (
        ("DPDNet (single)", lambda: DPDNet(1), single),
        ("DPDNet (dual)", lambda: DPDNet(2), dual),
        ("KPAC (2-level)", _kpac(levels=2), single),
        ("KPAC (3-level)", _kpac(), single),
    ):
        cost = count_flops(make, shape)
        row = printed[label]
        rows.append(
            CountRow(label, row.flops, cost.flops, cost.paper_flops, _note(row, parameters=False))
        )
    return {"FLOPs at 1280x720": rows}


def _kpac(**changes: object) -> Make:
    config = KPACConfig(**changes)  # type: ignore[arg-type]
    return lambda: KPACNet(config)


def _parameters(make: Make) -> int:
    with torch.device("meta"):
        return count_parameters(make())


def _note(row: paper.PaperRow, *, parameters: bool = True) -> str:
    if not row.label.startswith("DPDNet"):
        return ""
    return DPDNET_NOTE if parameters else "counted on the published DPDNet code"
