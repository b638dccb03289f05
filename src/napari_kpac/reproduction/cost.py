"""Parameters, FLOPs and times of all networks of the paper, beside what it prints.

Not for: the speed of this program (evaluation.speed).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from napari_kpac.core.errors import ConfigError, DeviceError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.memory import keeping_memory
from napari_kpac.evaluation import paper
from napari_kpac.evaluation.speed import peak_memory_here
from napari_kpac.evaluation.tables import Table, printed
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


SIZE = (720, 1280)
MULTIPLE = 16
"""Sides that every network takes are multiples of this."""


@dataclass(frozen=True)
class Network:
    """A network of the paper's tables."""

    label: str
    views: int = 1
    """Images that go in."""

    def make(self) -> nn.Module:
        """Build it, untrained."""
        if self.label.startswith("DPDNet"):
            return DPDNet(self.views)
        if self.label.startswith("residual"):
            return ResidualNet()
        config = KPACConfig(levels=2 if "2-level" in self.label else 3, views=self.views)
        return KPACNet(config) if self.views == 1 else _Dual(KPACNet(config))

    def shape(self, size: tuple[int, int]) -> tuple[int, ...]:
        """Shape of what goes in."""
        return (1, 3 * self.views, *size)


class _Dual(nn.Module):
    """Gives a dual-pixel network its views as the channels of one tensor."""

    def __init__(self, net: KPACNet) -> None:
        super().__init__()
        self.net = net

    def forward(self, views: Tensor) -> Tensor:
        """Deblur the mean of the views."""
        deblurred: Tensor = self.net(None, views.chunk(2, dim=1))
        return deblurred


NETWORKS = (
    Network("KPAC (2-level)"),
    Network("KPAC (3-level)"),
    Network("KPAC (dual)", views=2),
    Network("residual baseline"),
    Network("DPDNet (single)"),
    Network("DPDNet (dual)", views=2),
)


@dataclass(frozen=True)
class CostRow:
    """One network's cost, the paper's figures beside ours."""

    label: str
    parameters: int
    flops: int
    flops_paper_way: int
    """Without the transposed convolutions."""
    seconds: float
    cpu_seconds: float
    """Of all threads together: what a machine that is busy with other things makes less wrong."""
    peak: int
    """Bytes of the whole process at its peak."""
    forward: int
    """Bytes of that above the process with the network and its input loaded."""
    paper_parameters: float | None
    paper_flops: float | None
    paper_seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def cost_steps(size: tuple[int, int] = SIZE, repeats: int = 3) -> Steps[list[CostRow]]:
    """Measure every network, one after the other; yields after each."""
    printed = {row.label: row for row in (*paper.COMPARISON, *paper.ABLATION)}
    if min(size) < MULTIPLE or any(side % MULTIPLE for side in size):
        raise ConfigError(
            f"a size of {size[1]}x{size[0]}: both sides must be multiples of {MULTIPLE}"
        )
    if repeats < 1:
        raise ConfigError(f"repeats={repeats}: must be 1 or more")
    rows = []
    for done, network in enumerate(NETWORKS, start=1):
        flops = count_flops(network.make, network.shape(size))
        with torch.device("meta"):
            parameters = count_parameters(network.make())
        measured = _in_a_process(network, size, repeats)
        row = printed[network.label]
        rows.append(
            CostRow(
                network.label,
                parameters,
                flops.flops,
                flops.paper_flops,
                measured["seconds"],
                measured["cpu"],
                int(measured["peak"]),
                int(measured["peak"] - measured["before"]),
                row.parameters,
                row.flops,
                row.seconds,
            )
        )
        yield Progress(done, len(NETWORKS), network.label)
    return rows


def _in_a_process(network: Network, size: tuple[int, int], repeats: int) -> dict[str, float]:
    number = NETWORKS.index(network)
    call = [sys.executable, "-m", __name__, str(number), *map(str, size), str(repeats)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise DeviceError(
            f"measuring {network.label} failed ({last[0]}); it may need more memory than there "
            "is: choose a smaller size"
        )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


@torch.inference_mode()
def _main(arguments: Sequence[str]) -> None:
    """Run one network and print its time and peak memory."""
    number, height, width, repeats = map(int, arguments)
    network = NETWORKS[number]
    net = network.make().eval().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    noise = torch.rand(network.shape((height, width)))
    noise = noise.contiguous(memory_format=torch.channels_last)
    before = peak_memory_here()
    walls, processors = [], []
    with keeping_memory():
        for _ in range(repeats):
            wall, processor = time.perf_counter(), time.process_time()
            net(noise)
            walls.append(time.perf_counter() - wall)
            processors.append(time.process_time() - processor)
    measured = {"seconds": min(walls), "cpu": min(processors), "before": before}
    print(json.dumps({**measured, "peak": peak_memory_here()}))


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


if __name__ == "__main__":
    _main(sys.argv[1:])
