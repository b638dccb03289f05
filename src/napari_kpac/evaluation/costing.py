"""What the paper's networks cost on this machine: parameters, FLOPs, time, peak memory.

Each network is measured in a process of its own, untrained, on noise: neither changes the
cost. All run in the same way, plain torch in the channels-last layout; how much faster the
engine runs KPAC, ``bench`` tells. Not for: quality.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from napari_kpac.core.errors import ConfigError, DeviceError
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine.allocator import keeping_memory
from napari_kpac.evaluation import paper
from napari_kpac.evaluation.memory import peak_memory_here
from napari_kpac.network import (
    DPDNet,
    KPACConfig,
    KPACNet,
    ResidualNet,
    count_flops,
    count_parameters,
)

SIZE = (720, 1280)
MULTIPLE = 16
"""Sides that every network takes are multiples of this."""


@dataclass(frozen=True)
class Network:
    """A network of the paper's tables."""

    label: str
    views: int = 1
    """Pictures that go in."""

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


if __name__ == "__main__":
    _main(sys.argv[1:])
