"""Apertures, and their point spread functions: what a lens makes of a point, drawn into pixels.

Not for: blurring images (synthesis).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

import numpy as np
from scipy.special import ndtr

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.optics.pixels import Doubles, check_finite

Kind = Literal["disc", "polygon", "gaussian", "rimmed"]
KINDS: tuple[Kind, ...] = get_args(Kind)
LENS_SHARES: dict[Kind, float] = {"disc": 0.41, "polygon": 0.41, "rimmed": 0.13, "gaussian": 0.05}
"""How frequent each kind is among lenses."""
_BOUNDS = {
    "blades": (3, 32),
    "curvature": (0, 1),
    "rim": (-1, 10),
    "cutoff": (0.05, 1),
    "order": (1, 32),
    "cats_eye": (0, 1),
    "softness": (0, 1),
}
MAX_RADIUS_PX = 1000.0
"""A larger radius of a point spread function is certainly a mistake."""
MIN_RADIUS_PX = 1e-3
"""Below this radius nothing leaves the middle pixel."""
GAUSSIAN_REACH = 4.0
"""How many sigma of a Gaussian are drawn."""
MAX_CENTRING_STEPS = 60
"""Few are needed but for clipped openings of less than a pixel."""


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
        _check_name(self.kind, KINDS)
        for name, (low, high) in _BOUNDS.items():
            value = getattr(self, name)
            if not low <= value <= high:
                raise ConfigError(f"{name}={value}: must lie in {low}..{high}")
        if not np.isfinite(self.rotation):
            raise ConfigError(f"rotation={self.rotation}: must be a finite number")


def find_aperture(given: str | Aperture, seed: int = 0) -> Aperture:
    """Return the aperture of a name; ``"random"`` draws one from the seed."""
    if isinstance(given, Aperture):
        return given
    if given == "random":
        return random_aperture(seed)
    _check_name(given, (*KINDS, "random"))
    return Aperture(given)  # type: ignore[arg-type]


def random_aperture(seed: int | np.random.Generator, kind: Kind | None = None) -> Aperture:
    """Draw a disc, polygon of 5 to 8 blades, Gaussian, or disc with a bright or dark rim.

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
    shares = np.cumsum(list(LENS_SHARES.values()))
    kind = list(LENS_SHARES)[int(np.searchsorted(shares, rng.uniform()))]
    softness, cats_eye = rng.uniform(0, 0.3), rng.uniform(0.1, 0.7)
    clipped = rng.uniform() < 1 / 6
    if kind == "gaussian":
        return Aperture(kind)
    return replace(
        random_aperture(rng, kind),
        softness=float(softness),
        cats_eye=float(cats_eye) if clipped else 0.0,
    )


def _check_name(name: str, names: tuple[str, ...]) -> None:
    if name not in names:
        raise ConfigError(f"no aperture is called {name!r}; choose one of {', '.join(names)}")


def psf(
    aperture: Aperture | None = None,
    radius: float = 1.0,
    *,
    field: tuple[float, float] = (0.0, 0.0),
) -> Doubles:
    """Draw the point spread function of an aperture.

    Parameters
    ----------
    aperture
        Shape of the opening; a disc where none is given.
    radius
        Radius of the circle of confusion in pixels. A disc fills that circle, a polygon has
        its corners on it, and a Gaussian has the second moment of the disc (sigma is half
        the radius).
    field
        Where in the image, (y, x) in -1..1 from the centre; only the cat's-eye clipping
        depends on it.

    Returns
    -------
    numpy.ndarray
        A read-only square of odd size whose sum is 1 and whose centre of gravity is its
        middle pixel. Edges are anti-aliased, so that the radius counts to fractions of a
        pixel; 0 gives a single pixel.
    """
    if not 0 <= radius <= MAX_RADIUS_PX:
        raise ConfigError(f"a radius lies in 0..{MAX_RADIUS_PX:g} pixels, not at {radius}")
    if not all(-1 <= place <= 1 for place in field):
        raise ConfigError(f"a field position lies in -1..1 on both axes, not at {field}")
    aperture = aperture or Aperture()
    if not aperture.cats_eye or not any(field):
        aperture, field = replace(aperture, cats_eye=0.0), (0.0, 0.0)
    return _draw(aperture, float(radius), (float(field[0]), float(field[1])))


def halves(kernel: Doubles, *, softness: float = 0.5) -> tuple[Doubles, Doubles]:
    """Split a point spread function into what the left and right half of the pixels see.

    The light is divided by a soft ramp across the middle, ``softness`` times the kernel's
    half width to each side, placed so that both halves get the same amount. Each half sums
    to 1 and their mean is the kernel.
    """
    check_kernel(kernel)
    if not 0 <= softness <= 1:
        raise ConfigError(f"the softness of the split lies in 0..1, not at {softness}")
    half = kernel.shape[1] // 2
    x = np.arange(-half, kernel.shape[1] - half, dtype=np.float64)
    columns = kernel.sum(axis=0)
    width = max(softness * half, 0.5)

    def share(split: float) -> Doubles:
        ramp: Doubles = 0.5 - 0.5 * np.clip((x - split) / width, -1, 1)
        return ramp

    low, high = -half - width, half + width
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if share(middle) @ columns < 0.5 else (low, middle)
    ramp = share((low + high) / 2)
    return 2 * kernel * ramp, 2 * kernel * (1 - ramp)


