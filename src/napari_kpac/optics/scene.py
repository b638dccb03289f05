"""Scenes: radius maps drawn from a seed, and radius maps cut into layers.

Not for: blurring images with them (synthesis).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt, zoom
from skimage.draw import polygon2mask

from napari_kpac.core.errors import ConfigError
from napari_kpac.optics.pixels import Floats

Kind = Literal["plane", "tilted", "objects", "smooth"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Ints = npt.NDArray[np.int64]

LAYER_STEP_PX = 0.5
"""Radius between layers where their number is not given."""
MAX_LAYERS = 48
"""Layers at most where their number is not given."""
MAX_SLOPE_PX = 1.0
"""A larger change of radius from one pixel to the next is a step in depth."""
NEAR_RADIUS_PX = -0.5
"""Below this radius a layer spreads visibly over what is behind it."""


def radius_map(
    shape: tuple[int, int],
    seed: int | np.random.Generator,
    *,
    largest: float = 8.0,
    kind: str | None = None,
    near: bool = True,
) -> Floats:
    """Draw the radius map of a scene.

    Parameters
    ----------
    shape
        (H, W) of the map.
    seed
        The same seed gives the same map.
    largest
        No radius is larger, in pixels.
    kind
        "plane" (one radius), "tilted" (a plane seen at an angle), "smooth" (a rolling field)
        or "objects" (shapes with sharp outlines before one of the others, each nearer than
        what it covers); None draws one.
    near
        Whether parts may be nearer than the plane of focus, which are negative.

    Examples
    --------
    >>> from napari_kpac.optics import radius_map
    >>> radius_map((4, 6), seed=1, kind="plane").shape
    (4, 6)
    """
    if kind is not None and kind not in KINDS:
        raise ConfigError(f"no scene is called {kind!r}; choose one of {', '.join(KINDS)}")
    if len(shape) != 2 or min(shape) < 1:
        raise ConfigError(f"a map needs a height and a width of at least 1, not {shape}")
    if not 0 <= largest < np.inf:
        raise ConfigError(f"the largest radius must be 0 or more and finite, not {largest}")
    rng = np.random.default_rng(seed)
    kind = kind or KINDS[int(rng.integers(len(KINDS)))]
    low = -largest if near else 0.0
    radius = (
        _objects(shape, rng, low, largest)
        if kind == "objects"
        else _surface(shape, rng, low, largest, kind)
    )
    return np.clip(radius, low, largest).astype(np.float32)


def _surface(
    shape: tuple[int, int], rng: np.random.Generator, low: float, high: float, kind: str
) -> Floats:
    first, second = rng.uniform(low, high, 2)
    if kind == "plane":
        return np.full(shape, first, dtype=np.float32)
    field = _ramp(shape, rng) if kind == "tilted" else _rolling(shape, rng)
    surface: Floats = (first + (second - first) * field).astype(np.float32)
    return surface


def _ramp(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Rise from 0 to 1 along a random direction."""
    angle = rng.uniform(0, 2 * np.pi)
    y, x = (np.linspace(-1, 1, size, dtype=np.float32) for size in shape)
    ramp = np.sin(angle) * y[:, None] + np.cos(angle) * x
    return _stretched(ramp)


