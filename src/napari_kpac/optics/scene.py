"""Radius maps of made-up scenes, from a seed.

Not for: blurring images with them (defocusing).
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from scipy.ndimage import zoom
from skimage.draw import polygon2mask

from napari_kpac.core.errors import ConfigError
from napari_kpac.optics.pixels import Floats

Kind = Literal["plane", "tilted", "objects", "smooth"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def radius_map(
    shape: tuple[int, int],
    seed: int | np.random.Generator,
    *,
    largest: float = 8.0,
    kind: str | None = None,
    near: bool = True,
) -> Floats:
    """Make the radius map of a scene.

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
    made = (
        _objects(shape, rng, low, largest)
        if kind == "objects"
        else _surface(shape, rng, low, largest, kind)
    )
    return np.clip(made, low, largest).astype(np.float32)


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
