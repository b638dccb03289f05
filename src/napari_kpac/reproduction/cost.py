"""Parameters, FLOPs and times of all networks and estimators of the paper, beside what it prints.

Not for: the speed of this program (evaluation.speed).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from skimage import data
from torch import Tensor, nn

from napari_kpac.core.allocator import keeping_memory
from napari_kpac.core.errors import ConfigError
from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine.estimators import prepare_estimator
from napari_kpac.evaluation import paper
from napari_kpac.evaluation.speed import peak_memory_here, run_process
from napari_kpac.evaluation.tables import Table, decimal
from napari_kpac.network import (
    DMENet,
    DPDNet,
    KPACConfig,
    KPACNet,
    ResidualNet,
    count_flops,
    count_parameters,
)
from napari_kpac.reproduction.variants import EXPERIMENTS, Variant

SIZE = (720, 1280)
SIDE_MULTIPLE_PX = 16
"""Sides that every network takes are multiples of this."""
DMENET_NOTE = "estimates the defocus map alone; heads of the training included"
DPDNET_NOTE = "the published DPDNet code has 31.03 M, whatever the paper's table says"

Make = Callable[[], nn.Module]


def _kpac(**changes: Any) -> Make:
    config = KPACConfig(**changes)
    return lambda: KPACNet(config)


class _DualKPAC(nn.Module):
    """Gives a dual-pixel network its views as the channels of one tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.net = KPACNet(KPACConfig(views=2))

    def forward(self, views: Tensor) -> Tensor:
        """Deblur the mean of the views."""
        deblurred: Tensor = self.net(None, views.chunk(2, dim=1))
        return deblurred


@dataclass(frozen=True)
class Network:
    """A network of the paper's tables."""

    label: str
    make: Make
    """Builds it, untrained."""
    views: int = 1
    """Images that go in."""

    def shape(self, size: tuple[int, int]) -> tuple[int, ...]:
        """Return the shape of what goes in."""
        return (1, 3 * self.views, *size)


NETWORKS = (
    Network("KPAC (2-level)", _kpac(levels=2)),
    Network("KPAC (3-level)", _kpac()),
    Network("KPAC (dual)", _DualKPAC, views=2),
    Network("residual baseline", ResidualNet),
    Network("DPDNet (single)", lambda: DPDNet(1)),
    Network("DPDNet (dual)", lambda: DPDNet(2), views=2),
    Network("DMENet", DMENet),
)
_NOTES = {"DPDNet": DPDNET_NOTE, "DMENet": DMENET_NOTE}
_BY_LABEL = {network.label: network for network in NETWORKS}
_WITHOUT_NETWORK = {each.label: each.name for each in ESTIMATORS if not each.needs_model}
MEASURED = (*_BY_LABEL, *_WITHOUT_NETWORK)
"""Labels of all that the time is measured of."""


@dataclass(frozen=True)
class CountRow:
    """One row of a table: what the paper prints and what counting gives."""

    label: str
    paper: float | None
    ours: int
    ours_paper_way: int | None = None
    """FLOPs without the transposed convolutions, which is how the paper counts them."""
    note: str = ""


def _parameters(make: Make) -> int:
    with torch.device("meta"):
        return count_parameters(make())


def parameter_tables() -> dict[str, list[CountRow]]:
    """Return the parameters of every network in the paper's tables (the paper's in millions)."""
    networks: dict[str, list[tuple[paper.PaperRow, Make]]] = {
        title: [(variant.printed[0.0], _variant(variant)) for variant in EXPERIMENTS[name].variants]
        for title, name in (
            ("weight sharing (2-level)", "weight-sharing"),
            ("ablation (2-level)", "ablation"),
            ("number of blocks (2-level)", "num-blocks"),
        )
    }
    networks["comparison"] = [
        (row, _BY_LABEL[row.label].make)
        for row in (*paper.TWO_STEP, *paper.COMPARISON)
        if row.parameters is not None
    ]
    ours = ({"levels": 2}, {"levels": 3}, {"views": 2})
    networks["authors' files (shape attention of width 12)"] = [
        (row, _kpac(**changes, shape_hidden=12))
        for row, changes in zip(paper.COMPARISON[2:], ours, strict=True)
    ]
    return {
        title: [
            CountRow(
                row.label,
                row.parameters,
                _parameters(make),
                note=_NOTES.get(row.label.split()[0], ""),
            )
            for row, make in rows
        ]
        for title, rows in networks.items()
    }


