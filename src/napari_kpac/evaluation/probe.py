"""What a network's attention says about blur whose radius is known.

Not for: blur maps of pictures whose blur is not known (detection).

The rules. Separation: pixels with texture (see ``texture``) whose radius is above 2 px count as
blurred, those below 0.5 px as sharp, others not at all; every fourth pixel of every fourth row
is taken, all pictures together, and ROC AUC is the chance that a blurred pixel has the larger
value. Alphas are those of block 1 at image resolution, of the picture as it is (upsampling 1).
Muting: dilations 4 and 5 get a gain of 0 in every block; the cost is the PSNR lost on pixels
with radii above 6 px and below 3 px, per picture that has 1 % of its pixels there.
Sharp kept: PSNR of the network's result for the sharp picture against the sharp picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_kpac.datasets.pair import Floats, Pair
from napari_kpac.detection.scores import Curve
from napari_kpac.detection.variance import local_variance_blur
from napari_kpac.evaluation.bins import inside
from napari_kpac.evaluation.comparators import ModelComparator
from napari_kpac.evaluation.metrics import Mask, psnr
from napari_kpac.evaluation.texture import textured

BLURRED_ABOVE = 2.0
SHARP_BELOW = 0.5
STRIDE = 4
MUTED = (4, 5)
"""Dilations whose alphas are muted."""
FAR, NEAR = (6.0, np.inf), (0.0, 3.0)
"""Radii on which the cost of muting is measured."""
WINDOW = 15
"""Side of the window of local variance."""

SHARP_KEPT = "sharp kept"
MUTED_FAR = "cost of muting 4 and 5 above 6 px"
MUTED_NEAR = "cost of muting 4 and 5 below 3 px"
PROBE_COLUMNS = (SHARP_KEPT, MUTED_FAR, MUTED_NEAR)


class Evidence(NamedTuple):
    """Values of pixels with texture, and whether those are blurred."""

    values: Mapping[str, npt.NDArray[np.float32]]
    """By measure: alpha1, alpha2, ..., variance; larger is meant to be more blurred."""
    blurred: Mask


@dataclass(frozen=True)
class Probe:
    """What was found on one picture."""

    restored: Floats
    scores: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence | None = None


def examine(network: ModelComparator, pair: Pair) -> Probe:
    """Deblur a picture of known radius and look at the attention on the way."""
    if pair.radius is None:
        return Probe(network.restore(pair.blurred, pair.views))
    from napari_kpac.engine import Modulation

    session = network.session(pair.blurred, pair.views)
    try:
        plain = session.render()
        gains = [0.0 if dilation in MUTED else 1.0 for dilation in network.dilations]
        muted = session.render(Modulation(gains=gains)).image
    finally:
        session.close()
    scores = {}
    for name, (low, high) in ((MUTED_FAR, FAR), (MUTED_NEAR, NEAR)):
        mask = inside(pair.radius, low, high)
        if mask is not None:
            before, after = (psnr(image, pair.sharp, mask) for image in (plain.image, muted))
            scores[name] = before - after
    views = None if pair.views is None else (pair.sharp, pair.sharp)
    scores[SHARP_KEPT] = psnr(network.restore(pair.sharp, views), pair.sharp)
    alphas = plain.alpha_at_image()[0]
    named = {f"alpha{i}": alpha for i, alpha in enumerate(alphas, start=1)}
    return Probe(plain.image, scores, evidence(pair, named))


def variance_evidence(pair: Pair) -> Evidence | None:
    """Take local variance, which needs no network, as a measure of blur."""
    return evidence(pair, {"variance": local_variance_blur(pair.blurred, WINDOW)})


def evidence(pair: Pair, maps: Mapping[str, npt.NDArray[np.float32]]) -> Evidence | None:
    """Collect the pixels of a picture on which a measure of blur is judged."""
    if pair.radius is None:
        return None
    grid = (slice(None, None, STRIDE),) * 2
    size = np.abs(pair.radius[grid])
    kept = textured(pair.sharp)[grid] & ((size > BLURRED_ABOVE) | (size < SHARP_BELOW))
    values = {name: np.ascontiguousarray(each[grid][kept]) for name, each in maps.items()}
    return Evidence(values, size[kept] > BLURRED_ABOVE)


def separation(found: Iterable[Evidence]) -> dict[str, float]:
    """Give the ROC AUC of every measure over the pixels of all pictures.

    Empty where there are no blurred or no sharp pixels. The AUC of the opposite polarity,
    larger = sharper, is one minus that.
    """
    pieces = list(found)
    if not pieces:
        return {}
    blurred = np.concatenate([piece.blurred for piece in pieces])
    if blurred.all() or not blurred.any():
        return {}
    return {
        name: Curve.of(np.concatenate([piece.values[name] for piece in pieces]), blurred).roc_auc()
        for name in pieces[0].values
    }
