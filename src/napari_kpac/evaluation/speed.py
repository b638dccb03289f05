"""Speed and memory, measured: ratios taken in one run on one machine.

Not for: quality, or anything that a test asserts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import psutil
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine import DeblurOptions, Modulation, Session, deblur, deblur_steps, devices
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.device import prepare_network
from napari_kpac.engine.memory import keeping_memory
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect
from napari_kpac.engine.plan import make_plan
from napari_kpac.engine.stages import Stages
from napari_kpac.network import KPACConfig, KPACNet, count_flops
from napari_kpac.training.options import TrainOptions, TrainPrecision
from napari_kpac.training.speed import pixels_per_second


def peak_memory_here() -> int:
    """Return the peak resident memory of this process in bytes."""
    status = Path("/proc/self/status")
    if status.exists():
        # The kernel's rusage would count the parent's memory too, as it was at the fork.
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        if found:
            return int(found[1]) * 1024
    try:
        import resource
    except ImportError:
        import psutil

        return int(psutil.Process().memory_info()._asdict()["peak_wset"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


class NaiveForward:
    """A plain forward pass with the weights of a network."""

    def __init__(self, net: KPACNet) -> None:
        self.config: KPACConfig = net.config
        self.w = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}

    @torch.no_grad()
    def __call__(self, image: Tensor) -> Tensor:
        """Deblur (1, 3, H, W) in [-1, 1]."""
        x, skips = image, []
        for level in range(self.config.levels + 1):
            if level:
                x = self._conv(F.pad(x, (0, 1, 0, 1)), f"encoder.levels.{level}.enter", stride=2)
            else:
                x = self._conv(x, "encoder.levels.0.enter", padding=2)
            x = self._conv(F.leaky_relu(x, 0.2), f"encoder.levels.{level}.refine", padding=1)
            x = F.leaky_relu(x, 0.2)
            skips.append(x)
        features = [skips.pop()]
        for block in range(self.config.blocks):
            features.append(self._block(f"blocks.{block}", features[-1]))
        x = F.leaky_relu(self._conv(torch.cat(features, 1), "decoder.gather", padding=1), 0.2)
        x = F.leaky_relu(self._conv(x, "decoder.refine", padding=1), 0.2)
        for level in range(self.config.levels):
            name, last = f"decoder.levels.{level}", level == self.config.levels - 1
            weight, bias = self.w[f"{name}.up.weight"], self.w[f"{name}.up.bias"]
            x = F.leaky_relu(F.conv_transpose2d(x, weight, bias, stride=2, padding=1), 0.2)
            merged = torch.cat((x, skips.pop()), 1)
            x = self._conv(merged, f"{name}.merge", padding=2 if last else 1)
            x = x if last else F.leaky_relu(x, 0.2)
        return image + x

    def _conv(self, x: Tensor, name: str, padding: int = 0, stride: int = 1) -> Tensor:
        weight, bias = self.w[f"{name}.weight"], self.w[f"{name}.bias"]
        return F.conv2d(x, weight, bias, padding=padding, stride=stride)

    def _block(self, name: str, x: Tensor) -> Tensor:
        a = x
        for layer in range(4):
            prefix = f"{name}.scale.hidden.{layer}"
            weight, bias = self.w[f"{prefix}.weight"], self.w[f"{prefix}.bias"]
            a = F.leaky_relu(F.conv2d(a, weight, bias, padding=4, dilation=2), 0.2)
        alpha = torch.sigmoid(self._conv(a, f"{name}.scale.head", padding=2))
        hidden = F.linear(
            x.mean((2, 3)),
            self.w[f"{name}.shape.squeeze.weight"],
            self.w[f"{name}.shape.squeeze.bias"],
        )
        beta = torch.sigmoid(
            F.linear(
                F.leaky_relu(hidden, 0.2),
                self.w[f"{name}.shape.expand.weight"],
                self.w[f"{name}.shape.expand.bias"],
            )
        )[:, :, None, None]
        kernel = self.w[f"{name}.atrous.0.weight"]
        weighted = []
        for i, d in enumerate(self.config.dilations):
            branch = F.leaky_relu(F.conv2d(x, kernel, padding=2 * d, dilation=d), 0.2)
            weighted.append(branch * alpha[:, i : i + 1] * beta)
        return F.leaky_relu(self._conv(torch.cat(weighted, 1), f"{name}.fusion", padding=1), 0.2)


SIZE = (720, 1280)
SLIDER_SIZE = (512, 512)
LARGE = (3000, 4000)
HUGE = (8664, 11544)
HUGE_BUDGET = 4_000_000_000
TRAINING_CROP_PX = 192
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Measure:
    """One line of the table."""

    name: str
    value: float
    unit: str
    must: str = ""
    aim: str = ""
    note: str = ""


def bench_steps(
    model: str = "default", *, repeats: int = 3, large: bool = False, huge: bool = False
) -> Steps[list[Measure]]:
    """Measure everything; ``large`` adds 12 megapixels, ``huge`` a 100-megapixel image."""
    net = prepare_network(model, CPU)
    found: list[Measure] = []
    total = repeats + (5 if large else 1) + (1 if huge else 0)
    done = 0

    def step(stage: str) -> Progress:
        nonlocal done
        done += 1
        return Progress(done, total, stage)

    jobs = _jobs(net)
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            best[name] = min(best[name], _timed(job, plain=name == "naive"))
        yield step("forward and sliders")
    found += _forward_measures(net, best)
    if large:
        per_megapixel = best["forward"] / (SIZE[0] * SIZE[1] / 1e6)
        for kept in (True, False):
            name = "skips kept" if kept else "skips recomputed"
            seconds = _tiled_seconds(net, kept)
            yield step(f"12 MP, {name}")
            peak = peak_memory(*LARGE, kept=kept)
            yield step(f"12 MP, {name}, memory")
            ratio = seconds / (LARGE[0] * LARGE[1] / 1e6) / per_megapixel
            found += [
                Measure(
                    f"12 MP tiled, {name}: time per MP against untiled",
                    ratio,
                    "x",
                    *(("<= 1.4", "1.2") if kept else ("<= 1.75", "1.4")),
                    note=f"{seconds:.1f} s",
                ),
                Measure(
                    f"12 MP tiled, {name}: peak memory of the process",
                    peak / 1e9,
                    "GB",
                    *(("", "") if kept else ("<= 2.0", "1.5")),
                ),
            ]
    if huge:
        peak = peak_memory(*HUGE, budget=HUGE_BUDGET)
        yield step("100 MP, memory")
        found.append(
            Measure("100 MP within a budget of 4 GB: peak memory", peak / 1e9, "GB", "<= 4", "3")
        )
    seconds = _richardson_lucy_seconds()
    found.append(
        Measure(
            "Richardson-Lucy (30 iterations, 15x15) at 720x1280 against our forward",
            seconds / best["forward"],
            "x",
            note=f"{seconds:.2f} s",
        )
    )
    yield step("Richardson-Lucy")
    return found


def training_steps(repeats: int = 3) -> Steps[list[Measure]]:
    """Measure how fast a CPU learns, against one process with all threads in float32."""
    cores = psutil.cpu_count(logical=False) or 1
    counts = {"one process with all threads": 1, f"{cores} processes of one thread": cores}
    ways = [
        (f"{how}, {precision}", count, precision)
        for precision in get_args(TrainPrecision)[:2]
        for how, count in counts.items()
    ]
    best = {name: 0.0 for name, *_ in ways}
    for done in range(repeats):
        for name, count, precision in ways:
            options = TrainOptions(batch=cores, crop=TRAINING_CROP_PX, precision=precision)
            rate = pixels_per_second(options, count, threads=1 if count > 1 else 0)
            best[name] = max(best[name], rate)
        yield Progress(done + 1, repeats, "learning")
    first = best[ways[0][0]]
    return [
        Measure(f"learning, {name}", rate / first, "x", note=f"{rate / 1e3:.0f} thousand px/s")
        for name, rate in best.items()
    ]


def check_devices(model: str = "default") -> list[Measure]:
    """Compare every device present, in both precisions, with the CPU in float32."""
    from skimage import data

    image = data.coffee().astype(np.float32) / 255
    expected = deblur(image, model, "cpu").image
    found = []
    for device in devices():
        for precision in ("float32", "mixed"):
            if device.name == "cpu" and precision == "mixed":
                continue
            actual = deblur(image, model, device.name, precision=precision).image
            error = float(np.mean((actual - expected) ** 2))
            psnr = float("inf") if error == 0 else -10 * np.log10(error)
            found.append(
                Measure(f"{device.name} ({device.label}), {precision}", psnr, "dB", "> 50")
            )
    return found


def peak_memory(
    height: int, width: int, *, kept: bool | None = None, budget: int | None = None
) -> int:
    """Peak resident memory in bytes of a fresh process that deblurs an image of that size."""
    call = [sys.executable, "-m", "napari_kpac.evaluation.speed", str(height), str(width)]
    call += [str(kept), str(budget)]
    done = subprocess.run(call, capture_output=True, text=True, check=True)  # noqa: S603
    return int(json.loads(done.stdout)["peak"])


def _jobs(net: KPACNet) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name; everything is warmed up once."""
    rng = np.random.default_rng(0)
    image = rng.random((*SIZE, 3), dtype=np.float32)
    small = rng.random((*SLIDER_SIZE, 3), dtype=np.float32)
    x = torch.from_numpy(image).permute(2, 0, 1)[None] * 2 - 1
    naive = NaiveForward(net)
    square = torch.rand(2048, 2048)
    session = Session(small, net, "cpu", range="unit")
    session.render()
    session.render(draft=True)
    turn = iter(range(10**9))

    def slide(block: int) -> object:
        gains = np.ones((net.config.blocks, len(net.config.dilations)))
        gains[block, 0] = 0.5 + next(turn) % 97 / 97
        return session.render(Modulation(gains=gains))

    def drag() -> object:
        gains = np.ones(len(net.config.dilations)) * (0.5 + next(turn) % 97 / 97)
        return session.render(Modulation(gains=gains), draft=True)

    return {
        "sgemm": lambda: square @ square,
        "naive": lambda: naive(x),
        "forward": lambda: _forward(net, image),
        "forward small": lambda: _forward(net, small),
        "slider 1": lambda: slide(0),
        "slider 2": lambda: slide(net.config.blocks - 1),
        "draft": drag,
    }


