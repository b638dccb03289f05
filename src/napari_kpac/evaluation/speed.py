"""Speed and memory, measured: ratios taken in one run on one machine.

Not for: quality, parameters and FLOPs (reproduction.cost), or anything that a test asserts.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt
import psutil
import torch
from skimage.restoration import richardson_lucy
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import DeviceError
from napari_kpac.core.options import Precision
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine import DeblurOptions, Modulation, Session, deblur, deblur_steps, devices
from napari_kpac.engine.backend import Backend
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.device import prepare_network, resolve
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect
from napari_kpac.engine.precision import try_bfloat16
from napari_kpac.engine.stages import Stages
from napari_kpac.engine.tiling import make_plan
from napari_kpac.evaluation.machine import Ceilings, Shares, describe_machine, shares_of
from napari_kpac.evaluation.metrics import decibels
from napari_kpac.network import KPACConfig, KPACNet, count_flops
from napari_kpac.training.options import TrainOptions, TrainPrecision
from napari_kpac.training.processes import pixels_per_second

SIZE = (720, 1280)
"""Height and width of the image that most is measured on."""
SLIDER_SIZE = (512, 512)
LARGE_SIZE = (3000, 4000)
HUGE_SIZE = (8664, 11544)
HUGE_BUDGET_BYTES = 4_000_000_000
TRAINING_CROP_PX = 192
CPU = torch.device("cpu")
THREAD, WINDOW = "in a worker thread", "in a worker of the window"
"""Where else the same is measured: torch's threads and the allocator differ there."""

T = TypeVar("T")
Worker = Callable[[Callable[[], Any]], Any]
"""Calls a function elsewhere and returns what it returned."""


