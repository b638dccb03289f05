"""Find the settings with which the classical methods gain most on the benchmark.

    python tools/tune_methods.py --photos PHOTOS --limit 12

Every setting of a grid is tried on the photographs of the split train, so that the split val can
compare methods fairly. Prints the gain of each from 1 to 8 px, best first; the winners stand in
``evaluation/methods.py`` (``SETTINGS``) and ``optics/deconvolution.py`` (``TwoStepOptions``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from napari_kpac import EvaluateOptions
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.methods import classical_method
from napari_kpac.evaluation.metrics import GAIN_BINS, inside, psnr
from napari_kpac.optics import defocus_map, two_step
from napari_kpac.optics.deconvolution import TwoStepOptions, fitting_blur

GRID: dict[str, dict[str, Sequence[Any]]] = {
    "unsharp": {"radius": (1.0, 1.5, 2.0, 3.0, 5.0), "amount": (0.125, 0.25, 0.5, 1.0)},
    "wiener": {"balance": (0.03, 0.1, 0.3, 1.0), "aperture": ("gaussian", "disc")},
    "richardson-lucy": {"iterations": (3, 6, 10, 20), "aperture": ("gaussian", "disc")},
    "two-step": {"weight": (100.0, 300.0, 1000.0, 3000.0), "aperture": ("gaussian", "disc")},
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Try every setting on every case and print the gains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=Path, required=True, help="sharp photographs")
    parser.add_argument("--limit", type=int, default=12, help="use only the first photographs")
    parser.add_argument("--split", default="train", help="which of the photographs")
    given = parser.parse_args(arguments)
    cases = SyntheticCases(given.photos, given.split, limit=given.limit)
    gains: dict[str, dict[tuple[Any, ...], list[list[float]]]] = {name: {} for name in GRID}
    for index in range(len(cases)):
        pair = cases[index]
        for name, values, restored in restorations(pair):
            gains[name].setdefault(values, []).append(gains_by_bin(pair, restored))
        print(f"{index + 1} of {len(cases)} cases", flush=True)
    for name, found in gains.items():
        print(f"\n{name}: {', '.join(GRID[name])}; gain at 1-2, 2-4, 4-8 px, and their mean (dB)")
        means = {values: np.nanmean(rows, axis=0) for values, rows in found.items()}
        for values, mean in sorted(means.items(), key=lambda item: -item[1].mean()):
            print(*values, *(f"{gain:.2f}" for gain in mean), f"{mean.mean():.3f}")


def restorations(pair: Pair) -> Iterator[tuple[str, tuple[Any, ...], Floats]]:
    """Restore a case with every setting of every method."""
    sigma = fitting_blur(defocus_map(pair.blurred).sigma)
    for name, grid in GRID.items():
        for values in product(*grid.values()):
            yield name, values, restored(name, dict(zip(grid, values, strict=True)), pair, sigma)


def restored(name: str, settings: Mapping[str, Any], pair: Pair, sigma: Floats) -> Floats:
    """Restore a case with one setting of one method."""
    if name == "two-step":
        return two_step(pair.blurred, TwoStepOptions(**settings), sigma=sigma).image
    options = EvaluateOptions(root="unused")
    return classical_method(name, options, settings).restore(pair.blurred, None)  # type: ignore[arg-type]


def gains_by_bin(pair: Pair, result: Floats) -> list[float]:
    """Return the PSNR above the blurred image's in each bin, NaN where there is none."""
    assert pair.radius is not None
    masks = [inside(pair.radius, *where) for where in GAIN_BINS]
    return [
        np.nan
        if mask is None
        else psnr(result, pair.sharp, mask) - psnr(pair.blurred, pair.sharp, mask)
        for mask in masks
    ]


if __name__ == "__main__":
    main()
