"""Cut a radius map into layers, near to far, and find what lies behind the near ones.

Not for: blurring them (compositing).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import distance_transform_edt

from napari_kpac.core.errors import ConfigError
from napari_kpac.optics.pixels import Floats

STEP = 0.5
"""Pixels of radius between layers where their number is not given."""
MOST = 48
"""Layers at most where their number is not given."""
STEEPEST = 1.0
"""Pixels of radius from one pixel to the next above which a surface has a step."""
NEAR = -0.5
"""Radius in pixels below which a layer spreads visibly over what is behind it."""

Ints = npt.NDArray[np.int64]


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
        """Give the nearest layer whose surface may continue behind others when ``layer`` is drawn.

        Near layers spread over what is behind them, which therefore must be there: each
        continues behind those that are nearer. Of the layers that are not near, only the near
        ones hide something that will show.
        """
        near = int(np.count_nonzero(self.radii < NEAR))
        return min(layer, near)

    def behind(self, first: int) -> Ints | None:
        """Continue the layers from ``first`` on behind the nearer ones.

        Returns for each pixel the flat index of the closest pixel of those layers, which is
        the pixel itself where it is of one of them; None where nothing is hidden.
        """
        hidden = self.index < first
        if not hidden.any():
            return None
        nearest = distance_transform_edt(hidden, return_distances=False, return_indices=True)
        flat: Ints = np.ravel_multi_index(tuple(nearest), self.index.shape).astype(np.int64)
        return flat


def cut(radius: Floats, most: int | None = None) -> Layers:
    """Cut a map into at most ``most`` layers.

    A map with few values keeps them. Otherwise layers lie at multiples of one step, so that
    the plane of focus is one of them.
    """
    if most is not None and most < 1:
        raise ConfigError(f"at least one layer is needed, not {most}")
    span = float(radius.max() - radius.min())
    count = min(MOST, int(span / STEP) + 2) if most is None else most
    radii, index = np.unique(radius, return_inverse=True)
    if len(radii) > count:
        step = span / max(count - 1, 1)
        multiples, index = np.unique(np.rint(radius / step), return_inverse=True)
        radii = (multiples * step).astype(np.float32)
    steepest = max(float(np.abs(np.diff(radius, axis=a)).max(initial=0)) for a in (0, 1))
    return Layers(radii, index.reshape(radius.shape).astype(np.int64), steepest > STEEPEST)
