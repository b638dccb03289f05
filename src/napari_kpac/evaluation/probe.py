"""What a network's attention says about blur whose radius is known.

Not for: blur maps of images whose blur is not known (detection).

The rules. Separation: pixels with texture (see ``texture``) whose radius is above 2 px count as
blurred, those below 0.5 px as sharp, others not at all; every fourth pixel of every fourth row
is taken, all images together, and ROC AUC is the chance that a blurred pixel has the larger
value. Alphas are those of block 1 at image resolution, of the image as it is (upsampling 1).
Sharp kept: PSNR of the network's result for the sharp image, with the noise that the blurred
one has, against the sharp image; noise of 1 % alone leaves 40 dB, of 3 % 30.5 dB.
Muting: see ``muting``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.detection.estimators import local_variance_blur
from napari_kpac.detection.scores import Curve
from napari_kpac.evaluation.benchmark import textured
from napari_kpac.evaluation.methods import ModelComparator
from napari_kpac.evaluation.metrics import Doubles, ImageArray, Mask, fitted, psnr, squared_error
from napari_kpac.evaluation.muting import (
    LARGE,
    LARGE_RANGES_PX,
    cost_column,
    muting_columns,
    mutings,
    range_masks,
)

BLURRED_ABOVE = 2.0
SHARP_BELOW = 0.5
STRIDE = 4
WINDOW = 15
"""Side of the window of local variance."""

SHARP_KEPT = "sharp kept"
MUTED_FAR, MUTED_NEAR = (cost_column(LARGE, place) for place in LARGE_RANGES_PX)


class Evidence(NamedTuple):
    """Values of pixels with texture, and whether those are blurred."""

    values: Mapping[str, npt.NDArray[np.float32]]
    """By measure: alpha1, alpha2, ..., variance; larger is meant to be more blurred."""
    blurred: Mask


@dataclass(frozen=True)
class Probe:
    """What was found on one image."""

    restored: Floats
    scores: Mapping[str, float] = field(default_factory=dict)
    evidence: Evidence | None = None


def examine(
    network: ModelComparator, pair: Pair, focused: Pair | None = None, *, fit: bool = False
) -> Probe:
    """Deblur an image, with alphas muted too, and look at the attention where radii are known.

    Parameters
    ----------
    network
        A model.
    pair
        The image.
    focused
        The same scene with the sharp image in place of the blurred one; by default made from
        the pair, without noise.
    fit
        Fit gain and offset of each channel to the truth before costs are computed.
    """
    from napari_kpac.engine import Modulation

    def error(image: ImageArray) -> Doubles:
        return squared_error(fitted(image, pair.sharp) if fit else image, pair.sharp)

    tried = mutings(network.dilations, radius_known=pair.radius is not None)
    masks = range_masks(pair.radius)
    scores: dict[str, float] = {}
    with closing(network.session(pair.blurred, pair.views)) as session:
        plain = session.render()
        before = error(plain.image)
        for muting in tried if network.has_alphas else ():
            muted = session.render(Modulation(gains=muting.gains)).image
            scores |= muting.costs(before, error(muted), masks)
    if pair.radius is None:
        return Probe(plain.image, scores)
    focused = focused or in_focus(pair)
    scores[SHARP_KEPT] = psnr(network.restore(focused.blurred, focused.views), pair.sharp)
    alphas = plain.alpha_at_image()[0]
    named = {f"alpha{i}": alpha for i, alpha in enumerate(alphas, start=1)}
    return Probe(plain.image, scores, evidence(pair, named))


def in_focus(pair: Pair) -> Pair:
    """Return a scene with the sharp image in place of the blurred one and its views."""
    return replace(pair, blurred=pair.sharp, views=pair.views and (pair.sharp, pair.sharp))


def probe_columns(networks: Iterable[ModelComparator], *, radius_known: bool) -> list[str]:
    """Return the names of all scores that :func:`examine` may find for these networks."""
    dilations = sorted({d for network in networks for d in network.dilations})
    first = [SHARP_KEPT] if radius_known else []
    return [*first, *muting_columns(dilations, radius_known=radius_known)]


def variance_evidence(pair: Pair) -> Evidence | None:
    """Take local variance, which needs no network, as a measure of blur."""
    return evidence(pair, {"variance": local_variance_blur(pair.blurred, WINDOW)})


def evidence(pair: Pair, maps: Mapping[str, npt.NDArray[np.float32]]) -> Evidence | None:
    """Collect the pixels of an image on which a measure of blur is judged."""
    if pair.radius is None:
        return None
    grid = (slice(None, None, STRIDE),) * 2
    size = np.abs(pair.radius[grid])
    kept = textured(pair.sharp)[grid] & ((size > BLURRED_ABOVE) | (size < SHARP_BELOW))
    values = {name: np.ascontiguousarray(each[grid][kept]) for name, each in maps.items()}
    return Evidence(values, size[kept] > BLURRED_ABOVE)


def separation(found: Iterable[Evidence]) -> dict[str, float]:
    """Give the ROC AUC of every measure over the pixels of all images.

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
