"""Measure what giving out tasks to a cluster costs, with a stub in place of the computation.

    python benchmarks/cluster.py
    python benchmarks/cluster.py --planes 10000 --workers 1
    python benchmarks/cluster.py --rate --workers 2
    python benchmarks/cluster.py --plan --planes 10000

A stack of so many planes is given out to local workers, which do nothing; only the record is
kept as always. As many tasks are out at a time as for a worker of 32 threads. Prints the time until
the first plane is done, the time per task, and the memory of the process that gives the tasks out:
after a tenth of the planes, and at its peak.

``--rate`` measures real work instead: a stack of planes of one megapixel from Zarr to Zarr, with as
many workers as there are cores and one thread each; prints megapixels per second and core.
``--plan`` only waits for the first plane of such a stack, which is empty otherwise.
"""

# ruff: noqa: ARG002, D102 - a stub has little to say

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from napari_kpac.batch import client
from napari_kpac.batch.executor import run_steps
from napari_kpac.batch.files import FileAction, FileInfo, OpenFile, Output, SharedOutput
from napari_kpac.batch.inputs import Item
from napari_kpac.batch.options import BatchOptions
from napari_kpac.batch.record import PlaneRecord
from napari_kpac.batch.report import Outcome
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress
from napari_kpac.images import Metadata


@dataclass(frozen=True, eq=False, kw_only=True)
class Nothing(FileAction):
    """Opens a stack that is not there, and computes nothing."""

    planes: int

    def find_result(self, item: Item) -> Path | None:
        return None

    def has_same_settings(self, record: Any) -> bool:
        return False

    def open(self, item: Item, pixel_range: Any = None) -> OpenFile:
        shape = (self.planes, 1024, 1024)
        return OpenFile(FileInfo(shape, np.dtype(np.uint8), Metadata(), self.planes, 1), None)

    def load(self, file: OpenFile, plane: int) -> Any:
        return None

    def compute(self, file: OpenFile, plane: int, loaded: Any, pixels: Any = None) -> Any:
        raise NotImplementedError

    def output(self, item: Item, info: FileInfo) -> Output:
        raise NotImplementedError

    def shared_output(self, item: Item, info: FileInfo) -> SharedOutput:
        return NoOutput(item)

    def write_plane(self, file: OpenFile, plane: int, loaded: Any, region: Any) -> Any:
        yield Progress(1, 1, "nothing")
        return {"device": "none"}


class NoOutput(SharedOutput):
    """Keeps the record, as a Zarr image does."""

    def __init__(self, item: Item) -> None:
        self.item = item
        self.record = PlaneRecord(item.target / ".napari-kpac", {})

    def begin(self) -> str:
        self.record.begin()
        return "nowhere"

    def finish(self) -> Outcome:
        self.record.flush()
        return Outcome(self.item, "made", (self.item.target,))


def measure_rate(given: argparse.Namespace) -> None:
    import zarr

    import napari_kpac as kpac

    planes = 6 * given.workers
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.zarr", Path(folder) / "out.zarr"
        shape = (planes, 1000, 1000)
        stack = zarr.create_array(str(source), shape=shape, dtype="uint8", chunks=(1, 500, 500))
        stack[:] = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        batch = BatchOptions(workers=given.workers, threads=1, record=f"{folder}/record.jsonl")
        start = time.perf_counter()
        steps = kpac.deblur_files([source], target, DeblurOptions(model=given.model), batch=batch)
        times = [time.perf_counter() for _ in steps]
        lines = Path(f"{folder}/record.jsonl").read_text("utf-8").splitlines()
    seconds = sorted(each["seconds"] for each in map(json.loads, lines) if "plane" in each)
    middle = seconds[len(seconds) // 2]
    print(f"{planes} planes of 1 MP, {given.workers} worker(s) of one thread, {given.model}")
    print(f"first plane after   {times[0] - start:8.2f} s")
    print(f"a plane in a worker {middle:8.2f} s (median; {seconds[0]:.2f} to {seconds[-1]:.2f})")
    print(f"per core            {1 / middle:8.3f} MP/s, reading and writing included")


def measure_plan(given: argparse.Namespace) -> None:
    import zarr

    import napari_kpac as kpac

    with tempfile.TemporaryDirectory() as folder:
        shape = (given.planes, 1000, 1000)
        source = f"{folder}/in.zarr"
        zarr.create_array(source, shape=shape, dtype="uint8", chunks=(1, 500, 500))
        batch = BatchOptions(workers=given.workers, threads=1)
        options = DeblurOptions(model=given.model)
        kpac.load(given.model)
        before, start = psutil.Process().memory_info().rss, time.perf_counter()
        steps = kpac.deblur_files([source], f"{folder}/out.zarr", options, batch=batch)
        next(steps)
        seconds, after = time.perf_counter() - start, psutil.Process().memory_info().rss
        steps.close()
    print(f"{given.planes} planes of 1 MP: the first is done after {seconds:.1f} s")
    print(f"memory of the process that gives tasks out: {(after - before) / 1e6:+.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--planes", type=int, default=100_000, help="tasks (%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument(
        "--in-flight", type=int, default=64, help="tasks out at a time per worker (%(default)s)"
    )
    parser.add_argument("--plan", action="store_true", help="measure until the first plane")
    parser.add_argument("--rate", action="store_true", help="measure real work")
    parser.add_argument("--model", default="default", help="for real work (%(default)s)")
    given = parser.parse_args()
    if given.plan:
        measure_plan(given)
        return
    if given.rate:
        measure_rate(given)
        return
    # Two for each thread, as always: so many threads a worker stands for.
    client.TASKS_PER_THREAD = given.in_flight
    here = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        item = Item(Path(folder) / "stack.zarr", Path(folder) / "result.zarr")
        item.source.mkdir()
        action = Nothing(options=DeblurOptions(memory="1 GB"), planes=given.planes)
        start = time.perf_counter()
        steps = run_steps([item], action, BatchOptions(workers=given.workers, threads=1))
        first = tenth = seen = 0
        memory = 0
        for seen, _ in enumerate(steps, start=1):
            if seen == 1:
                first = time.perf_counter()
            if seen == given.planes // 10:
                tenth, memory = time.perf_counter(), here.memory_info().rss
        end = time.perf_counter()
        record = sum(path.stat().st_size for path in Path(folder).rglob("*.jsonl"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )
    tasks = given.planes - given.planes // 10
    print(f"{seen} planes, {given.workers} worker(s), {given.in_flight} tasks out at a time")
    print(f"first plane after   {first - start:8.2f} s, processes started and planned")
    print(f"time per task       {(end - tenth) / tasks * 1e3:8.3f} ms")
    print(f"memory after 10 %   {memory / 1e6:8.1f} MB")
    print(f"peak memory         {peak / 1e6:8.1f} MB")
    print(f"record              {record / 1e6:8.1f} MB")


if __name__ == "__main__":
    main()
