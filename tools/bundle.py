"""Add a trained model, with its card, to those that ship with the package.

    python tools/measure_model.py run/best.safetensors --photos PHOTOS --pairs PAIRS -o measured
    python tools/bundle.py run/best.safetensors --name kpac-3level --photos PHOTOS MORE_PHOTOS \
        --pairs PAIRS --measured measured --training "what it was trained with"

    python tools/bundle.py kpac-3level --name kpac-3level --measured measured --settings-only

The last one writes the settings that were measured into the card of a model that is bundled
already, and leaves its weights as they are.

The figures come from the first command, for the same model; the licences from the MANIFEST.csv of
each folder. Weights are stored as float16; that this does not show is checked on images and
printed.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure_model import MICROSCOPY, REAL_PAIRS, SCENES, UNIFORM, UPSAMPLING_RECORD
from skimage import data

import napari_kpac as kpac
from napari_kpac.core.files import read_record, replacing
from napari_kpac.core.sliders import dilations_of
from napari_kpac.datasets.matching import MANIFEST
from napari_kpac.evaluation.attention import UpsamplingResult, muting_columns
from napari_kpac.evaluation.report import SUMMARY
from napari_kpac.evaluation.sliders import slider_columns
from napari_kpac.weights import ModelCard, read_network, save_network
from napari_kpac.weights.catalogue import BUNDLED as FOLDER
from napari_kpac.weights.catalogue import SUMS
from napari_kpac.weights.store import UPSAMPLING

MIN_PSNR_DB = 60.0
"""Between results with the weights as stored and as trained."""
LIMITS = (
    "Trained on {data}: blur of other lenses may differ, larger blur and bokeh with hard or"
    " swirling rims are beyond it. Alpha was tied to the radius of the blur by a small loss, and in"
    " a share of the crops multiplied by random gains, as the sliders do, with a target that is"
    " deblurred that much less; the paper has neither. These are not the authors' weights: bring"
    " those with 'napari-kpac models import'."
)
SYNTHETIC = "synthetic defocus of 0 to 20 px"
REAL = "real pairs of mild blur"


def main(arguments: Sequence[str] | None = None) -> None:
    """Fill in the card and write the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--version", default="1")
    parser.add_argument("--status", default="")
    folders: dict[str, Any] = {"type": Path, "nargs": "+", "action": "extend", "metavar": "DIR"}
    parser.add_argument("--photos", default=[], help="sharp photographs", **folders)
    parser.add_argument("--pairs", default=[], help="real pairs", **folders)
    parser.add_argument("--measured", type=Path, required=True, help="folder of measure_model.py")
    parser.add_argument("--training", default="", help="instead of what the run's card says")
    parser.add_argument(
        "--settings-only",
        action="store_true",
        help="only write the settings that were measured into the card of a bundled model",
    )
    given = parser.parse_args(arguments)
    if given.settings_only:
        _store_settings(FOLDER / f"{given.name}.safetensors", given.measured)
        return
    if not given.photos:
        parser.error("--photos is needed")

    net = read_network(given.model)
    what = f"KPAC with {net.config.levels} levels and {net.config.blocks} blocks"
    views = "a dual-pixel pair" if net.config.views == 2 else "one image"
    sha256 = net.card.sha256  # of the tensors as they are stored, checked when they were read
    figures, sliders = _figures(given.measured / SCENES / SUMMARY, sha256)
    for folder, read in FURTHER.items():
        summary = given.measured / folder / SUMMARY
        if summary.exists():
            figures |= read(summary, sha256)
    card = replace(
        net.card if isinstance(net.card, ModelCard) else ModelCard(name=given.name),
        name=given.name,
        version=given.version,
        status=given.status,
        summary=f"{what} for {views}, trained by the napari-kpac developers",
        licence="BSD-3-Clause",
        training_data=_data(given.photos, given.pairs),
        limits=LIMITS.format(data=f"{SYNTHETIC} and on {REAL}" if given.pairs else SYNTHETIC),
        figures=_rounded(figures),
        sliders=_rounded(sliders),
    )
    card = _with_settings(card, given.measured, sha256)
    if given.training:
        card = replace(card, training=given.training)
    target = FOLDER / f"{given.name}.safetensors"
    save_network(net, target, card, dtype=torch.float16)
    _write_sums()
    kept = min(_closeness(net, kpac.load(target)))
    print(f"{target.name}: {target.stat().st_size / 1e6:.1f} MB; as stored and as trained agree")
    print(f"to {kept:.1f} dB at least ({MIN_PSNR_DB:g} dB are enough)")
    if kept < MIN_PSNR_DB:
        raise SystemExit("float16 is too coarse for these weights")


def _store_settings(path: Path, measured: Path) -> None:
    """Write the settings that were measured into the card of a bundled model, and nothing else."""
    net = read_network(path)
    before = net.card
    card = save_network(
        net, path, _with_settings(before, measured, before.sha256), dtype=torch.float16
    )
    if card.sha256 != before.sha256:
        raise SystemExit(f"{path.name}: its weights are not float16, and would be changed")
    _write_sums()
    print(f"{path.name}: {dict(card.settings)}")