def _variant(variant: Variant) -> Make:
    return ResidualNet if "network" in variant.changes else _kpac(**variant.changes)


def flops_tables() -> dict[str, list[CountRow]]:
    """Return the FLOPs at 1280x720 of the networks whose cost the paper states (in billions)."""
    rows = []
    dmenet = next(row for row in paper.TWO_STEP if row.label == "DMENet")
    for row in (*paper.COMPARISON, dmenet):
        if row.flops is not None or row is dmenet:
            network = _BY_LABEL[row.label]
            cost = count_flops(network.make, network.shape(SIZE))
            published = row.label.startswith("DPDNet")
            note = "counted on the published DPDNet code" if published else ""
            if row is dmenet:
                note = "of the defocus map alone, for which the paper prints none"
            rows.append(CountRow(row.label, row.flops, cost.flops, cost.paper_flops, note))
    return {"FLOPs at 1280x720": rows}


def parameters_as_tables() -> list[Table]:
    """Return the parameters of every network in the paper's tables, as text."""
    return [
        Table(
            f"Parameters: {title}",
            ("network", "paper (M)", "ours (M)", "ours, exactly", ""),
            [
                (r.label, decimal(r.paper, 2), f"{r.ours / 1e6:.2f}", f"{r.ours:,}", r.note)
                for r in rows
            ],
        )
        for title, rows in parameter_tables().items()
    ]


def flops_as_tables() -> list[Table]:
    """Return the FLOPs of the networks whose cost the paper states, as text."""
    return [
        Table(
            f"{title}, in billions; two per multiply-accumulate",
            ("network", "paper", "ours, paper's way", "ours, in full", ""),
            [
                (
                    row.label,
                    decimal(row.paper, 0),
                    decimal(row.ours_paper_way and row.ours_paper_way / 1e9, 1),
                    f"{row.ours / 1e9:.1f}",
                    row.note,
                )
                for row in rows
            ],
            "The paper's way leaves the transposed convolutions out.",
        )
        for title, rows in flops_tables().items()
    ]


@dataclass(frozen=True)
class CostRow:
    """Cost of a network or an estimator, the paper's figures beside ours.

    None is what an estimator without a network has not got, or the paper does not print.
    """

    label: str
    parameters: int | None
    flops: int | None
    flops_paper_way: int | None
    """Without the transposed convolutions."""
    seconds: float
    cpu_seconds: float
    """Of all threads together: what a machine that is busy with other things makes less wrong."""
    peak: int
    """Bytes of the process at its peak."""
    forward: int
    """Bytes of that above the process with what runs and its input loaded."""
    paper_parameters: float | None
    paper_flops: float | None
    paper_seconds: float | None


