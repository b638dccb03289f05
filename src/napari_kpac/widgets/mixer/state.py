"""Settings of the mixer as plain data, with undo and redo.

Not for: widgets, or rendering.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

MAX_GAIN = 2.0
MAX_STRENGTH = 1.5
WHOLE_IMAGE = 0
"""Stands for the whole image among the labels."""

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class MixerState:
    """Every setting that the user can change."""

    gains: Rows
    """One row per block, one number per dilation."""
    muted: tuple[tuple[bool, ...], ...]
    soloed: tuple[tuple[bool, ...], ...]
    strength: float = 1.0
    label_gains: Mapping[int, Rows] = field(default_factory=dict)
    label_flags: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    """By label: ``muted`` and ``soloed`` inside it, where they are not those of the image."""
    label_strength: Mapping[int, float] = field(default_factory=dict)
    override: Mapping[tuple[int, int], Any] = field(default_factory=dict)
    """By block and alpha, counted from 1: the layer (its unique id) or number that replaces it."""

    @classmethod
    def neutral(cls, blocks: int, dilations: int) -> MixerState:
        """Return the settings that change nothing."""
        off = ((False,) * dilations,) * blocks
        return cls(((1.0,) * dilations,) * blocks, off, off)

    def effective(self, label: int = WHOLE_IMAGE) -> Rows:
        """Return the gains after mute and solo: a soloed dilation silences its neighbours."""
        rows = []
        all_flags = self.flags_of("muted", label), self.flags_of("soloed", label)
        for gains, muted, soloed in zip(self.gains_of(label), *all_flags, strict=True):
            alone = any(soloed)
            flags = zip(gains, muted, soloed, strict=True)
            rows.append(
                tuple(0.0 if mute or (alone and not solo) else gain for gain, mute, solo in flags)
            )
        return tuple(rows)

    def gains_of(self, label: int) -> Rows:
        """Return the gains that are edited for a label, or for the whole image."""
        return self.gains if label == WHOLE_IMAGE else self.label_gains.get(label, self.gains)

    def flags_of(self, name: str, label: int) -> Any:
        """Return ``muted`` or ``soloed`` for a label, or for the whole image."""
        return self.label_flags.get(label, {}).get(name, getattr(self, name))

    @property
    def labels(self) -> set[int]:
        """The labels that have settings of their own."""
        return {*self.label_gains, *self.label_flags, *self.label_strength}

    def strength_of(self, label: int) -> float:
        """Return the strength inside a label, or of the whole image."""
        if label == WHOLE_IMAGE:
            return self.strength
        return self.label_strength.get(label, self.strength)

    def with_strength(self, label: int, value: float) -> MixerState:
        """Set the strength inside a label, or of the whole image."""
        if label == WHOLE_IMAGE:
            return replace(self, strength=value)
        return replace(self, label_strength={**self.label_strength, label: value})

    def with_gain(self, label: int, block: int | None, index: int, value: float) -> MixerState:
        """Set one gain, in one block or (None) in all."""
        gain = float(np.clip(value, 0, MAX_GAIN))
        return self._with_gains(label, _changed(self.gains_of(label), block, index, gain))

    def with_flag(
        self, name: str, label: int, block: int | None, index: int, on: bool
    ) -> MixerState:
        """Set ``muted`` or ``soloed`` of one dilation, in one block or in all."""
        return self._with_flags(
            label, {name: _changed(self.flags_of(name, label), block, index, on)}
        )

    def set_back(self, label: int, block: int | None, index: int) -> MixerState:
        """Leave one dilation as the network has it: gain 1, neither muted nor soloed."""
        state = self.with_gain(label, block, index, 1.0)
        for name in ("muted", "soloed"):
            if any(row[index] for row in state.flags_of(name, label)):
                state = state.with_flag(name, label, block, index, False)
        return state

    def with_row(self, label: int, block: int | None, row: tuple[float, ...]) -> MixerState:
        """Set the gains of one block or of all; mute and solo go off."""
        rows = tuple(
            row if block in (None, number) else old
            for number, old in enumerate(self.gains_of(label))
        )
        off = MixerState.neutral(len(rows), len(row)).muted
        return self._with_gains(label, rows)._with_flags(label, {"muted": off, "soloed": off})

    def _with_flags(self, label: int, flags: Mapping[str, Any]) -> MixerState:
        if label == WHOLE_IMAGE:
            return replace(self, **flags)
        own = {**self.label_flags.get(label, {}), **flags}
        return replace(self, label_flags={**self.label_flags, label: own})

    def _with_gains(self, label: int, rows: Rows) -> MixerState:
        if label == WHOLE_IMAGE:
            return replace(self, gains=rows)
        return replace(self, label_gains={**self.label_gains, label: rows})

    def with_override(self, block: int, index: int, source: Any) -> MixerState:
        """Replace one alpha (counted from 1) by a layer or a number; None: the network's own."""
        others = {key: value for key, value in self.override.items() if key != (block, index)}
        if source is not None:
            others[block, index] = source
        return replace(self, override=others)

    def modulation(self, labels: Any = None, override: Mapping[Any, Any] | None = None) -> Any:
        """Return the engine's modulation; the label image and the maps come from layers."""
        from napari_kpac.engine import Modulation

        own = set() if labels is None else self.labels
        steered = sorted(own & {*self.label_gains, *self.label_flags})
        return Modulation(
            gains=self.effective(),
            override=override or {},
            labels=labels if own else None,
            label_gains={label: self.effective(label) for label in steered},
            strength=self.strength,
            label_strength={} if labels is None else dict(sorted(self.label_strength.items())),
        )


