"""Synthetic defocus: blur one image, or a batch of tensors, as a lens would.

Not for: layers and kernels (compositing, aperture), or files of pairs (datasets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.optics.aperture import Aperture, find_aperture
from napari_kpac.optics.compositing import composite
from napari_kpac.optics.pixels import (
    Floats,
    check_finite,
    check_map,
    from_unit,
    to_linear,
    to_srgb,
    to_unit,
)
from napari_kpac.optics.scene import cut

HIGHLIGHT_FROM = 0.9
"""Mean sRGB value from which on a pixel may have been brighter than white."""
HIGHLIGHT_REACH_PX = 15
"""Pixels to each side within which a highlight must be small: a bright sky is none."""
MAX_HIGHLIGHT_SHARE = 0.25
"""Share of these surroundings that a highlight fills at most."""


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
        How many layers a map is cut into at most; None for one every half pixel or so. A map
        with no more values than that is kept exactly.
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
    pixels = to_unit(image)
    wanted = np.asarray(image).dtype if dtype is None else np.dtype(dtype)
    if not 0 <= highlights <= 10:
        raise ConfigError(f"highlights are 0 to 10 stops brighter than white, not {highlights}")
    found = find_aperture(aperture, seed)
    radii = check_map(radius, pixels.shape[:2], "radius map")
    channels = torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1)).permute(2, 0, 1)
    batch = defocus_batch(
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
        for view in (batch.image, batch.left, batch.right)
        if view is not None
    ]
    return Defocused(views[0], batch.radius[0].numpy(), found, *views[1:])


@dataclass(frozen=True)
class Noise:
    """Noise of a sensor, in linear light where white is 1."""

    shot: float = 0.0
    """Variance per unit of light: one over the number of electrons at white."""
    read: float = 0.0
    """Standard deviation in the dark."""

    def __post_init__(self) -> None:
        for name, value in (("shot", self.shot), ("read", self.read)):
            if not 0 <= value <= 1:
                raise ConfigError(f"{name} noise lies in 0..1, not at {value}")


@dataclass(frozen=True)
class DefocusedBatch:
    """Blurred images, and the radius that each pixel was blurred with."""

    image: Tensor
    """(B, C, H, W) in 0..1, encoded like the input."""
    radius: Tensor
    """(B, H, W) signed, in pixels, as quantised to the layers."""
    left: Tensor | None = None
    right: Tensor | None = None


def defocus_batch(
    images: Tensor,
    radius: Tensor | npt.NDArray[Any],
    apertures: Sequence[Aperture],
    *,
    layers: int | None = None,
    noise: Sequence[Noise] | None = None,
    highlights: Sequence[float] | None = None,
    colours: Sequence[Sequence[float]] | None = None,
    dual: bool = False,
    linear: bool = False,
    generator: torch.Generator | None = None,
) -> DefocusedBatch:
    """Blur a batch of images, each with its own radius map and aperture.

    Parameters
    ----------
    images
        (B, C, H, W) float32 in 0..1.
    radius
        (B, H, W) signed radii in pixels.
    layers, dual, linear
        As in `defocus`.
    apertures, noise, highlights
        One for each image, as in `defocus`.
    colours
        For each image, factors of the radius in each of its channels: a lens does not bring
        all colours into focus at the same distance.
    generator
        Source of the noise, on the CPU.
    """
    if images.ndim != 4 or not images.numel():
        raise ImageError(f"a batch has the shape (B, C, H, W), got {tuple(images.shape)}")
    batch, channels, height, width = images.shape
    maps = np.asarray(radius.cpu() if isinstance(radius, Tensor) else radius, dtype=np.float32)
    counts = [len(given) for given in (apertures, noise, highlights, colours) if given is not None]
    if maps.shape != (batch, height, width) or any(count != batch for count in counts):
        raise ImageError(
            f"{batch} images of {width}x{height} need as many radius maps, apertures and other"
            f" values; got maps of shape {maps.shape} and {len(apertures)} apertures"
        )
    check_finite(maps, "radius map")
    factors = _checked_factors(colours, channels)
    reach = float(np.abs(maps).max()) * max(factors)
    if reach > min(height, width):
        raise ImageError(
            f"a radius of {reach:g} pixels is larger than the image ({width}x{height});"
            " use a smaller radius or a larger image"
        )
    with torch.no_grad():
        light = images if linear else to_linear(images)
        if highlights is not None and any(highlights):
            light = _brighten(light, to_srgb(images) if linear else images, highlights)
        else:
            light = light[:, None]
        scenes = [cut(plane, layers) for plane in maps]
        own = None if factors == {1.0} else colours
        views = composite(light, scenes, apertures, dual=dual, colours=own)
        for i, given in enumerate(noise or ()):
            if given.shot or given.read:
                random = torch.randn(views[:, i].shape, generator=generator).to(views.device)
                variance = views[:, i].clamp(min=0) * given.shot + given.read**2
                views[:, i] += random * variance.sqrt()
        views.clamp_(0, 1)
        finished = list(views if linear else to_srgb(views).clamp_(0, 1))
    used = torch.from_numpy(np.stack([scene.radius for scene in scenes]))
    return DefocusedBatch(finished[0], used.to(images.device), *finished[1:])


def _checked_factors(colours: Sequence[Sequence[float]] | None, channels: int) -> set[float]:
    """Return all factors of the radius; raise unless every channel has a positive one."""
    for factors in colours or ():
        if len(factors) != channels or not all(0 < factor < np.inf for factor in factors):
            raise ConfigError(
                f"{channels} channels need as many factors of the radius, above 0; got"
                f" {tuple(factors)}"
            )
    return {float(factor) for factors in colours or () for factor in factors} or {1.0}


def _brighten(light: Tensor, encoded: Tensor, stops: Sequence[float]) -> Tensor:
    """Return light as it is, and with small blown-out spots as bright as they may have been."""
    ramp = ((encoded.mean(dim=1, keepdim=True) - HIGHLIGHT_FROM) / (1 - HIGHLIGHT_FROM)).clamp(0, 1)
    ramp = ramp * ramp * (3 - 2 * ramp)
    filled, reach = ramp, HIGHLIGHT_REACH_PX
    for window, padding in (((2 * reach + 1, 1), (reach, 0)), ((1, 2 * reach + 1), (0, reach))):
        filled = avg_pool2d(filled, window, stride=1, padding=padding, count_include_pad=False)
    gain = light.new_tensor(list(stops)).view(-1, 1, 1, 1).exp2() - 1
    small = (1 - filled / MAX_HIGHLIGHT_SHARE).clamp(min=0)
    return torch.stack([light, light * (1 + gain * ramp * small)], dim=1)