def _with_settings(card: ModelCard, measured: Path, sha256: str) -> ModelCard:
    """Return a card with the best upsampling of the blur map and its figures, if measured."""
    record = measured / UPSAMPLING_RECORD
    found = read_record(record).get(sha256) if record.exists() else None
    if found is None:
        return card
    result = UpsamplingResult({int(factor): auc for factor, auc in found.items()})
    figures = {
        f"blur map ROC AUC, upsampling {factor}": auc for factor, auc in result.roc_auc.items()
    }
    return replace(
        card,
        figures={**card.figures, **_rounded(figures)},
        settings={**card.settings, UPSAMPLING: result.best},
    )


def _write_sums() -> None:
    with replacing(FOLDER / SUMS) as temporary:
        temporary.write_text(
            "".join(
                f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
                for path in sorted(FOLDER.glob("*.safetensors"))
            ),
            encoding="ascii",
        )


def _data(photos: Sequence[Path], pairs: Sequence[Path]) -> str:
    """Return a text on what was trained with, and under which licences that is."""
    count, licences = licences_of(photos)
    if not pairs:
        return f"synthetic defocus on {count} sharp photographs. Licences: {licences}"
    real, real_licences = licences_of(pairs)
    return (
        f"synthetic defocus on {count} sharp photographs, and {real} real pairs. Licences of the"
        f" photographs: {licences}. Licences of the pairs: {real_licences}"
    )


def licences_of(folders: Sequence[Path]) -> tuple[int, str]:
    """Return how many images of some folders are for training, and their licences."""
    rows: list[dict[str, str]] = []
    for folder in folders:
        with (folder / MANIFEST).open(newline="", encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if row["split"] == "train"]
    licences = Counter(_licence(row) for row in rows)
    return len(rows), "; ".join(f"{count} {name}" for name, count in licences.most_common())


def _licence(row: Mapping[str, str]) -> str:
    return " ".join(row["licence"].split())


def _figures(summary: Path, sha256: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the figures of the benchmark at every noise that was measured, and of the sliders."""
    clean, *noisy = _lines(summary, sha256)
    means = clean["means"]
    figures = _gains(clean)
    for line in noisy:
        figures |= _gains(line, f", noise {line['noise']:g} %")
    figures["sharp kept (dB)"] = means["sharp kept"]
    figures["alpha1 ROC AUC"] = clean["separation"]["alpha1"]
    shares = clean.get("share_through_alpha", {})
    figures |= {f"share of the gain through alpha, {name}": share for name, share in shares.items()}
    # Of everything, and of 4 and 5: the costs that do not depend on the network's dilations.
    costs = [name for name in muting_columns((), radius_known=True) if name in means]
    figures |= {f"{name} (dB)": means[name] for name in costs}
    measured = slider_columns(dilations_of(means))
    return figures, {name: means[name] for name in measured if name in means}


def _uniform_figures(summary: Path, sha256: str) -> dict[str, float]:
    """Return the figures of crops of one radius."""
    (line,) = _lines(summary, sha256, clean=False)
    return _gains(line, f", one radius, noise {line['noise']:g} %")


def _microscopy_figures(summary: Path, sha256: str) -> dict[str, float]:
    """Return the figures of microscopy images."""
    return _gains(_lines(summary, sha256)[0], ", microscopy images")


def _gains(line: Mapping[str, Any], tail: str = "") -> dict[str, float]:
    """Return the gains of one noise, those that were measured."""
    gains = {"1-8 px": line["mean_gain"]}
    gains |= {
        name.removeprefix("psnr "): gain for name, gain in line["gains"].items() if name != "psnr"
    }
    return {
        f"benchmark gain {where}{tail} (dB)": gain
        for where, gain in gains.items()
        if gain is not None
    }


def _real_figures(summary: Path, sha256: str) -> dict[str, float]:
    """Return the figures of real pairs."""
    line = _lines(summary, sha256, fitted=True)[0]
    return {
        "mean gain on real pairs (dB)": line["gains"]["psnr"],
        "worst gain on real pairs (dB)": line["worst_gain"],
    }


FURTHER = {
    UNIFORM: _uniform_figures,
    MICROSCOPY: _microscopy_figures,
    REAL_PAIRS: _real_figures,
}
"""What reads the figures of the evaluations besides the benchmark, by their folders."""


def _rounded(figures: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, 3) + 0.0 for name, value in figures.items()}


def _lines(
    summary: Path, sha256: str, *, fitted: bool = False, clean: bool = True
) -> list[dict[str, Any]]:
    """Return the lines that are about these very weights, by noise.

    Real pairs must have been ``fitted``; with ``clean``, the first line must be without noise.
    """
    found = json.loads(summary.read_text())
    if fitted and not found["settings"]["options"].get("fit_exposure"):
        raise SystemExit(
            f"{summary} was made without --fit-exposure, and real pairs differ in exposure"
        )
    names = {
        name for name, how in found["settings"]["methods"].items() if how.get("sha256") == sha256
    }
    lines = [line for line in found["lines"] if line["method"] in names]
    lines.sort(key=lambda line: line["noise"])
    noises = [line["noise"] for line in lines]
    if not lines or (clean and noises[0] != 0) or len(set(noises)) < len(noises):
        raise SystemExit(f"{summary} has no line about this model: evaluate it first")
    return lines


def _closeness(trained: kpac.KPACNet, stored: kpac.KPACNet) -> list[float]:
    """Return the PSNR between the results of two networks, for a few images."""
    found = []
    for image in (data.chelsea(), data.coffee(), data.astronaut()):
        crop = image[:256, :256].astype(np.float32) / 255
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
