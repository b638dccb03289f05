"""The shape of a lens opening, as a small value that can be named, drawn at random and stored.

Not for: pixels (kernels).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from napari_kpac.core.errors import ConfigError

Kind = Literal["disc", "polygon", "gaussian", "rimmed"]
KINDS: tuple[Kind, ...] = ("disc", "polygon", "gaussian", "rimmed")
NAMES = (*KINDS, "random")
LENS_KINDS: tuple[Kind, ...] = ("disc", "polygon", "rimmed", "gaussian")
LENS_SHARES = (0.41, 0.41, 0.13, 0.05)
"""How frequent each of these kinds is among lenses."""


@dataclass(frozen=True)
class Aperture:
    """The shape of the opening; how large its blur is, is a matter of the radius."""

    kind: Kind = "disc"
    blades: int = 6
    """Corners of a polygon."""
    rotation: float = 0.0
    """Of a polygon, in degrees, counter-clockwise; at 0 a corner points to the right."""
    curvature: float = 0.0
    """Of a polygon's blades: 0 straight, 1 so round that the polygon is a disc."""
    rim: float = 1.0
    """Of a rimmed disc: how much brighter (above 0) or darker (down to -1) the rim is."""
    cutoff: float = 0.8
    """Of a rimmed disc: where the rim begins, as a share of the radius."""
    order: int = 4
    """Of a rimmed disc: steepness of the Butterworth profile between inside and rim."""
    cats_eye: float = 0.0
    """How far the barrel clips the opening in the corners: 0 not at all, 1 to a narrow lens."""
    softness: float = 0.0
    """Width of the edge of a disc, rim or polygon, as a share of the radius: 0 is a hard edge."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"no aperture is called {self.kind!r}; choose one of {_or(KINDS)}")
        if not 3 <= self.blades <= 32:
            raise ConfigError(f"an aperture has 3 to 32 blades, not {self.blades}")
        _within("curvature", self.curvature, 0, 1)
        _within("rim", self.rim, -1, 10)
        _within("cutoff", self.cutoff, 0.05, 1)
        _within("cats_eye", self.cats_eye, 0, 1)
        _within("softness", self.softness, 0, 1)
        if not 1 <= self.order <= 32:
            raise ConfigError(f"the order of a Butterworth profile is 1 to 32, not {self.order}")
        if not np.isfinite(self.rotation):
            raise ConfigError(f"the rotation must be a finite number, not {self.rotation}")


def find_aperture(given: str | Aperture, seed: int = 0) -> Aperture:
    """Give the aperture that a name stands for; ``"random"`` draws one from the seed."""
    if isinstance(given, Aperture):
        return given
    if given == "random":
        return random_aperture(seed)
    if given not in KINDS:
        raise ConfigError(f"no aperture is called {given!r}; choose one of {_or(NAMES)}")
    return Aperture(kind=given)


def random_aperture(seed: int | np.random.Generator, kind: Kind | None = None) -> Aperture:
    """Draw one: disc, polygon of 5 to 8 blades, Gaussian, or disc with a bright or dark rim.

    With a ``kind``, only what is left open by it is drawn.
    """
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    if kind == "polygon":
        return Aperture(
            kind,
            blades=int(rng.integers(5, 9)),
            rotation=float(rng.uniform(0, 360)),
            curvature=float(rng.uniform(0, 0.8)),
        )
    if kind == "rimmed":
        bright = bool(rng.integers(2))
        rim = rng.uniform(0.3, 1.5) if bright else rng.uniform(-0.8, -0.3)
        return Aperture(kind, rim=float(rim), cutoff=float(rng.uniform(0.6, 0.9)))
    return Aperture(kind)


def random_lens(rng: np.random.Generator) -> Aperture:
    """Draw an aperture as photographic lenses have them.

    Discs and polygons with soft edges are the rule (41 % each), rims less frequent (13 %),
    Gaussians rare (5 %). One lens in six clips its opening towards the corners.
    """
    kind = LENS_KINDS[int(np.searchsorted(np.cumsum(LENS_SHARES), rng.uniform()))]
    softness, cats_eye = rng.uniform(0, 0.3), rng.uniform(0.1, 0.7)
    clipped = rng.uniform() < 1 / 6
    if kind == "gaussian":
        return Aperture(kind)
    return replace(
        random_aperture(rng, kind),
        softness=float(softness),
        cats_eye=float(cats_eye) if clipped else 0.0,
    )


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"the {name} of an aperture lies in {low}..{high}, not at {value}")


def _or(names: tuple[str, ...]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}"