@dataclass(frozen=True)
class Measure:
    """One line of the table."""

    name: str
    value: float
    unit: str
    must: str = ""
    aim: str = ""
    note: str = ""


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
        return int(psutil.Process().memory_info()._asdict()["peak_wset"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak if sys.platform == "darwin" else peak * 1024)


class NaiveForward:
    """A plain forward pass with the weights of a network, to compare ours with."""

    def __init__(self, net: KPACNet) -> None:
        self.config: KPACConfig = net.config
        self.w = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}

    @torch.no_grad()
    def __call__(self, image: Tensor) -> Tensor:
        """Deblur (1, 3, H, W) in [-1, 1]."""
        x, skips = image, []
        for level in range(self.config.levels + 1):
            name = f"encoder.levels.{level}"
            if level:
                x = self._conv(F.pad(x, (0, 1, 0, 1)), f"{name}.enter", stride=2)
            else:
                x = self._conv(x, f"{name}.enter", padding=2)
            x = _lrelu(self._conv(_lrelu(x), f"{name}.refine", padding=1))
            skips.append(x)
        features = [skips.pop()]
        for block in range(self.config.blocks):
            features.append(self._block(f"blocks.{block}", features[-1]))
        x = _lrelu(self._conv(torch.cat(features, 1), "decoder.gather", padding=1))
        x = _lrelu(self._conv(x, "decoder.refine", padding=1))
        for level in range(self.config.levels):
            name, last = f"decoder.levels.{level}", level == self.config.levels - 1
            weight, bias = self.w[f"{name}.up.weight"], self.w[f"{name}.up.bias"]
            x = _lrelu(F.conv_transpose2d(x, weight, bias, stride=2, padding=1))
            merged = torch.cat((x, skips.pop()), 1)
            x = self._conv(merged, f"{name}.merge", padding=2 if last else 1)
            x = x if last else _lrelu(x)
        return image + x

    def _block(self, name: str, x: Tensor) -> Tensor:
        alpha = x
        for layer in range(4):
            hidden = self._conv(alpha, f"{name}.scale.hidden.{layer}", padding=4, dilation=2)
            alpha = _lrelu(hidden)
        alpha = torch.sigmoid(self._conv(alpha, f"{name}.scale.head", padding=2))
        squeezed = _lrelu(self._linear(x.mean((2, 3)), f"{name}.shape.squeeze"))
        beta = torch.sigmoid(self._linear(squeezed, f"{name}.shape.expand"))[:, :, None, None]
        kernel = self.w[f"{name}.atrous.0.weight"]
        weighted = []
        for i, d in enumerate(self.config.dilations):
            branch = _lrelu(F.conv2d(x, kernel, padding=2 * d, dilation=d))
            weighted.append(branch * alpha[:, i : i + 1] * beta)
        return _lrelu(self._conv(torch.cat(weighted, 1), f"{name}.fusion", padding=1))

    def _conv(self, x: Tensor, name: str, **how: int) -> Tensor:
        return F.conv2d(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"], **how)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        return F.linear(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])


def _lrelu(x: Tensor) -> Tensor:
    return F.leaky_relu(x, 0.2)


def bench_steps(
    model: str = "default",
    *,
    repeats: int = 3,
    large: bool = False,
    huge: bool = False,
    worker: Worker | None = None,
) -> Steps[list[Measure]]:
    """Measure everything.

    Parameters
    ----------
    model
        Name of the model.
    repeats
        Interleaved repetitions; the best of each counts.
    large, huge
        Also 12 megapixels, and 100.
    worker
        Runs a function in a worker of the window and returns what it returned; None: that row
        is left out.
    """
    net = prepare_network(model, CPU)
    found: list[Measure] = []
    total = repeats + (6 if large else 2) + (1 if huge else 0)
    done = count(1)
    jobs = _jobs(net, worker)
    best = dict.fromkeys(jobs, float("inf"))
    for _ in range(repeats):
        for name, job in jobs.items():
            best[name] = min(best[name], _timed(job))
        yield Progress(next(done), total, "forward and sliders")
    found += _forward_measures(net, best)
    found += _share_measures(shares_of(jobs["forward"]))
    yield Progress(next(done), total, "shares of the time")
    if large:
        per_megapixel = best["forward"] / (SIZE[0] * SIZE[1] / 1e6)
        for kept in (True, False):
            name = "skips kept" if kept else "skips recomputed"
            tiled = partial(_deblur_large, _noise(*LARGE_SIZE), net, kept)
            seconds = _seconds(tiled)
            if kept:
                found += _large_measures(net, best, seconds, tiled, worker)
            yield Progress(next(done), total, f"12 MP, {name}")
            peak = peak_memory(*LARGE_SIZE, kept=kept)
            yield Progress(next(done), total, f"12 MP, {name}, memory")
            ratio = seconds / (LARGE_SIZE[0] * LARGE_SIZE[1] / 1e6) / per_megapixel
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
        peak = peak_memory(*HUGE_SIZE, budget=HUGE_BUDGET_BYTES)
        yield Progress(next(done), total, "100 MP, memory")
        found.append(
            Measure("100 MP within a budget of 4 GB: peak memory", peak / 1e9, "GB", "<= 4", "3")
        )
    noise = np.random.default_rng(0).random((*SIZE, 3))
    seconds = _seconds(partial(_richardson_lucy, noise))
    found.append(
        Measure(
            "Richardson-Lucy (30 iterations, 15x15) at 720x1280 against our forward",
            seconds / best["forward"],
            "x",
            note=f"{seconds:.2f} s",
        )
    )
    yield Progress(next(done), total, "Richardson-Lucy")
    return found


def training_steps(repeats: int = 3) -> Steps[list[Measure]]:
    """Measure how fast a CPU learns, against one process with all threads in float32."""
    cores = psutil.cpu_count(logical=False) or 1
    counts = {"one process with all threads": 1, f"{cores} processes of one thread": cores}
    ways = [
        (f"{how}, {precision}", processes, precision)
        for precision in get_args(TrainPrecision)[:2]
        if precision == "float32" or not try_bfloat16("train").reason
        for how, processes in counts.items()
    ]
    best = {name: 0.0 for name, *_ in ways}
    for done in range(repeats):
        for name, processes, precision in ways:
            options = TrainOptions(
                batch_size=cores, crop_size=TRAINING_CROP_PX, precision=precision
            )
            rate = pixels_per_second(options, processes, threads=1 if processes > 1 else 0)
            best[name] = max(best[name], rate)
        yield Progress(done + 1, repeats, "learning")
    first = best[ways[0][0]]
    return [
        Measure(f"learning, {name}", rate / first, "x", note=f"{rate / 1e3:.0f} thousand px/s")
        for name, rate in best.items()
    ]


def device_steps(device: str, model: str = "default", *, repeats: int = 3) -> Steps[list[Measure]]:
    """Measure deblurring and sliders on one device, in both precisions where it has both."""
    image = _noise(*SIZE)
    chosen = resolve(device)
    has_half = Backend(chosen, mixed=True).half is not None
    precisions: list[Precision] = ["float32", "mixed"] if has_half else ["float32"]
    found = []
    for number, precision in enumerate(precisions):
        options = DeblurOptions(model=model, device=str(chosen), precision=precision)
        session = Session(image, options=options)
        turn = count()

        def slide(session: Session = session, turn: Iterator[int] = turn) -> object:
            gains = np.ones(len(session.config.dilations)) * (0.5 + next(turn) % 97 / 97)
            return session.render(Modulation(gains=gains))

        jobs: dict[str, Callable[[], object]] = {
            "deblurring": partial(deblur, image, options=options),
            "a moved gain": slide,
        }
        session.render()
        for name, job in jobs.items():
            seconds = min(_timed(job) for _ in range(repeats))
            found.append(Measure(f"{name} at 720x1280 on {chosen}, {precision}", seconds, "s"))
        session.close()
        yield Progress(number + 1, len(precisions), precision)
    return found


def check_devices(model: str = "default") -> list[Measure]:
    """Compare every device present, in both precisions, with the CPU in float32."""
    from skimage import data

    image = data.coffee().astype(np.float32) / 255
    expected = deblur(image, model, "cpu").image
    found = []
    for device in devices():
        for precision in ("float32", "mixed"):
            if precision == "mixed" and Backend(torch.device(device.name), mixed=True).half is None:
                continue
            actual = deblur(image, model, device.name, precision=precision).image
            psnr = decibels(float(np.mean((actual - expected) ** 2)))
            found.append(
                Measure(f"{device.name} ({device.label}), {precision}", psnr, "dB", "> 50")
            )
    return found


def peak_memory(
    height: int, width: int, *, kept: bool | None = None, budget: int | None = None
) -> int:
    """Return the peak memory in bytes of a fresh process that deblurs an image of that size."""
    what = f"the memory for {width}x{height}"
    measured = run_process(what, "napari_kpac.evaluation.speed", height, width, kept, budget)
    return int(measured["peak"])


def run_process(what: str, module: str, *arguments: object) -> dict[str, float]:
    """Run a module in a fresh process and return the numbers that it prints as JSON."""
    call = [sys.executable, "-m", module, *map(str, arguments)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise DeviceError(
            f"measuring {what} failed ({last[0]}); it may need more memory than there "
            "is: choose a smaller size"
        )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def _jobs(net: KPACNet, worker: Worker | None) -> dict[str, Callable[[], object]]:
    """Return what is timed, by name."""
    rng = np.random.default_rng(0)
    image = rng.random((*SIZE, 3), dtype=np.float32)
    small = rng.random((*SLIDER_SIZE, 3), dtype=np.float32)
    x = torch.from_numpy(image).permute(2, 0, 1)[None] * 2 - 1
    naive = NaiveForward(net)
    ceilings = Ceilings()
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

    def elsewhere(run: Worker, name: str) -> dict[str, Callable[[], object]]:
        return {
            f"forward, {name}": lambda: run(lambda: _forward(net, image)),
            f"forward small, {name}": lambda: run(lambda: _forward(net, small)),
        }

    return {
        "sgemm": ceilings.multiply,
        "convolution": ceilings.convolve,
        "naive": lambda: naive(x),
        "forward": lambda: _forward(net, image),
        "forward small": lambda: _forward(net, small),
        **elsewhere(_in_thread, THREAD),
        **({} if worker is None else elsewhere(worker, WINDOW)),
        "slider 1": lambda: slide(0),
        "slider 2": lambda: slide(net.config.blocks - 1),
        "draft": drag,
    }


def _forward_measures(net: KPACNet, best: dict[str, float]) -> list[Measure]:
    rate = Ceilings.multiply_flops / best["sgemm"]
    flops = _flops(net, SIZE)
    full = best["forward small"]
    return [
        Measure("sgemm rate", rate / 1e9, "GFLOPS", note=str(describe_machine())),
        Measure(
            "rate of a 48-channel 3x3 convolution at 720x1280 (the ceiling)",
            _ceiling(best) / 1e9,
            "GFLOPS",
        ),
        Measure("naive eager forward at 720x1280", best["naive"], "s"),
        Measure("our forward at 720x1280", best["forward"], "s"),
        Measure("our forward against naive", best["naive"] / best["forward"], "x"),
        Measure("our rate against sgemm", 100 * flops / best["forward"] / rate, "%"),
        *(
            _of_ceiling(net, best, size, best[name], f"at {size[0]}x{size[1]}{where}")
            for size, job in ((SLIDER_SIZE, "forward small"), (SIZE, "forward"))
            for where in ("", f", {THREAD}", f", {WINDOW}")
            if (name := job + where) in best
        ),
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


def _flops(net: KPACNet, size: tuple[int, int]) -> int:
    return count_flops(lambda: KPACNet(net.config), (1, 3, *size)).flops


def _ceiling(best: dict[str, float]) -> float:
    """Return the operations per second that a convolution of the network's width reaches."""
    return Ceilings.convolve_flops / best["convolution"]


def _of_ceiling(
    net: KPACNet, best: dict[str, float], size: tuple[int, int], seconds: float, where: str
) -> Measure:
    """Compare a forward pass with the time that its layers would take at the ceiling's rate."""
    share = 100 * _flops(net, size) / seconds / _ceiling(best)
    return Measure(
        f"our rate {where}, of the ceiling", share, "%", ">= 85", note=f"{seconds:.2f} s"
    )


def _large_measures(
    net: KPACNet,
    best: dict[str, float],
    seconds: float,
    tiled: Callable[[], object],
    worker: Worker | None,
) -> list[Measure]:
    """Compare 12 megapixels in tiles with the ceiling, here and in a worker."""
    name, run = (THREAD, _in_thread) if worker is None else (WINDOW, worker)
    rows = {"": seconds, f", {name}": run(lambda: _seconds(tiled))}
    return [
        _of_ceiling(net, best, LARGE_SIZE, taken, f"at 12 MP tiled{where}")
        for where, taken in rows.items()
    ]


def _share_measures(shares: Shares) -> list[Measure]:
    return [
        Measure("share of convolutions in our forward at 720x1280", shares.convolutions, "%"),
        Measure("share of passes over memory", shares.passes, "%"),
        Measure("share of the rest", shares.rest, "%"),
    ]


def _in_thread(function: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(function).result()


def _timed(job: Callable[[], object]) -> float:
    """Time the second of two calls, as in a batch."""
    job()
    return _seconds(job)


def _seconds(job: Callable[[], object]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def _forward(net: KPACNet, image: npt.NDArray[np.float32]) -> torch.Tensor:
    """Run the engine's stages on an image in one piece, without the way back to pixels."""
    reader = PlaneReader(image, None, PixelRange(0.0, 1.0, "unit"), net.config.multiple)
    plan = make_plan(reader.padded, net.config, halo=net.halos.encode, tile=None, budget=1)
    stages = Stages(net, reader, plan, Backend(CPU))
    finish(stages.encode())
    entered, _, _ = finish(Bottleneck(stages).run(None))
    return finish(stages.decode(entered, Rect(0, plan.height, 0, plan.width)))


def _deblur_large(image: npt.NDArray[np.uint8], net: KPACNet, kept: bool) -> None:
    """Deblur in tiles, keeping the halves of all skips or of none."""
    tile = 1024 if kept else 640
    plan = make_plan(LARGE_SIZE, net.config, halo=net.halos.encode, tile=tile, budget=2 * 10**9)
    if not kept:
        plan = replace(plan, kept_skips=())
    finish(deblur_steps(image, DeblurOptions(device="cpu"), model=net, plan=plan))


def _noise(height: int, width: int) -> npt.NDArray[np.uint8]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def _richardson_lucy(image: npt.NDArray[np.float64]) -> None:
    psf = np.full((15, 15), 1 / 225)
    for channel in range(3):
        richardson_lucy(image[..., channel], psf, num_iter=30)


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


if __name__ == "__main__":
    _main(sys.argv[1:])
