"""What a network's attention says about blur whose radius is known, and what muting it costs.

Not for: blur maps of images whose blur is not known (detection).

The rules. Separation: pixels with texture (see ``benchmark``) whose radius is above 2 px count as
blurred, those below 0.5 px as sharp, others not at all; every fourth pixel of every fourth row
is taken, all images together, and ROC AUC is the chance that a blurred pixel has the larger
value. Alphas are those of block 1 at image resolution, of the image as it is (upsampling 1).

Best upsampling: the same separation by alpha_1 of the blur map, with the image enlarged 1, 2 and 4
times; of factors whose AUCs differ by less than 0.005 the smaller one, which costs less.

Sharp kept: PSNR of the network's result for the sharp image, with the noise that the blurred
one has, against the sharp image; noise of 1 % alone leaves 40 dB, of 3 % 30.5 dB.

Muting: muted alphas are 0 in every block. The cost is the PSNR of the network's result less
that of its result with these alphas muted: over all pixels, and over those with a radius in a
range, per image that has 1 % of its pixels there. Tried are all alphas at once and those of
each dilation, in the bins of radii; and those of dilations 4 and 5, above 6 px and below 3 px.
Where the radius is not known, all alphas at once over all pixels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_kpac.core.options import BlurMapOptions
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.core.units import RadiusBin
from napari_kpac.datasets.pairs import Floats, Pair
from napari_kpac.detection.estimators import local_variance_blur
from napari_kpac.detection.scores import Curve
from napari_kpac.engine import blur_map_steps
from napari_kpac.evaluation.benchmark import textured
from napari_kpac.evaluation.methods import ModelMethod
from napari_kpac.evaluation.metrics import (
    BINS,
    Doubles,
    ImageArray,
    decibels,
    fitted,
    inside,
    psnr,
    squared_error,
)
from napari_kpac.evaluation.sliders import slider_columns, slider_scores

BLURRED_ABOVE_PX = 2.0
SHARP_BELOW_PX = 0.5
STRIDE_PX = 4
VARIANCE_WINDOW_PX = 15
UPSAMPLINGS = (1, 2, 4)
MIN_GAIN = 0.005
"""In ROC AUC, that a larger factor must bring."""
TRUTH = "blurred"
"""Name of the truth among samples."""

SHARP_KEPT = "sharp kept"
COST = "cost of muting"
EVERYTHING = "everything"
LARGE_DILATIONS = (4, 5)
LARGE_RANGES_PX = {"above 6 px": (6.0, np.inf), "below 3 px": (0.0, 3.0)}
EVERYWHERE = ""
"""The range of radii that is not named in a column."""

Samples = Mapping[str, npt.NDArray[Any]]
"""Values of pixels with texture by measure of blur (alpha1, alpha2, ..., variance), of which larger
ones are meant to be more blurred; and ``blurred``, which of these pixels are."""


def cost_column(muted: str, place: str = EVERYWHERE) -> str:
    """Return the name of the column of a cost: over all pixels, or in a named range of radii."""
    return f"{COST} {muted} {place}".rstrip()


def bin_place(where: RadiusBin) -> str:
    """Return the name of a bin as a range of radii."""
    return f"at {where.label} px"


BIN_RANGES_PX = {bin_place(where): (where.low, where.high) for where in BINS}
MUTED_FAR, MUTED_NEAR = (cost_column("4 and 5", place) for place in LARGE_RANGES_PX)


class Muting(NamedTuple):
    """Alphas that are muted together, and where the cost is measured."""

    name: str
    gains: Sequence[float]
    """What the alphas of each dilation are multiplied by."""
    places: Iterable[str]
    """Names of ranges of radii."""


def mutings(dilations: Sequence[int], *, radius_known: bool) -> list[Muting]:
    """Return everything that is tried on a network with these dilations."""
    everything = [0.0] * len(dilations)
    if not radius_known:
        return [Muting(EVERYTHING, everything, (EVERYWHERE,))]
    places = (EVERYWHERE, *BIN_RANGES_PX)
    large = [float(dilation not in LARGE_DILATIONS) for dilation in dilations]
    return [
        Muting("4 and 5", large, LARGE_RANGES_PX),
        Muting(EVERYTHING, everything, places),
        *(
            Muting(f"dilation {muted}", [float(other != muted) for other in dilations], places)
            for muted in dilations
        ),
    ]


def muting_columns(dilations: Sequence[int], *, radius_known: bool) -> list[str]:
    """Return the names of all columns that the costs may fill."""
    return [
        cost_column(muting.name, place)
        for muting in mutings(dilations, radius_known=radius_known)
        for place in muting.places
    ]


def attention_columns(
    networks: Iterable[ModelMethod], *, radius_known: bool, sliders: bool = False
) -> list[str]:
    """Return the names of all scores that :func:`examine` may find for these networks."""
    dilations = sorted({d for network in networks for d in network.config.dilations})
    first = [SHARP_KEPT] if radius_known else []
    last = slider_columns(dilations) if sliders else []
    return [*first, *muting_columns(dilations, radius_known=radius_known), *last]


class Examined(NamedTuple):
    """What was found on one image."""

    restored: Floats
    scores: Mapping[str, float] = {}
    samples: Samples | None = None


def examine(
    network: ModelMethod,
    pair: Pair,
    focused: Pair | None = None,
    *,
    fit: bool = False,
    sliders: bool = False,
) -> Examined:
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
    sliders
        Measure what the sliders do as well; the radius must be known.
    """
    from napari_kpac.engine import Modulation

    def error(image: ImageArray) -> Doubles:
        return squared_error(fitted(image, pair.sharp) if fit else image, pair.sharp)

    scores: dict[str, float] = {}
    with closing(network.session(pair.blurred, pair.views)) as session:
        plain = session.render()
        if network.config.scale_attention:

            @lru_cache(maxsize=len(network.config.dilations) + 2)
            def rendered(gains: tuple[float, ...]) -> Floats:
                image: Floats = session.render(Modulation(gains=gains)).image
                return image

            before = error(plain.image)
            places = _places(pair.radius)
            for name, gains, tried in mutings(
                network.config.dilations, radius_known=pair.radius is not None
            ):
                after = error(rendered(tuple(gains)))
                for place in tried:
                    if place in places:
                        lost = _psnr_lost(before[places[place]], after[places[place]])
                        scores[cost_column(name, place)] = lost
            if sliders:
                masks = {where: places.get(bin_place(where)) for where in BINS}
                scores |= slider_scores(
                    lambda gains: rendered(tuple(gains)),
                    pair,
                    network.config.dilations,
                    {where: mask for where, mask in masks.items() if mask is not None},
                )
    # Without an error there is no PSNR of which something could be lost.
    scores = {name: lost for name, lost in scores.items() if not np.isnan(lost)}
    if pair.radius is None:
        return Examined(plain.image, scores)
    focused = focused or in_focus(pair)
    scores[SHARP_KEPT] = psnr(network.restore(focused.blurred, focused.views), pair.sharp)
    alphas = enumerate(plain.alpha_at_image()[0], start=1)
    return Examined(plain.image, scores, sample(pair, {f"alpha{i}": a for i, a in alphas}))


