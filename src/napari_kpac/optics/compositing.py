"""Blur the layers of a radius map with FFTs and lay them over each other. Torch.

Not for: sRGB, noise and highlights (batch).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from scipy.fft import next_fast_len
from scipy.ndimage import distance_transform_edt
from torch import Tensor

from napari_kpac.core.errors import ConfigError
from napari_kpac.optics.aperture import Aperture
from napari_kpac.optics.kernels import halves, psf
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


SHARP = 0.25
"""Radius in pixels below which a layer is in focus."""
ZONES = (-1.0, 0.0, 1.0)
"""Field positions at which the cat's eye is drawn; between them results are cross-faded."""


def composite(
    light: Tensor,
    bright: Tensor,
    scenes: Sequence[Layers],
    apertures: Sequence[Aperture],
    *,
    dual: bool,
    colours: Sequence[Sequence[float]] | None = None,
) -> Tensor:
    """Blur the linear light of a batch, layer by layer.

    Parameters
    ----------
    light, bright
        (B, C, H, W): what is seen in focus, and what spreads out of focus, where blown-out
        pixels may be brighter than white.
    scenes, apertures
        The layers and the lens of each image.
    dual
        Also make the left and right views.
    colours
        For each image, factors of the radius in each of its channels.

    Returns
    -------
    torch.Tensor
        (views, B, C, H, W): the whole aperture and, where asked for, its left and right half.

    Notes
    -----
    Where layers hide each other they are laid over each other one by one, far to near. Where
    none does, they are summed in the Fourier domain and transformed back once. Either way the
    light is divided by the mask that was blurred along with it. Where the channels have radii of
    their own, so has the mask of each.
    """
    views = light.new_empty(3 if dual else 1, *light.shape)
    occlude = [scene.occlude for scene in scenes]
    for wanted in sorted(set(occlude)):
        group = [i for i, hides in enumerate(occlude) if hides == wanted]
        own = light[group]
        work = _Group(
            own,
            own if bright is light else bright[group],
            [scenes[i] for i in group],
            [apertures[i] for i in group],
            dual=dual,
            colours=None if colours is None else [colours[i] for i in group],
        )
        views[:, group] = work.over() if wanted else work.sum()
    return views