def _rolling(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Rise and fall smoothly between 0 and 1."""
    cells = int(rng.integers(3, 7))
    coarse = rng.uniform(size=(cells, cells)).astype(np.float32)
    fine = zoom(coarse, [size / cells for size in shape], order=3, mode="nearest", grid_mode=True)
    return _stretched(fine[: shape[0], : shape[1]])


def _stretched(values: Floats) -> Floats:
    span = float(values.max() - values.min())
    stretched: Floats = (values - values.min()) / (span or 1.0)
    return stretched


def _objects(shape: tuple[int, int], rng: np.random.Generator, low: float, high: float) -> Floats:
    """Put shapes before a background, each nearer than everything that it covers."""
    count = int(rng.integers(2, 8))
    depths = np.sort(rng.uniform(low, high, count + 1))[::-1]
    kind = ("plane", "tilted", "smooth")[int(rng.integers(3))]
    scene = _surface(shape, rng, float(depths[0]), high, kind)
    for depth in depths[1:]:
        outline = _outline(shape, rng)
        tilt = rng.uniform(0, 0.1) * (high - low)
        scene = np.where(outline, np.minimum(scene, depth + tilt * (_ramp(shape, rng) - 1)), scene)
    return scene


def _outline(shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Draw a filled shape with 3 to 40 corners, from jagged to round."""
    corners = int(rng.choice([3, 4, 5, 6, 40]))
    angles = (
        np.sort(rng.uniform(0, 2 * np.pi, corners))
        if corners < 40
        else np.linspace(0, 2 * np.pi, corners, endpoint=False)
    )
    size = rng.uniform(0.1, 0.45) * min(shape)
    stretch = rng.uniform(0.6, 1.6)
    wobble = 1 + rng.uniform(0, 0.3) * np.sin(rng.integers(2, 6) * angles + rng.uniform(0, 6))
    y = rng.uniform(0, shape[0]) + size * wobble * stretch * np.sin(angles)
    x = rng.uniform(0, shape[1]) + size * wobble / stretch * np.cos(angles)
    outline: Floats = polygon2mask(shape, np.stack([y, x], axis=1))
    return outline


@dataclass(frozen=True)
class Layers:
    """A radius map in layers, ordered near to far."""

    radii: Floats
    """Signed radius of each layer in pixels, rising."""
    index: Ints
    """(H, W): the layer of each pixel."""
    occlude: bool
    """Whether the surface has steps, so that one layer can hide another."""

    @property
    def radius(self) -> Floats:
        """The radius map as it is used: every pixel at the radius of its layer."""
        used: Floats = self.radii[self.index]
        return used

    def first_behind(self, layer: int) -> int:
        """Return the nearest layer that continues behind others when ``layer`` is drawn.

        Near layers spread over what is behind them, which therefore must be there: each
        continues behind those that are nearer. Of the layers that are not near, only the near
        ones hide something that will show.
        """
        near = int(np.count_nonzero(self.radii < NEAR_RADIUS_PX))
        return min(layer, near) if self.occlude else 0

    def behind(self, first: int) -> Ints:
        """Continue the layers from ``first`` on behind the nearer ones.

        Returns for each pixel the flat index of the closest pixel of those layers, which is
        the pixel itself where it is of one of them.
        """
        hidden = self.index < first
        if not hidden.any():
            return np.arange(hidden.size).reshape(hidden.shape)
        nearest = distance_transform_edt(hidden, return_distances=False, return_indices=True)
        flat: Ints = np.ravel_multi_index(tuple(nearest), hidden.shape).astype(np.int64)
        return flat


def cut(radius: Floats, most: int | None = None) -> Layers:
    """Cut a map into at most ``most`` layers.

    A map with few values keeps them. Otherwise layers lie at multiples of one step, so that
    the plane of focus is one of them.
    """
    if most is not None and most < 1:
        raise ConfigError(f"at least one layer is needed, not {most}")
    span = float(radius.max() - radius.min())
    count = min(MAX_LAYERS, int(span / LAYER_STEP_PX) + 2) if most is None else most
    radii, index = np.unique(radius, return_inverse=True)
    if len(radii) > count:
        step = span / max(count - 1, 1)
        multiples, index = np.unique(np.rint(radius / step), return_inverse=True)
        radii = (multiples * step).astype(np.float32)
    steepest = max(float(np.abs(np.diff(radius, axis=a)).max(initial=0)) for a in (0, 1))
    return Layers(radii, index.reshape(radius.shape).astype(np.int64), steepest > MAX_SLOPE_PX)
