"""Learn the dictionary of JNB again, with its calibration, from sharp photographs.

    python tools/jnb_dictionary.py PHOTOS MORE_PHOTOS

Atoms are learned from patches of the photographs for training (by each folder's MANIFEST.csv),
which are blurred first; counts of atoms become sigma in pixels by what scenes of the benchmark's
kind, made of the first folder's photographs for training, show on average. How well they do is
measured on scenes of its photographs for validation. Needs scikit-learn, which nothing else here
does (``pip install scikit-learn``); takes about five minutes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bundle import licences_of
from safetensors.numpy import save_file
from scipy.ndimage import gaussian_filter
from scipy.stats import spearmanr
from sklearn.decomposition import MiniBatchDictionaryLearning
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

from napari_kpac.core.files import replacing
from napari_kpac.core.progress import finish
from napari_kpac.datasets.photographs import photos_of_split, read_photo
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.optics import jnb

ATOMS = 128
BLUR_PX = 2.0
"""Sigma of the blur of the patches. With 1 the rank correlation with the true blur is 0.77 on
scenes of other photographs, with 2 it is 0.81."""
PENALTY = 10.0
"""Of the sum of coefficients while learning, in grey levels."""
KNOTS = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 40, 48, 64], np.float32)

Floats = npt.NDArray[np.float32]


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, calibrate, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path, nargs="+", metavar="DIR", help="sharp photographs")
    parser.add_argument("--patches", type=int, default=60_000)
    parser.add_argument("--scenes", type=int, default=60, help="photographs for the calibration")
    parser.add_argument("--test-scenes", type=int, default=8, help="photographs for the figures")
    parser.add_argument("--blur", type=float, default=BLUR_PX, help="sigma of the patches' blur")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path, default=jnb.DICTIONARY)
    given = parser.parse_args(arguments)
    atoms = learn(given.photos, given.patches, given.blur, given.seed)
    counts, sigma = measure(given.photos[0], "train", given.scenes, given.seed, atoms)
    tensors = {"atoms": atoms, "counts": KNOTS, "sigmas": calibrate(counts, sigma)}
    dictionary, figures = jnb.Dictionary(**tensors), {}
    others = measure(given.photos[0], "val", given.test_scenes, given.seed, atoms)
    for where, (many, truth) in {
        "the scenes of the calibration": (counts, sigma),
        "scenes of other photographs": others,
    }.items():
        found = dictionary.sigma(many)
        figures[f"mean error on {where} (px of sigma)"] = np.abs(found - truth).mean()
        figures[f"rank correlation on {where}"] = spearmanr(found, truth).statistic
    number, terms = licences_of(given.photos)
    digest = hashlib.sha256(b"".join(tensors[name].tobytes() for name in sorted(tensors)))
    card: dict[str, Any] = {
        "name": "jnb-dictionary",
        "version": "2",
        "summary": f"{ATOMS} atoms of {jnb.PATCH_PX}x{jnb.PATCH_PX} pixels for JNB, learned by the "
        "napari-kpac developers; not the dictionary of the paper's authors",
        "licence": "BSD-3-Clause",
        "training_data": f"{given.patches} patches of {number} sharp photographs, blurred by a "
        f"Gaussian of {given.blur:g} px. Licences of the photographs: {terms}",
        "training": f"scikit-learn's MiniBatchDictionaryLearning, penalty {PENALTY:g}, seed "
        f"{given.seed}; sigma by isotonic regression on scenes of {given.scenes} photographs "
        "with known radii of 0 to 12 px (sigma is half the radius)",
        "limits": "Sigma is an average over such scenes. Patches of blur above about 2 px of sigma "
        "and patches without detail both need few atoms, so they look alike.",
        "figures": {name: round(float(value), 3) for name, value in figures.items()},
        "sha256": digest.hexdigest(),
    }
    with replacing(given.output) as temporary:
        save_file(
            tensors, temporary, {"format": "napari-kpac dictionary", "card": json.dumps(card)}
        )
    for count, value in zip(KNOTS, tensors["sigmas"], strict=True):
        print(f"{count:3.0f} atoms: sigma {value:.2f} px")
    print(f"{given.output}: {json.dumps(card['figures'])}")


def learn(folders: Sequence[Path], number: int, blur: float, seed: int) -> Floats:
    """Return atoms (pixels of a patch, atoms) that code blurred patches well."""
    photos = [path for folder in folders for path in photos_of_split(folder, "train")]
    rng, side = np.random.default_rng(seed), jnb.PATCH_PX
    share, patches = -(-number // len(photos)), []
    for photo in photos:
        blurred = gaussian_filter(255 * jnb.luma(read_photo(photo)), blur)
        found: list[Floats] = []
        for _ in range(10 * share):
            y, x = (int(rng.integers(length - side + 1)) for length in blurred.shape)
            patch = blurred[y : y + side, x : x + side].ravel()
            patch = patch - patch.mean()
            if patch @ patch > jnb.MAX_ERROR**2 and len(found) < share:
                found.append(patch)
        patches += found
    learner = MiniBatchDictionaryLearning(
        ATOMS, alpha=PENALTY, batch_size=256, max_iter=4, fit_algorithm="cd", random_state=seed
    )
    with warnings.catch_warnings():
        # Single patches need not be coded to the last digit for the atoms to be learned.
        warnings.simplefilter("ignore", ConvergenceWarning)
        learner.fit(rng.permutation(np.array(patches))[:number])
    atoms = learner.components_.T - learner.components_.mean(axis=1)
    normed: Floats = (atoms / np.linalg.norm(atoms, axis=0)).astype(np.float32)
    return np.ascontiguousarray(normed)


def measure(root: Path, split: str, photos: int, seed: int, atoms: Floats) -> tuple[Floats, Floats]:
    """Return counts and true sigmas of pixels of scenes whose radii are known."""
    scenes = SyntheticCases(root, split, limit=photos, seed=seed)
    counts, sigmas = [], []
    for index in range(len(scenes)):
        scene = scenes[index]
        grey = jnb.luma(scene.blurred)
        dense = jnb.dense_counts(finish(jnb.count_atoms_steps(255 * grey, atoms)), grey)
        counts.append(dense[::4, ::4].ravel())
        sigmas.append(np.abs(scene.radius[::4, ::4]).ravel() / 2)
    return np.concatenate(counts), np.concatenate(sigmas)


def calibrate(counts: Floats, sigma: Floats) -> Floats:
    """Return the mean sigma around each knot, made to fall with the count."""
    edges = np.concatenate([[-1], (KNOTS[1:] + KNOTS[:-1]) / 2, [np.inf]])
    number = np.histogram(counts, edges)[0]
    means = np.histogram(counts, edges, weights=sigma)[0] / np.maximum(number, 1)
    there = number > 0
    fit = IsotonicRegression(increasing=False, out_of_bounds="clip")
    fit.fit(KNOTS[there], means[there], sample_weight=number[there])
    falling: Floats = fit.predict(KNOTS).astype(np.float32)
    return falling


if __name__ == "__main__":
    main()