class History:
    """Settings gone through, for undo and redo."""

    MAX_STEPS = 200

    def __init__(self, state: MixerState) -> None:
        self._states = [state]
        self._place = 0
        self.pending: MixerState | None = None
        """Settings of a move that is not complete yet, and no step."""

    @property
    def state(self) -> MixerState:
        """The present settings, those of an incomplete move included."""
        return self.pending or self._states[self._place]

    def push(self, state: MixerState) -> None:
        """Make a new step; what was undone is forgotten."""
        self.pending = None
        if state != self.state:
            self._states = [*self._states[: self._place + 1], state][-self.MAX_STEPS :]
            self._place = len(self._states) - 1

    def undo(self) -> MixerState:
        """Go one step back, if there is one."""
        self.pending = None
        self._place = max(0, self._place - 1)
        return self.state

    def redo(self) -> MixerState:
        """Go one step forward again, if there is one."""
        self.pending = None
        self._place = min(len(self._states) - 1, self._place + 1)
        return self.state

    @property
    def can_undo(self) -> bool:
        """Whether there is a step back."""
        return self._place > 0 or self.pending is not None

    @property
    def can_redo(self) -> bool:
        """Whether there is a step forward."""
        return self._place < len(self._states) - 1


def presets(dilations: tuple[int, ...]) -> dict[str, tuple[float, ...]]:
    """Return named rows of gains: all, each alone, by size of blur, the paper's figure."""
    count = len(dilations)
    third = max(1, round(count / 3))

    def only(chosen: range | tuple[int, ...]) -> tuple[float, ...]:
        return tuple(float(index in chosen) for index in range(count))

    found = {"all (as trained)": (1.0,) * count}
    for index, dilation in enumerate(dilations):
        found[f"only dilation {dilation}"] = only((index,))
    found["small blur"] = only(range(third))
    found["medium blur"] = only(range(third, count - third) or (count // 2,))
    found["large blur"] = only(range(count - third, count))
    for index in {0, count // 2, count - 1}:
        row = ", ".join("1" if i == index else "0" for i in range(count))
        found[f"paper's figure: [{row}]"] = only((index,))
    return found


def _changed(rows: Any, block: int | None, index: int, value: Any) -> Any:
    """Return rows with another value at one place of one block or of all."""
    return tuple(
        (*row[:index], value, *row[index + 1 :]) if block in (None, number) else row
        for number, row in enumerate(rows)
    )
