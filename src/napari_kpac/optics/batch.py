"""Defocus for a batch of images at once, as training wants it. Torch.

Not for: single images with a dtype (defocusing).
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
from napari_kpac.optics.aperture import Aperture
from napari_kpac.optics.compositing import composite, cut
from napari_kpac.optics.light import to_linear, to_srgb
from napari_kpac.optics.pixels import check_finite

KNEE = 0.9
"""Mean sRGB value from which on a pixel may have been brighter than white."""
SURROUNDINGS = 15
"""Pixels to each side within which a highlight must be small: a bright sky is none."""
SIDE = 2 * SURROUNDINGS + 1
SMALL = 0.25
"""Share of its surroundings that a highlight fills at most."""


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
class Batch:
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
) -> Batch:
    """Blur a batch of images, each with its own radius map and aperture.

    Parameters
    ----------
    images
        (B, C, H, W) float32 in 0..1; sRGB, or linear light where ``linear`` says so.
    radius
        (B, H, W) signed circle-of-confusion radii in pixels; negative is nearer than the
        plane of focus.
    apertures
        One for each image.
    layers
        How many layers at most; where not given, about one for every half pixel of radius.
        A map with no more values than that is kept exactly.
    noise, highlights
        For each image: the sensor's noise, and by how many stops small blown-out spots
        are taken to be brighter than white.
    colours
        For each image, factors of the radius in each of its channels: a lens does not bring
        all colours into focus at the same distance.
    dual
        Also make the left and right dual-pixel views.
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
        bright = light
        if highlights is not None and any(highlights):
            bright = _brighten(light, to_srgb(images) if linear else images, highlights)
        scenes = [cut(plane, layers) for plane in maps]
        own = None if factors == {1.0} else colours
        views = composite(light, bright, scenes, apertures, dual=dual, colours=own)
        for i, given in enumerate(noise or ()):
            if given.shot or given.read:
                random = torch.randn(views[:, i].shape, generator=generator).to(views.device)
                variance = views[:, i].clamp(min=0) * given.shot + given.read**2
                views[:, i] += random * variance.sqrt()
        views.clamp_(0, 1)
        finished = list(views if linear else to_srgb(views).clamp_(0, 1))
    used = torch.from_numpy(np.stack([scene.radius for scene in scenes]))
    return Batch(finished[0], used.to(images.device), *finished[1:])


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
    """Give small blown-out spots the brightness that they may have had."""
    ramp = ((encoded.mean(dim=1, keepdim=True) - KNEE) / (1 - KNEE)).clamp(0, 1)
    ramp = ramp * ramp * (3 - 2 * ramp)
    filled = ramp
    for window, padding in (((SIDE, 1), (SURROUNDINGS, 0)), ((1, SIDE), (0, SURROUNDINGS))):
        filled = avg_pool2d(filled, window, stride=1, padding=padding, count_include_pad=False)
    gain = light.new_tensor(list(stops)).view(-1, 1, 1, 1).exp2() - 1
    return light * (1 + gain * ramp * (1 - filled / SMALL).clamp(min=0))
