"""``defocus``: blur one image as a lens would.

Not for: batches of tensors (batch), or files (datasets).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.errors import ConfigError
from napari_kpac.optics.aperture import Aperture, find_aperture
from napari_kpac.optics.pixels import Floats, check_map, from_unit, to_unit


@dataclass(frozen=True)
class Defocused:
    """A blurred image and what it was blurred with."""

    image: npt.NDArray[Any]
    """Same shape as the input."""
    radius: Floats
    """(H, W): the signed radius in pixels that each pixel was blurred with."""
    aperture: Aperture
    left: npt.NDArray[Any] | None = None
    right: npt.NDArray[Any] | None = None


def defocus(
    image: npt.ArrayLike,
    radius: npt.ArrayLike,
    aperture: str | Aperture = "disc",
    seed: int = 0,
    *,
    layers: int | None = None,
    shot: float = 0.0,
    read: float = 0.0,
    highlights: float = 0.0,
    dual: bool = False,
    linear: bool = False,
    dtype: npt.DTypeLike | None = None,
) -> Defocused:
    """Blur a sharp image as a lens that is out of focus would.

    Parameters
    ----------
    image
        Grey (H, W) or RGB (H, W, 3); uint8, uint16, or floats in 0..1.
    radius
        Radius of the circle of confusion in pixels, one number or one for each pixel.
        Negative is nearer than the plane of focus, and blurs over what is farther away.
    aperture
        "disc", "polygon", "gaussian", "rimmed", "random" (drawn from the seed), or an
        `Aperture`.
    seed
        Of the noise and of a random aperture; the same seed gives the same image.
    layers
        How many layers a map is cut into at most; None for one every half pixel or so.
    shot, read
        Noise of the sensor in linear light where white is 1: variance per unit of light, and
        standard deviation in the dark.
    highlights
        By how many stops small blown-out spots are taken to be brighter than white, so that
        they bloom into discs; 0 takes them as they are.
    dual
        Also make the left and right dual-pixel views.
    linear
        The image is linear light already, not sRGB.
    dtype
        Of the result: uint8, uint16 or a float type; None for that of the image.

    Returns
    -------
    Defocused
        The blurred image, the radius map as it was used, and the views.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_kpac.optics import defocus
    >>> blurred = defocus(np.eye(32), radius=2.5)
    >>> blurred.image.shape, float(blurred.radius[0, 0])
    ((32, 32), 2.5)
    """
    import torch

    from napari_kpac.optics.batch import Noise, defocus_batch

    pixels = to_unit(image)
    wanted = np.asarray(image).dtype if dtype is None else np.dtype(dtype)
    if not 0 <= highlights <= 10:
        raise ConfigError(f"highlights are 0 to 10 stops brighter than white, not {highlights}")
    found = find_aperture(aperture, seed)
    radii = check_map(radius, pixels.shape[:2], "radius map")
    channels = torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)
    made = defocus_batch(
        channels[None].contiguous(),
        radii[None],
        [found],
        layers=layers,
        noise=[Noise(shot, read)],
        highlights=[highlights],
        dual=dual,
        linear=linear,
        generator=torch.Generator().manual_seed(seed),
    )

    views = [
        from_unit(view[0].permute(1, 2, 0).contiguous().numpy().reshape(pixels.shape), wanted)
        for view in (made.image, made.left, made.right)
        if view is not None
    ]
    left, right = views[1:] or (None, None)
    return Defocused(views[0], made.radius[0].numpy(), found, left, right)