def cost_steps(
    size: tuple[int, int] = SIZE, repeats: int = 3, labels: Sequence[str] = MEASURED
) -> Steps[list[CostRow]]:
    """Measure networks and estimators, all unless some are named, one by one; yields after each."""
    printed = {row.label: row for row in (*paper.QUALITY, *paper.ABLATION)}
    if min(size) < SIDE_MULTIPLE_PX or any(side % SIDE_MULTIPLE_PX for side in size):
        raise ConfigError(
            f"a size of {size[1]}x{size[0]}: both sides must be multiples of {SIDE_MULTIPLE_PX}"
        )
    if repeats < 1:
        raise ConfigError(f"repeats={repeats}: must be 1 or more")
    unknown = [label for label in labels if label not in MEASURED]
    if unknown or not labels:
        named = ", ".join(map(repr, unknown)) or "nothing"
        raise ConfigError(f"{named}: choose among {', '.join(MEASURED)}")
    rows = []
    for number, label in enumerate(labels):
        network = _BY_LABEL.get(label)
        flops = None if network is None else count_flops(network.make, network.shape(size))
        measured = run_process(label, __name__, MEASURED.index(label), *size, repeats)
        row = printed[label]
        rows.append(
            CostRow(
                label,
                None if network is None else _parameters(network.make),
                None if flops is None else flops.flops,
                None if flops is None else flops.paper_flops,
                measured["seconds"],
                measured["cpu"],
                int(measured["peak"]),
                max(0, int(measured["peak"] - measured["before"])),
                row.parameters,
                row.flops,
                row.seconds,
            )
        )
        yield Progress(number + 1, len(labels), label)
    return rows


def cost_table(rows: Sequence[CostRow], size: tuple[int, int] = SIZE) -> Table:
    """Return cost as it was measured here beside the paper's."""
    networks = [row for row in rows if row.parameters is not None]
    least = min(row.cpu_seconds for row in networks or rows)
    return Table(
        f"Cost, measured here at {size[1]}x{size[0]}",
        (
            "network or estimator", "params (M)", "paper's", "GFLOPs", "paper's way", "paper's",
            "seconds", "CPU seconds", "ratio", "paper's (s)", "peak (GB)", "forward (GB)",
        ),
        [
            (
                row.label,
                decimal(row.parameters and row.parameters / 1e6, 2),
                decimal(row.paper_parameters, 2),
                decimal(row.flops and row.flops / 1e9, 0),
                decimal(row.flops_paper_way and row.flops_paper_way / 1e9, 0),
                decimal(row.paper_flops, 0),
                f"{row.seconds:.2f}",
                f"{row.cpu_seconds:.2f}",
                f"{row.cpu_seconds / least:.2f}",
                decimal(row.paper_seconds, 2),
                f"{row.peak / 1e9:.2f}",
                f"{row.forward / 1e9:.2f}",
            )
            for row in rows
        ],
        "The paper's columns are the paper's, at 1280x720, its time on the authors' GPU; its way "
        "of counting leaves the transposed convolutions out; DPDNet is counted on its published "
        "code; DMENet, EBDB and JNB estimate the defocus map alone, without the deconvolution that "
        "follows, the last two on a photograph. CPU seconds are of all threads together, and the "
        "ratio is theirs, to the fastest network. Peak is the whole process, "
        "torch included; forward is what a run adds to the loaded network and input.",
    )  # fmt: skip


def _prepared(label: str, size: tuple[int, int]) -> Callable[[], object]:
    """Return what runs a network on noise, or an estimator on a photograph, once."""
    if label in _WITHOUT_NETWORK:
        estimate = prepare_estimator(_WITHOUT_NETWORK[label]).estimate
        photo = data.coffee()
        copies = [-(-wanted // there) for wanted, there in zip(size, photo.shape, strict=False)]
        tiled = np.tile(photo, (*copies, 1))[: size[0], : size[1]]
        image = (tiled / 255).astype(np.float32)
        finish(estimate(image[:64, :64]))  # compiles what is compiled on first use
        return lambda: finish(estimate(image))
    network = _BY_LABEL[label]
    net = network.make().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    noise = torch.rand(network.shape(size)).contiguous(memory_format=torch.channels_last)
    return lambda: net(noise)


@torch.inference_mode()
def _main(arguments: Sequence[str]) -> None:
    """Run one network or estimator and print its time and peak memory."""
    number, height, width, repeats = map(int, arguments)
    run = _prepared(MEASURED[number], (height, width))
    before = peak_memory_here()
    walls, processors = [], []
    with keeping_memory():
        for _ in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            run()
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    measured = {"seconds": min(walls), "cpu": min(processors), "before": before}
    print(json.dumps({**measured, "peak": peak_memory_here()}))


if __name__ == "__main__":
    _main(sys.argv[1:])