def _forward_measures(net: KPACNet, best: dict[str, float]) -> list[Measure]:
    rate = 2 * 2048**3 / best["sgemm"]
    flops = count_flops(lambda: KPACNet(net.config), (1, 3, *SIZE)).flops
    full = best["forward small"]
    return [
        Measure("sgemm rate", rate / 1e9, "GFLOPS"),
        Measure("naive eager forward at 720x1280", best["naive"], "s"),
        Measure("our forward at 720x1280", best["forward"], "s"),
        Measure("our forward against naive", best["naive"] / best["forward"], "x", ">= 2.5", "2.8"),
        Measure("our rate against sgemm", 100 * flops / best["forward"] / rate, "%", ">= 70", "88"),
        Measure("our forward at 512x512", full, "s"),
        Measure(
            "gain of block 1, share of that", 100 * best["slider 1"] / full, "%", "<= 43", "37"
        ),
        Measure(
            "gain of the last block, share of that",
            100 * best["slider 2"] / full,
            "%",
            "<= 32",
            "27",
        ),
        Measure("draft, share of that", 100 * best["draft"] / full, "%"),
    ]


def _timed(job: Callable[[], object], *, plain: bool) -> float:
    """Time the second of two calls, as in a batch; ``plain`` leaves the allocator alone."""
    with nullcontext() if plain else keeping_memory():
        job()
        start = time.perf_counter()
        job()
        return time.perf_counter() - start


