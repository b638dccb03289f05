"""Make a trained model one of those that ship with the package, its card filled in.

    python tools/bundle.py run/best.safetensors --name kpac-3level --photos PHOTOS \
        --summary report/summary.json --training "what it was trained with"

The figures come from the summary of ``napari-kpac evaluate --dataset synthetic -o report``, for
the same model; the licences from the photographs' MANIFEST.csv. Weights are stored as float16;
that this does not show is checked on pictures and printed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from skimage import data

import napari_kpac as kpac
from napari_kpac.files import replacing
from napari_kpac.weights import ModelCard, read_network, save_network, tensors_sha256
from napari_kpac.weights.catalogue import BUNDLED as FOLDER
from napari_kpac.weights.catalogue import SUMS

ENOUGH = 60.0
"""dB between results with the weights as stored and as trained."""
LIMITS = (
    "Trained on synthetic defocus of 0 to 12 px: blur of real lenses may differ, larger blur and"
    " bokeh with hard or swirling rims are beyond it. Alpha was tied to the radius of the blur by"
    " a small loss, which the paper does not have. These are not the authors' weights: bring"
    " those with 'napari-kpac models import'."
)


def main() -> None:
    """Read, check, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", default="1")
    parser.add_argument("--status", default="")
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--summary", type=Path, required=True)
    parser.add_argument("--training", default="", help="instead of what the run's card says")
    given = parser.parse_args()

    net = read_network(given.model)
    what = f"KPAC with {net.config.levels} levels and {net.config.blocks} blocks"
    views = "a dual-pixel pair" if net.config.views == 2 else "one picture"
    card = replace(
        net.card if isinstance(net.card, ModelCard) else ModelCard(name=given.name),
        name=given.name,
        version=given.version,
        status=given.status,
        summary=f"{what} for {views}, trained by the napari-kpac developers",
        licence="BSD-3-Clause",
        training_data=_data(given.photos),
        limits=LIMITS,
        figures=_figures(given.summary, tensors_sha256(net.state_dict())),
    )
    if given.training:
        card = replace(card, training=given.training)
    target = FOLDER / f"{given.name}.safetensors"
    save_network(net, target, card, dtype=torch.float16)
    with replacing(FOLDER / SUMS) as temporary:
        temporary.write_text(
            "".join(
                f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                for path in sorted(FOLDER.glob("*.safetensors"))
            ),
            encoding="ascii",
        )
    kept = min(_closeness(net, kpac.load(target)))
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB; as stored and as trained agree")
    print(f"to {kept:.1f} dB at least ({ENOUGH:g} dB are enough)")
    if kept < ENOUGH:
        raise SystemExit("float16 is too coarse for these weights")


def _data(photos: Path) -> str:
    """Say which photographs there are, and under which licences."""
    with (photos / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["split"] == "train"]
    licences = Counter(" ".join(row["licence"].split()) for row in rows)
    listed = "; ".join(f"{count} {licence}" for licence, count in licences.most_common())
    return f"synthetic defocus on {len(rows)} sharp photographs. Licences: {listed}"


def _figures(summary: Path, sha256: str) -> dict[str, float]:
    """Take the figures of the line that is about these very weights."""
    found = json.loads(summary.read_text())
    names = {
        name for name, how in found["settings"]["methods"].items() if how.get("sha256") == sha256
    }
    lines = [line for line in found["lines"] if line["method"] in names and line["noise"] == 0]
    if len(lines) != 1:
        raise SystemExit(f"{summary} has no line about this model: evaluate it first")
    (line,) = lines
    figures = {"benchmark gain 1-8 px (dB)": line["mean_gain"]}
    figures |= {
        f"benchmark gain {name.removeprefix('psnr ')} (dB)": gain
        for name, gain in line["gains"].items()
        if name != "psnr"
    }
    figures["sharp kept (dB)"] = line["means"]["sharp kept"]
    figures["alpha1 ROC AUC"] = line["separation"]["alpha1"]
    for side in ("above 6 px", "below 3 px"):
        name = f"cost of muting 4 and 5 {side}"
        figures[f"{name} (dB)"] = line["means"][name]
    return {name: round(value, 3) + 0.0 for name, value in figures.items()}


def _closeness(trained: kpac.KPACNet, stored: kpac.KPACNet) -> list[float]:
    """Give the PSNR between the results of two networks, for a few pictures."""
    found = []
    for picture in (data.chelsea(), data.coffee(), data.astronaut()):
        crop = picture[:256, :256].astype(np.float32) / 255
        views = (crop, crop) if trained.config.views == 2 else None
        one, other = (
            kpac.deblur(crop, model=net, views=views, range="unit", rgb=True).image
            for net in (trained, stored)
        )
        error = float(np.mean((one - other) ** 2))
        found.append(float("inf") if error == 0 else -10 * float(np.log10(error)))
    return found


if __name__ == "__main__":
    main()
