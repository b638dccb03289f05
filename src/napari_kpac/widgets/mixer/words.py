"""Words of the mixer: what alpha, beta and a block are, and what a strip does to this image.

The sentence of a strip is made by :func:`strip_sentence` and nowhere else. Not for: measuring
(``engine.Session.mute_effect``), or showing (strip.py, controls.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from napari_kpac.core.sliders import GAINS, change_column, overshoot_column, won_column
from napari_kpac.core.units import RADIUS_BINS, RadiusBin

if TYPE_CHECKING:
    from napari_kpac.network import KPACConfig

QUIET_LEVELS = 0.1
"""Grey levels (of 255): a strip that changes less on average counts as changing nothing."""
_IMPRESSIONS = (
    (QUIET_LEVELS, "invisible"),
    (0.5, "hard to see"),
    (2.0, "a slight change"),
)
"""By the mean change in grey levels: below that, this."""
_STRONG = "a clear change"
MAX_LOSS_DB, MAX_OVERSHOOT = 0.1, 1.25
"""Beyond this loss of PSNR, or this factor of the values that overshoot, artefacts have begun."""

BETA = (
    "β, the shape attention: how much each feature channel of the block counts, from 0 to 1. The "
    "network chooses it once for the whole image, from the kind of blur it sees."
)
HINT = "Point at a strip to read what it does."


@dataclass(frozen=True)
class StripFacts:
    """What is known of a strip."""

    index: int
    """Counted from 0."""
    dilation: int
    reach: int
    """Pixels to each side that its kernel sees."""
    effect: float | None = None
    """Mean change of this image in grey levels (of 255) when it is muted; None: not measured."""
    radius: RadiusBin | None = None
    """Radii of the blur at which it changes test images most; None: not measured."""

    @classmethod
    def of(cls, config: KPACConfig, sliders: Mapping[str, float]) -> list[StripFacts]:
        """Return the facts of all strips of a block, without their effects.

        ``sliders`` is what the model's card says of them.
        """
        half = (config.kernel_size - 1) // 2
        return [
            cls(
                index,
                dilation,
                half * dilation * config.multiple,
                radius=_strongest(dilation, sliders),
            )
            for index, dilation in enumerate(config.dilations)
        ]

    @property
    def name(self) -> str:
        """Alpha with its number, as in the paper."""
        return "α" + "".join(chr(0x2080 + int(digit)) for digit in str(self.index + 1))


def strip_sentence(facts: StripFacts) -> str:
    """Return what a strip is and does, for somebody who knows photographs and no networks."""
    what = (
        f"{facts.name}, dilation {facts.dilation}: sharpens each place from up to {facts.reach} "
        "pixels around it"
    )
    if facts.radius is not None:
        low, high = facts.radius.low, facts.radius.high
        what += f", most where the blur has a radius of {low:g} to {high:g} pixels"
    what += "."
    if facts.effect is None:
        return f"{what} What muting it changes here is not measured yet."
    return (
        f"{what} Muting it changes this image by {levels(facts.effect)} of 255 levels on average: "
        f"{_impression(facts.effect)}."
    )


def alpha_sentence(facts: StripFacts) -> str:
    """Return what the small image of a strip shows."""
    return (
        f"{facts.name} is the network's choice, place by place, of how much this strip takes part: "
        "bright 1, dark 0. Click to add it as a layer, right-click to put a layer in its place."
    )


def block_sentence(block: int, blocks: int) -> str:
    """Return what a block is, counted from 0."""
    order = "works first" if block == 0 else f"goes on with what block {block} made"
    return (
        f"The network corrects blur in {blocks} block(s), one after the other. Block {block + 1} "
        f"{order}; it has a strip for each dilation."
    )


def gains_sentence(sliders: Mapping[str, float]) -> str:
    """Return a warning about gains above 1, from what the model's card says of the sliders."""
    text = "⚠ A gain above 1 sharpens beyond what the network found."
    won, overshot = sliders.get(won_column(1)), sliders.get(overshoot_column(1))
    if won is None or overshot is None:
        return text
    for gain in (each for each in GAINS if each > 1):
        lost = won - sliders[won_column(gain)]
        share = sliders[overshoot_column(gain)]
        if lost > MAX_LOSS_DB or share > MAX_OVERSHOOT * overshot:
            return (
                f"{text} With all gains at {gain:g}, test images had {share:.1f} % of values with "
                f"halos instead of {overshot:.1f} %, and lost {lost:.1f} dB."
            )
    return f"{text} Test images showed no artefacts up to {GAINS[-1]:g}."


def quiet_sentence(block: int) -> str:
    """Return why the strips of a block are folded."""
    return (
        f"No strip of block {block + 1} changes this image by {QUIET_LEVELS:g} grey levels (of "
        "255) or more when it is muted, so they are folded away."
    )


def summary(effects: Mapping[tuple[int, int], float], facts: Sequence[StripFacts]) -> str:
    """Return which strip matters most in this image, from the effects by block and index."""
    if not effects:
        return HINT
    (block, index), effect = max(effects.items(), key=lambda item: item[1])
    if effect < QUIET_LEVELS:
        return f"No strip changes this image by {QUIET_LEVELS:g} grey levels or more. {HINT}"
    return (
        f"In this image {facts[index].name} of block {block + 1} does most: muting it changes "
        f"{levels(effect)} grey levels on average. {HINT}"
    )


def levels(effect: float) -> str:
    """Return a number of grey levels for a sentence."""
    return f"less than {QUIET_LEVELS:g}" if effect < QUIET_LEVELS else f"{effect:.1f}"


def short_levels(effect: float) -> str:
    """Return the same for a strip, which is narrow."""
    return f"effect {f'<{QUIET_LEVELS:g}' if effect < QUIET_LEVELS else f'{effect:.1f}'}"


def is_quiet(effects: Sequence[float | None]) -> bool:
    """Return True if all strips of a block are measured and none changes anything."""
    return all(effect is not None and effect < QUIET_LEVELS for effect in effects)


def _strongest(dilation: int, sliders: Mapping[str, float]) -> RadiusBin | None:
    """Return the radii at which muting a dilation changes most."""
    changes = {where: sliders.get(change_column(dilation, where), 0.0) for where in RADIUS_BINS}
    strongest = max(changes, key=lambda where: changes[where])
    return strongest if changes[strongest] > 0 else None


def _impression(effect: float) -> str:
    return next((text for limit, text in _IMPRESSIONS if effect < limit), _STRONG)