def _forward(net: KPACNet, image: npt.NDArray[np.float32]) -> torch.Tensor:
    """Run the engine's stages on an image in one piece, without the way back to pixels."""
    reader = PlaneReader(image, None, PixelRange(0.0, 1.0, "unit"), net.config.multiple)
    plan = make_plan(reader.padded, net.config, halo=net.halos.encode, tile=None, budget=1)
    stages = Stages(net, reader, plan, CPU)
    for _ in stages.encode():
        pass
    entered, _, _ = Bottleneck(stages).run(None)
    return stages.decode(entered, Rect(0, plan.height, 0, plan.width))


def _tiled_seconds(net: KPACNet, kept: bool) -> float:
    image = _noise(*LARGE)
    start = time.perf_counter()
    _deblur_large(image, net, kept)
    return time.perf_counter() - start


def _deblur_large(image: npt.NDArray[np.uint8], net: KPACNet, kept: bool) -> None:
    """Deblur in tiles, keeping the halves of all skips or of none."""
    size = (LARGE[0], LARGE[1])
    tile = 1024 if kept else 640
    plan = make_plan(size, net.config, halo=net.halos.encode, tile=tile, budget=2 * 10**9)
    if not kept:
        plan = replace(plan, kept_skips=())
    finish(deblur_steps(image, DeblurOptions(device="cpu"), model=net, plan=plan))


def _noise(height: int, width: int) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def _richardson_lucy_seconds() -> float:
    from skimage.restoration import richardson_lucy

    image = np.random.default_rng(0).random((*SIZE, 3))
    psf = np.full((15, 15), 1 / 225)
    start = time.perf_counter()
    for channel in range(3):
        richardson_lucy(image[..., channel], psf, num_iter=30)
    return time.perf_counter() - start


def _main(arguments: Sequence[str]) -> None:
    """Deblur noise of a size and print the peak memory of this process."""
    height, width, kept, budget = arguments
    net = prepare_network("default", CPU)
    image = _noise(int(height), int(width))
    if kept != "None":
        _deblur_large(image, net, kept == "True")
    else:
        deblur(image, net, "cpu", memory=int(budget))
    print(json.dumps({"peak": peak_memory_here()}))


def as_dicts(measures: Sequence[Measure]) -> list[dict[str, Any]]:
    """Plain values, ready for JSON."""
    return [asdict(measure) for measure in measures]


if __name__ == "__main__":
    _main(sys.argv[1:])
