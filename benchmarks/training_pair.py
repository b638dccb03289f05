"""Compare the cost of making a training pair with that of a training step (3 levels).

    python benchmarks/training_pair.py --size 256 --layers 10

Prints milliseconds and, which is what travels between machines, their ratio. A step is
forward, mean absolute error and backward, without the optimiser.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

import napari_kpac as kpac
from napari_kpac.optics import radius_map, random_aperture
from napari_kpac.optics.synthesis import Noise, defocus_batch


def median_ms(action: Callable[[int], object], repeats: int) -> float:
    action(0)
    times = []
    for i in range(1, repeats + 1):
        start = time.perf_counter()
        action(i)
        times.append(time.perf_counter() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256, help="side of the crops (%(default)s)")
    parser.add_argument("--layers", type=int, default=10, help="layers a pair (%(default)s)")
    parser.add_argument("--batch", type=int, default=4, help="pairs made at once (%(default)s)")
    parser.add_argument("--repeats", type=int, default=7, help="measurements (%(default)s)")
    given = parser.parse_args()
    size = given.size

    rng = np.random.default_rng(0)
    sharp = torch.from_numpy(rng.uniform(size=(given.batch, 3, size, size)).astype(np.float32))

    def pairs(kind: str | None, count: int) -> Callable[[int], object]:
        def make(seed: int) -> object:
            own = np.random.default_rng(seed)
            maps = np.stack([radius_map((size, size), own, kind=kind) for _ in range(count)])
            apertures = [random_aperture(own) for _ in range(count)]
            noise = [Noise(1e-4, 1e-3)] * count
            return defocus_batch(sharp[:count], maps, apertures, layers=given.layers, noise=noise)

        return make

    net = kpac.build(kpac.KPACConfig(levels=3)).to(memory_format=torch.channels_last)

    def step(_: int) -> None:
        net.zero_grad(set_to_none=True)
        crop = sharp[:1].contiguous(memory_format=torch.channels_last)
        output = net(crop * 2 - 1)
        (output - crop).abs().mean().backward()

    cost = median_ms(step, given.repeats)
    print(f"{size}x{size}, {given.layers} layers, {torch.get_num_threads()} thread(s)")
    print(f"{'training step, batch 1':42s} {cost:8.1f} ms")
    for title, kind in (("smooth field, summed", "smooth"), ("objects, occluding", "objects")):
        for count in sorted({1, given.batch}):
            pair = median_ms(pairs(kind, count), given.repeats) / count
            name = f"pair, {title}, {count} at once"
            print(f"{name:42s} {pair:8.1f} ms  {pair / cost:6.1%} of a step")


if __name__ == "__main__":
    main()
