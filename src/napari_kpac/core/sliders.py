"""Names of what the sliders of a model were measured to do, as evaluations and cards have them.

Not for: measuring it (evaluation.sliders).
"""

from __future__ import annotations

from collections.abc import Iterable

from napari_kpac.core.units import RadiusBin

GAINS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
"""What all sliders together are set to."""
WON, OVERSHOOT, CHANGE = "won with sliders at", "overshoot with sliders at", "change by muting"
INPUT_KEPT = "input kept with sliders at 0"


def won_column(gain: float, where: RadiusBin | None = None) -> str:
    """Return the name of the column of what all sliders at a gain win: in all, or in a bin."""
    return _placed(f"{WON} {gain:g}", where)


def overshoot_column(gain: float) -> str:
    """Return the name of the column of the values that overshoot, in percent."""
    return f"{OVERSHOOT} {gain:g}"


def change_column(dilation: int, where: RadiusBin | None = None) -> str:
    """Return the name of the column of the change by muting one dilation: in all, or in a bin."""
    return _placed(f"{CHANGE} dilation {dilation}", where)


def _placed(name: str, where: RadiusBin | None) -> str:
    return name if where is None else f"{name} at {where.label} px"


def dilations_of(columns: Iterable[str]) -> list[int]:
    """Return the dilations of which there is a change among the names of some columns."""
    stem = change_column(0).removesuffix("0")
    tails = (name.removeprefix(stem) for name in columns if name.startswith(stem))
    return [int(tail) for tail in tails if tail.isdecimal()]
