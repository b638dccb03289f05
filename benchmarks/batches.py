"""Measure what overlapping and workers gain in a batch, and the memory of large images.

    python benchmarks/batches.py
    python benchmarks/batches.py --images 6 --size 480x640 --megapixels 1,4 --memory "1 GB"

Prints images per second one by one, overlapping and with two local workers, as ratios (which
is what travels between machines), then how much memory a fresh process took per size, beyond
what it held before the work (Python, torch, the model), against the budget it was given. Rates
count from the first results on, so that starting up does not count.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

import napari_kpac as kpac
from napari_kpac.core.options import parse_memory


def write_images(folder: Path, count: int, height: int, width: int) -> None:
    """Write noise on a gradient as JPEG: neither trivial to decode nor unlike a photograph."""
    folder.mkdir()
    rows, columns = np.mgrid[:height, :width]
    base = np.stack([rows * 255 / height, columns * 255 / width, (rows + columns) % 256], axis=-1)
    for n in range(count):
        noise = np.random.default_rng(n).normal(0, 20, base.shape)
        pixels = np.clip(base + noise, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{n:04}.jpg", quality=95)


def rate(folder: Path, out: Path, model: str, batch: kpac.BatchOptions) -> float:
    """Images per second, once every process has had its first."""
    times = []
    steps = kpac.deblur_files([folder], out, kpac.DeblurOptions(model=model), batch=batch)
    while True:
        try:
            progress = next(steps)
        except StopIteration as stop:
            report = stop.value
            break
        if progress.note:
            times.append(time.perf_counter())
    if report.failed:
        raise SystemExit(report.failed[0].problem)
    times = times[max(1, batch.workers or 1) - 1 :]
    return (len(times) - 1) / (times[-1] - times[0])


def measure_rates(given: argparse.Namespace) -> None:
    height, width = (int(side) for side in given.size.split("x"))
    ways = {
        "one by one": kpac.BatchOptions(overlap=False, to=".png"),
        "overlapping": kpac.BatchOptions(to=".png"),
        f"{given.workers} workers": kpac.BatchOptions(workers=given.workers, to=".png"),
    }
    best = dict.fromkeys(ways, 0.0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "in"
        write_images(folder, given.images, height, width)
        for turn in range(given.repeats):
            for number, (name, batch) in enumerate(ways.items()):
                out = Path(scratch) / f"out-{turn}-{number}"
                best[name] = max(best[name], rate(folder, out, given.model, batch))
    print(f"{given.images} JPEG files of {height}x{width} to PNG, best of {given.repeats}")
    for name, value in best.items():
        print(f"{name:14s} {value:8.3f} images/s {value / best['one by one']:6.2f} x")


def measure_memory(given: argparse.Namespace) -> None:
    budget = parse_memory(given.memory, 0)
    print(f"\npeak memory beyond that of the idle process, budget {budget / 1e9:.2f} GB")
    for megapixels in (float(text) for text in given.megapixels.split(",")):
        height = round((megapixels * 1e6 * 3 / 4) ** 0.5)
        width = round(height * 4 / 3)
        for suffix in given.formats.split(","):
            with tempfile.TemporaryDirectory() as scratch:
                source = Path(scratch) / f"in.{suffix}"
                write_large(source, height, width)
                call = [sys.executable, __file__, "--child", str(source), "--memory", str(budget)]
                call += ["--model", given.model]
                start = time.perf_counter()
                done = subprocess.run(call, capture_output=True, text=True, check=False)
                if done.returncode:
                    raise SystemExit(done.stderr)
                seconds = time.perf_counter() - start
                memory = json.loads(done.stdout.splitlines()[-1])
            taken = memory["peak"] - memory["idle"]
            print(
                f"{megapixels:6.1f} MP {suffix:5s} {taken / 1e9:6.2f} GB "
                f"{taken / budget:6.0%} of the budget {seconds:8.1f} s "
                f"(idle: {memory['idle'] / 1e9:.2f} GB)"
            )


def write_large(path: Path, height: int, width: int) -> None:
    """Write a large 8-bit image row by row, so that this process stays small."""
    rng = np.random.default_rng(0)
    band = 256
    if path.suffix == ".zarr":
        import zarr

        shape = (height, width, 3)
        array = zarr.create_array(str(path), shape=shape, dtype="uint8", chunks=(512, 512, 3))
        for top in range(0, height, 512):
            rows = min(512, height - top)
            array[top : top + rows] = rng.integers(0, 256, (rows, width, 3), dtype=np.uint8)
        return
    if path.suffix in (".jpg", ".png"):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
        return
    tifffile.imwrite(path, shape=(height, width, 3), dtype=np.uint8, photometric="rgb")
    pixels = tifffile.memmap(path)
    for top in range(0, height, band):
        rows = min(band, height - top)
        pixels[top : top + rows] = rng.integers(0, 256, (rows, width, 3), dtype=np.uint8)
    pixels.flush()


def child(given: argparse.Namespace) -> None:
    """Deblur one file as the terminal does and print the memory of this process."""
    from napari_kpac.cli import main
    from napari_kpac.evaluation.speed import peak_memory_here

    source = Path(given.child)
    kpac.load(given.model)
    idle = peak_memory_here()
    call = ["deblur", str(source), "-o", str(source.with_name(f"out{source.suffix}"))]
    code = main([*call, "--memory", given.memory, "--model", given.model])
    print(json.dumps({"idle": idle, "peak": peak_memory_here()}))
    sys.exit(code)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="default", help="model to measure (%(default)s)")
    parser.add_argument(
        "--images", "--pictures", type=int, default=16, help="of a batch (%(default)s)"
    )
    parser.add_argument("--size", default="720x1280", help="of an image (%(default)s)")
    parser.add_argument("--workers", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--repeats", type=int, default=2, help="best counts (%(default)s)")
    parser.add_argument("--megapixels", default="12,48,100", help="sizes (%(default)s)")
    parser.add_argument("--formats", default="tif,zarr,jpg", help="of those (%(default)s)")
    parser.add_argument("--memory", default="4 GB", help="budget for those (%(default)s)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given)
        return
    if given.images > 1:
        measure_rates(given)
    if given.megapixels:
        measure_memory(given)


if __name__ == "__main__":
    main()