def _places(radius: Floats | None) -> dict[str, Any]:
    """Return what selects the pixels of every range of radii that has enough of them."""
    places: dict[str, Any] = {EVERYWHERE: ...}
    if radius is not None:
        for place, (low, high) in {**LARGE_RANGES_PX, **BIN_RANGES_PX}.items():
            mask = inside(radius, low, high)
            if mask is not None:
                places[place] = mask
    return places


def _psnr_lost(before: Doubles, after: Doubles) -> float:
    return decibels(float(before.mean())) - decibels(float(after.mean()))


def in_focus(pair: Pair) -> Pair:
    """Return a scene with the sharp image in place of the blurred one and its views."""
    return replace(pair, blurred=pair.sharp, views=pair.views and (pair.sharp, pair.sharp))


def sample_variance(pair: Pair) -> Samples | None:
    """Return samples of local variance, which needs no network, as a measure of blur."""
    return sample(pair, {"variance": local_variance_blur(pair.blurred, VARIANCE_WINDOW_PX)})


def sample(pair: Pair, maps: Mapping[str, npt.NDArray[np.float32]]) -> Samples | None:
    """Return the pixels of an image on which a measure of blur is judged."""
    if pair.radius is None:
        return None
    grid = (slice(None, None, STRIDE_PX),) * 2
    size = np.abs(pair.radius[grid])
    kept = textured(pair.sharp)[grid] & ((size > BLURRED_ABOVE_PX) | (size < SHARP_BELOW_PX))
    values = {name: np.ascontiguousarray(each[grid][kept]) for name, each in maps.items()}
    return {TRUTH: size[kept] > BLURRED_ABOVE_PX, **values}


def separation(samples: Sequence[Samples]) -> dict[str, float]:
    """Return the ROC AUC of every measure over the pixels of all images.

    Empty where there are no blurred or no sharp pixels. The AUC of the opposite polarity,
    larger = sharper, is one minus that.
    """
    if not samples:
        return {}
    pooled = {name: np.concatenate([each[name] for each in samples]) for name in samples[0]}
    blurred = pooled.pop(TRUTH)
    if blurred.all() or not blurred.any():
        return {}
    return {name: Curve.of(values, blurred).roc_auc() for name, values in pooled.items()}


@dataclass(frozen=True)
class UpsamplingResult:
    """How well alpha_1 tells blur by how much images are enlarged first."""

    roc_auc: Mapping[int, float]
    """By factor."""

    @property
    def best(self) -> int:
        """The factor to use; a larger one must be better by `MIN_GAIN`."""
        best = min(self.roc_auc)
        for factor in sorted(self.roc_auc):
            if self.roc_auc[factor] >= self.roc_auc[best] + MIN_GAIN:
                best = factor
        return best


def upsampling_steps(model: ModelMethod, cases: Sequence[Pair]) -> Steps[UpsamplingResult]:
    """Measure by how much images are best enlarged for a model's blur map.

    Parameters
    ----------
    model
        The model.
    cases
        Scenes whose radii are known, for example :class:`SyntheticCases`.
    """
    samples: list[Samples] = []
    count = len(cases)
    for done in range(count):
        pair = cases[done]
        views = pair.views if model.config.views == 2 else None
        maps = {}
        for factor in UPSAMPLINGS:
            options = BlurMapOptions(device=model.device, range="unit", rgb=True, upsampling=factor)
            steps = blur_map_steps(pair.blurred, options, views=views, model=model.net)
            maps[str(factor)] = finish(steps).values
        found = sample(pair, maps)
        samples += [] if found is None else [found]
        yield Progress(done + 1, count, pair.name)
    return UpsamplingResult({int(name): auc for name, auc in separation(samples).items()})