def check_kernel(kernel: Doubles, *, normalised: bool = True) -> None:
    """Raise unless a kernel is a finite plane of odd size and, if ``normalised``, sums to 1."""
    if kernel.ndim != 2 or not kernel.size:
        raise ImageError(f"a kernel is a plane of numbers, got shape {kernel.shape}")
    if kernel.shape[0] % 2 == 0 or kernel.shape[1] % 2 == 0:
        raise ImageError(
            f"a kernel needs odd sizes, so that it has a middle pixel; got {kernel.shape}"
        )
    check_finite(kernel, "kernel")
    total = float(kernel.sum())
    if normalised and abs(total - 1) > 1e-3:
        raise ImageError(f"a blur kernel sums to 1, this one to {total:g}; divide it by its sum")


@lru_cache(maxsize=512)
def _draw(aperture: Aperture, radius: float, field: tuple[float, float]) -> Doubles:
    if radius < MIN_RADIUS_PX:
        kernel = np.ones((1, 1))
    elif aperture.kind == "gaussian" and not aperture.cats_eye:
        kernel = _gaussian(radius / 2)
    else:
        kernel = _sampled(aperture, radius, field)
    kernel.flags.writeable = False
    return kernel


def _gaussian(sigma: float) -> Doubles:
    half = int(np.ceil(GAUSSIAN_REACH * sigma))
    line = np.diff(ndtr(np.arange(-half - 0.5, half + 1) / sigma))
    line /= line.sum()
    return np.outer(line, line)


def _sampled(aperture: Aperture, radius: float, field: tuple[float, float]) -> Doubles:
    """Average several samples per pixel, and move the grid until the result is centred."""
    reach = 2.0 if aperture.kind == "gaussian" else 1.0 + aperture.softness / 2
    half = int(np.ceil(reach * radius + 0.5 * aperture.cats_eye * radius - 0.5 + 1e-9))
    samples = int(np.clip(np.ceil(40 / radius), 3, 9)) | 1
    size = 2 * half + 1
    line = (np.arange(size * samples) + 0.5) / samples - 0.5 - half
    pixels = np.arange(-half, half + 1)
    y0 = x0 = 0.0
    for _ in range(MAX_CENTRING_STEPS):
        fine = _transmission(aperture, radius, line[:, None] + y0, line + x0, field, samples)
        kernel: Doubles = fine.reshape(size, samples, size, samples).mean(axis=(1, 3))
        kernel /= kernel.sum()
        dy, dx = pixels @ kernel.sum(axis=1), pixels @ kernel.sum(axis=0)
        if max(abs(dy), abs(dx)) < 1e-4:
            break
        y0, x0 = y0 + dy, x0 + dx
    return kernel


def _transmission(
    aperture: Aperture,
    radius: float,
    y: Doubles,
    x: Doubles,
    field: tuple[float, float],
    samples: int,
) -> Doubles:
    """Return how much light passes at each sample; a hard edge is one sample wide."""
    sharpness = radius * samples
    rho = np.hypot(y, x) / radius
    if aperture.kind == "gaussian":
        light = np.exp(-2 * rho**2) * (rho <= GAUSSIAN_REACH / 2)
    else:
        edge: Doubles | float = 1.0
        if aperture.kind == "polygon":
            edge = _polygon_edge(aperture, np.arctan2(-y, x))
        soft = aperture.softness
        steepness = min(sharpness, 1 / soft) if soft else sharpness
        light = np.clip((edge - rho) * steepness + 0.5, 0, 1)
    if aperture.kind == "rimmed":
        steep = 2 * aperture.order
        light = light * (1 + aperture.rim * rho**steep / (rho**steep + aperture.cutoff**steep))
    if aperture.cats_eye:
        shift = aperture.cats_eye / np.sqrt(2)
        clipped = np.hypot(y / radius + shift * field[0], x / radius + shift * field[1])
        light = light * np.clip((1 - clipped) * sharpness + 0.5, 0, 1)
    passed: Doubles = light
    return passed


def _polygon_edge(aperture: Aperture, angle: Doubles) -> Doubles:
    """Return the distance from the centre to the edge of a unit polygon at each angle."""
    sector = 2 * np.pi / aperture.blades
    within = np.mod(angle - np.deg2rad(aperture.rotation), sector) - sector / 2
    straight = np.cos(sector / 2) / np.cos(within)
    edge: Doubles = straight + aperture.curvature * (1 - straight)
    return edge