class _Group:
    """Images that are blurred together, mirrored at their edges as far as the blur reaches."""

    def __init__(
        self,
        light: Tensor,
        bright: Tensor,
        scenes: Sequence[Layers],
        apertures: Sequence[Aperture],
        *,
        dual: bool,
        colours: Sequence[Sequence[float]] | None,
    ) -> None:
        self.scenes, self.apertures = scenes, apertures
        self.channels, self.masks = light.shape[1], 1 if colours is None else light.shape[1]
        # Without colours one kernel serves for all planes.
        self.factors = [(1.0,)] * len(scenes) if colours is None else colours
        self.views = 3 if dual else 1
        self.height, self.width = light.shape[-2:]
        self.count = max(len(scene.radii) for scene in scenes)
        self.fields = [(0.0, 0.0)]
        if any(aperture.cats_eye for aperture in apertures):
            self.fields = [(y, x) for y in ZONES for x in ZONES]
        self.margin = max(
            psf(aperture, float(np.abs(scene.radii).max()) * max(factors), field=field).shape[0]
            // 2
            for aperture, scene, factors in zip(apertures, scenes, self.factors, strict=True)
            for field in self.fields
        )
        self.rows, self.columns = (_mirror(n, self.margin) for n in (self.height, self.width))
        self.size = len(self.rows), len(self.columns)
        self.images = [
            (
                own,
                own if bright is light else bright[b],
                torch.from_numpy(scene.index).to(own.device),
            )
            for b, (own, scene) in enumerate(zip(light, scenes, strict=True))
        ]
        self.continued: dict[int, tuple[int, list[Tensor]]] = {}

    def over(self) -> Tensor:
        """Lay the layers over each other, far to near."""
        canvas = self._empty()
        for i in reversed(range(self.count)):
            planes = self._planes(i)
            if all(abs(_radius(scene, i)) < SHARP for scene in self.scenes):
                blurred = self._crop(planes, self.margin).expand(
                    self.views, *planes.shape[:2], -1, -1
                )
            else:
                spectrum = torch.fft.rfft2(planes)
                blurred = self._faded(
                    self._back_from(spectrum * self._transfer(i, field)) for field in self.fields
                )
            seen = 1 - blurred[:, :, self.channels :].clamp(0, 1)
            canvas = canvas * (seen if self.masks == 1 else self._twice(seen)) + blurred
        return self._divided(canvas)

    def sum(self) -> Tensor:
        """Sum the layers in the Fourier domain."""
        sums: list[Tensor] = []
        for i in range(self.count):
            spectrum = torch.fft.rfft2(self._planes(i))
            parts = [spectrum * self._transfer(i, field) for field in self.fields]
            sums = [a.add_(b) for a, b in zip(sums, parts, strict=True)] if sums else parts
        return self._divided(self._faded(self._back_from(spectrum) for spectrum in sums))

    def _planes(self, i: int) -> Tensor:
        """Return light and masks of one layer, (B, C + masks, h, w), zero outside the layer."""
        chosen = []
        for b, scene in enumerate(self.scenes):
            radius = _radius(scene, i)
            light, bright, index = self._continued(b, i)
            mask = (index == i).to(light.dtype)[None]
            passed = (light if abs(radius) < SHARP else bright) * mask
            chosen.append(torch.cat([passed, mask.expand(self.masks, -1, -1)]))
        return torch.stack(chosen)

    def _continued(self, b: int, i: int) -> list[Tensor]:
        """Light, bright and index of an image, continued behind what is nearer than a layer."""
        scene = self.scenes[b]
        first = scene.first_behind(i) if scene.occlude else 0
        if b not in self.continued or self.continued[b][0] != first:
            behind = scene.behind(first)
            if behind is None:
                behind = np.arange(self.height * self.width).reshape(self.height, self.width)
            pixels = torch.from_numpy(behind[self.rows[:, None], self.columns])
            pixels = pixels.to(self.images[b][0].device)
            light, bright, index = self.images[b]
            planes = [plane.flatten(-2)[..., pixels] for plane in (light, index)]
            planes.insert(1, planes[0] if bright is light else bright.flatten(-2)[..., pixels])
            # Layers are drawn in order, so that only the latest is wanted again.
            self.continued[b] = first, planes
        return self.continued[b][1]

    def _transfer(self, i: int, field: tuple[float, float]) -> Tensor:
        """Return the transfer functions of one layer, (views, B, 2 C or 1, h, w // 2 + 1)."""
        reach = 2 * self.margin + 1
        count = len(self.factors[0])
        drawn = np.zeros((self.views, len(self.scenes), count, reach, reach), dtype=np.float32)
        for b, (scene, aperture) in enumerate(zip(self.scenes, self.apertures, strict=True)):
            radius = _radius(scene, i)
            for c, factor in enumerate(self.factors[b]):
                size = abs(radius) * factor if abs(radius) >= SHARP else 0.0
                kernel = psf(aperture, size, field=field)
                edge = self.margin - kernel.shape[0] // 2
                inside = slice(edge, reach - edge)
                shapes = (kernel, *halves(kernel)) if self.views > 1 else (kernel,)
                for view, shape in enumerate(shapes):
                    # In front of the plane of focus the image of the opening is upside down.
                    drawn[view, b, c, inside, inside] = shape if radius >= 0 else shape[::-1, ::-1]
        kernels = torch.from_numpy(drawn).to(self.images[0][0].device)
        transfer: Tensor = torch.fft.rfft2(kernels, s=self.size)
        return transfer if self.masks == 1 else self._twice(transfer)

    def _back_from(self, spectrum: Tensor) -> Tensor:
        # The kernels sit in the corner instead of around it, which shifts everything by margin.
        return self._crop(torch.fft.irfft2(spectrum, s=self.size), 2 * self.margin)

    def _crop(self, planes: Tensor, start: int) -> Tensor:
        return planes[..., start : start + self.height, start : start + self.width]

    def _faded(self, parts: Iterable[Tensor]) -> Tensor:
        """Cross-fade what was blurred for each field position."""
        total = self._empty()
        for field, part in zip(self.fields, parts, strict=True):
            if len(self.fields) == 1:
                return part
            y, x = (
                (1 - (torch.linspace(-1, 1, size) - place).abs()).clamp(min=0)
                for size, place in zip((self.height, self.width), field, strict=True)
            )
            total += part * (y[:, None] * x).to(part.device)
        return total

    def _empty(self) -> Tensor:
        light = self.images[0][0]
        planes = self.channels + self.masks
        shape = self.views, len(self.scenes), planes, self.height, self.width
        zeros: Tensor = light.new_zeros(shape)
        return zeros

    @staticmethod
    def _twice(planes: Tensor) -> Tensor:
        """Return what is meant for the channels also for their masks."""
        return planes.repeat(1, 1, 2, 1, 1)

    def _divided(self, canvas: Tensor) -> Tensor:
        return canvas[:, :, : self.channels] / canvas[:, :, self.channels :].clamp(min=1e-4)


def _radius(scene: Layers, i: int) -> float:
    """Radius of a layer; 0 where an image has fewer layers than others of its batch."""
    return float(scene.radii[i]) if i < len(scene.radii) else 0.0


def _mirror(size: int, margin: int) -> npt.NDArray[np.int64]:
    """Give indices that mirror an axis at both ends, up to a length that suits the FFT."""
    length = next_fast_len(size + 2 * margin, real=True)
    place = (np.arange(length) - margin) % (2 * size)
    mirrored: npt.NDArray[np.int64] = np.minimum(place, 2 * size - 1 - place)
    return mirrored
