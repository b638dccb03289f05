"""Measure models as their cards report it: up to four evaluations, each in its own folder.

    python tools/measure_model.py kpac-3level run/best.safetensors --photos PHOTOS \
        --pairs REAL_PAIRS -o measured

``scenes``: the fixed benchmark, without noise and with 1 and 3 %, and what the sliders do.
``uniform``: crops of one radius, noise 0.3 %. ``microscopy``: the benchmark on the microscopy
images that come with scikit-image, each turned by 0, 90, 180 and 270 degrees. ``real``: real pairs
of the split val, gain and offset fitted. A call that was stopped goes on when it is made again.
``upsampling.json``: how well the blur map tells blur when images are enlarged 1, 2 and 4 times, on
the benchmark's first 12 photographs; with ``--only-upsampling``, that alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from skimage import data
from skimage.color import gray2rgb
from skimage.io import imsave

import napari_kpac as kpac
from napari_kpac.cli.common import print_tables, show
from napari_kpac.core.files import read_record, write_record
from napari_kpac.evaluation.attention import upsampling_steps
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.evaluation.methods import ModelMethod
from napari_kpac.evaluation.tables import tables_of

SCENES, UNIFORM, MICROSCOPY, REAL_PAIRS = "scenes", "uniform", "microscopy", "real"
MICROSCOPY_IMAGES = ("cell", "immunohistochemistry")
BENCHMARK_NOISE = (0.0, 1.0, 3.0)
UNIFORM_NOISE = (0.3,)
UPSAMPLING_RECORD = "upsampling.json"
UPSAMPLING_PHOTOS = 12


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the evaluations and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="+")
    parser.add_argument("--photos", type=Path, required=True, help="sharp photographs")
    parser.add_argument("--pairs", type=Path, help="real pairs; not for dual-pixel models")
    parser.add_argument("--method", action="append", default=[], help="a method without a network")
    parser.add_argument("--dual", action="store_true", help="the models are for dual-pixel pairs")
    parser.add_argument("--limit", type=int, help="use only the first photographs")
    parser.add_argument("--only-upsampling", action="store_true", help="see above")
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    for model in given.model:
        measure_upsampling(model, given.photos, given.output, given.limit or UPSAMPLING_PHOTOS)
    if given.only_upsampling:
        return
    for name, options in evaluations(given).items():
        found = show(kpac.evaluate(options, given.output / name), name, "result")
        print(f"\n# {name}")
        print_tables(tables_of(found))


def measure_upsampling(model: str, photos: Path, output: Path, limit: int) -> None:
    """Add the ROC AUC of a model's blur map, by upsampling, to the record in a folder."""
    record = output / UPSAMPLING_RECORD
    known = read_record(record) if record.exists() else {}
    method = ModelMethod(model)
    sha256 = method.settings["sha256"]
    if sha256 not in known:
        cases = SyntheticCases(photos, limit=limit, dual=method.config.views == 2)
        found = show(upsampling_steps(method, cases), "upsampling", "scene")
        known[sha256] = {str(factor): round(auc, 4) for factor, auc in found.roc_auc.items()}
        write_record(record, known)
    print(f"{model}, ROC AUC of the blur map by upsampling: {json.dumps(known[sha256])}")


def evaluations(given: argparse.Namespace) -> dict[str, kpac.EvaluateOptions]:
    """Return the options of every evaluation by the name of its folder."""
    common: dict[str, Any] = {
        "model": tuple(given.model), "method": tuple(given.method), "limit": given.limit,
    }  # fmt: skip
    made = {"kind": "synthetic", "dual": given.dual, **common}
    photos = str(given.photos)
    found = {
        SCENES: kpac.EvaluateOptions(root=photos, noise=BENCHMARK_NOISE, sliders=True, **made),
        UNIFORM: kpac.EvaluateOptions(root=photos, noise=UNIFORM_NOISE, blur="uniform", **made),
        MICROSCOPY: kpac.EvaluateOptions(root=str(write_microscopy(given.output)), **made),
    }
    if given.pairs is not None:
        found[REAL_PAIRS] = kpac.EvaluateOptions(
            kind="pairs", root=str(given.pairs), fit_exposure=True, **common
        )
    return found


def write_microscopy(folder: Path) -> Path:
    """Write the microscopy images that come with scikit-image; returns their folder."""
    images = folder / "microscopy-images"
    images.mkdir(parents=True, exist_ok=True)
    for name in MICROSCOPY_IMAGES:
        image = getattr(data, name)()
        colour = image if image.ndim == 3 else gray2rgb(image)
        for turns in range(4):
            turned = np.rot90(colour, turns)
            imsave(images / f"{name}-{90 * turns}.png", turned, check_contrast=False)
    return images


if __name__ == "__main__":
    main()
