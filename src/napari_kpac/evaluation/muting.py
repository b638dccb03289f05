"""What a network loses when alphas are muted.

Not for: alpha as a measure of blur (probe).

The rules. Muted alphas are 0 in every block. The cost is the PSNR of the network's result less
that of its result with these alphas muted: over all pixels, and over those with a radius in a
range, per image that has 1 % of its pixels there. Tried are all alphas at once and those of
each dilation, in the bins of radii (see ``bins``); and those of dilations 4 and 5, above 6 px
and below 3 px. Where the radius is not known, all alphas at once over all pixels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from napari_kpac.evaluation.bins import BINS, Bin, inside
from napari_kpac.evaluation.metrics import Doubles, Mask, decibels

COST = "cost of muting"
EVERYTHING = "everything"
LARGE = "4 and 5"
LARGE_DILATIONS = (4, 5)
LARGE_RANGES_PX = {"above 6 px": (6.0, np.inf), "below 3 px": (0.0, 3.0)}


@dataclass(frozen=True)
class Muting:
    """Alphas that are muted together, and where the cost is measured."""

    name: str
    gains: Sequence[float]
    """What the alphas of each dilation are multiplied by."""
    places: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Ranges of radii in pixels, by name."""
    whole: bool = True
    """Whether the cost is measured over all pixels as well."""

    def costs(
        self, before: Doubles, after: Doubles, masks: Mapping[str, Mask | None]
    ) -> dict[str, float]:
        """Return the costs in dB by column.

        Parameters
        ----------
        before, after
            Squared errors (H, W) of the result, and of that with the alphas muted.
        masks
            Pixels of every range of radii; None where they are too few.
        """
        found = {}
        if self.whole:
            found[cost_column(self.name)] = _cost(before, after)
        for place in self.places:
            mask = masks[place]
            if mask is not None:
                found[cost_column(self.name, place)] = _cost(before[mask], after[mask])
        return {name: cost for name, cost in found.items() if not np.isnan(cost)}


def cost_column(muted: str, place: str = "") -> str:
    """Return the name of the column of a cost: over all pixels, or in a named range of radii."""
    return f"{COST} {muted} {place}".rstrip()


def bin_place(where: Bin) -> str:
    """Return the name of a bin as a range of radii."""
    return f"at {where.label} px"


def bin_ranges() -> dict[str, tuple[float, float]]:
    """Return the bins as ranges of radii in pixels, by name."""
    return {bin_place(where): (where.low, where.high) for where in BINS}


def mutings(dilations: Sequence[int], *, radius_known: bool) -> list[Muting]:
    """Return everything that is tried on a network with these dilations."""
    everything = [0.0] * len(dilations)
    if not radius_known:
        return [Muting(EVERYTHING, everything)]
    large = [float(dilation not in LARGE_DILATIONS) for dilation in dilations]
    return [
        Muting(LARGE, large, LARGE_RANGES_PX, whole=False),
        Muting(EVERYTHING, everything, bin_ranges()),
        *(
            Muting(
                f"dilation {dilation}",
                [float(other != dilation) for other in dilations],
                bin_ranges(),
            )
            for dilation in dilations
        ),
    ]


def muting_columns(dilations: Sequence[int], *, radius_known: bool) -> list[str]:
    """Return the names of all columns that the costs may fill."""
    return [
        cost_column(muting.name, place)
        for muting in mutings(dilations, radius_known=radius_known)
        for place in (*([""] if muting.whole else []), *muting.places)
    ]


def range_masks(radius: npt.NDArray[np.float32] | None) -> dict[str, Mask | None]:
    """Return the pixels of every range of radii; None where they are too few."""
    if radius is None:
        return {}
    ranges = {**LARGE_RANGES_PX, **bin_ranges()}
    return {place: inside(radius, low, high) for place, (low, high) in ranges.items()}


def _cost(before: Doubles, after: Doubles) -> float:
    return decibels(float(before.mean())) - decibels(float(after.mean()))
