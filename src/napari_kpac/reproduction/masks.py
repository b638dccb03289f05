"""Images and masks of their blur, made of sharp photographs: blur detection whose truth is known.

They lie in CUHK's folders, so that whatever reads CUHK reads them. Not for: scores (evaluation), or
masks that people have drawn.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from napari_kpac.core.progress import Progress, Steps
from napari_kpac.datasets.layout import IMAGES, MASKS
from napari_kpac.evaluation.benchmark import SyntheticCases
from napari_kpac.images import write_image

BLURRED_ABOVE_PX = 1.0
"""Radius above which a pixel counts as blurred."""
MIN_SHARE = 0.02
"""Of blurred and of sharp pixels; an image with fewer has nothing to tell apart."""


def write_masks_steps(
    root: Path, split: str, folder: Path, limit: int | None = None, seed: int = 0
) -> Steps[int]:
    """Write the benchmark's scenes and masks, white where the blur is above 1 px of radius.

    Scenes that are sharp or blurred all over are left out. Yields after each; returns how many
    were written.

    Parameters
    ----------
    root, split, limit, seed
        Of the benchmark, see :class:`napari_kpac.evaluation.benchmark.SyntheticCases`.
    folder
        Where to write.
    """
    cases, written = SyntheticCases(root, split, limit=limit, seed=seed), 0
    for index in range(len(cases)):
        pair, name = cases[index], f"{cases.name(index)}.png"
        assert pair.radius is not None  # noqa: S101 - the benchmark's scenes have one
        blurred = np.abs(pair.radius) > BLURRED_ABOVE_PX
        if MIN_SHARE <= blurred.mean() <= 1 - MIN_SHARE:
            write_image(folder / IMAGES / name, np.rint(255 * pair.blurred).astype(np.uint8))
            write_image(folder / MASKS / name, (255 * blurred).astype(np.uint8))
            written += 1
        yield Progress(index + 1, len(cases), cases.name(index))
    return written
