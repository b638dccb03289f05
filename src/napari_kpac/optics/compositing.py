"""Blur the layers of scenes with FFTs, and lay them over each other.

Not for: sRGB, noise and highlights (synthesis).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.fft import next_fast_len
from torch import Tensor

from napari_kpac.optics.aperture import Aperture, halves, psf
from napari_kpac.optics.scene import Layers

SHARP_RADIUS_PX = 0.25
"""Below this radius a layer is in focus."""
ZONES = (-1.0, 0.0, 1.0)
"""Field positions at which the cat's eye is drawn; between them results are cross-faded."""


def composite(
    light: Tensor,
    scenes: Sequence[Layers],
    apertures: Sequence[Aperture],
    *,
    dual: bool,
    colours: Sequence[Sequence[float]] | None = None,
) -> Tensor:
    """Blur the linear light of a batch, layer by layer: (views, B, C, H, W).

    ``light`` is (B, 1 or 2, C, H, W): where there are two, the first is for layers in focus and
    the second, which may be brighter than white, for those out of focus. The views are that of
    the whole aperture and, with ``dual``, those of its left and right half. ``colours`` are
    factors of the radius in each channel of each image.

    Where layers hide each other they are laid over each other one by one, far to near. Where
    none does, they are summed in the Fourier domain and transformed back once. Either way the
    light is divided by the mask that was blurred along with it. Where the channels have radii of
    their own, so has the mask of each.
    """
    views = light.new_empty(3 if dual else 1, light.shape[0], *light.shape[2:])
    # Without colours one kernel and one mask serve for all channels.
    factors = [(1.0,)] * len(scenes) if colours is None else colours
    for occlude in (False, True):
        group = [i for i, scene in enumerate(scenes) if scene.occlude == occlude]
        if group:
            work = _Group(
                light[group],
                [scenes[i] for i in group],
                [apertures[i] for i in group],
                [factors[i] for i in group],
                len(views),
            )
            views[:, group] = work.over() if occlude else work.sum()
    return views


class _Group:
    """Images that are blurred together, mirrored at their edges as far as the blur reaches."""

    def __init__(
        self,
        light: Tensor,
        scenes: Sequence[Layers],
        apertures: Sequence[Aperture],
        factors: Sequence[Sequence[float]],
        views: int,
    ) -> None:
        self.light, self.scenes, self.apertures = light, scenes, apertures
        self.factors, self.masks, self.views = factors, len(factors[0]), views
        self.channels, self.height, self.width = light.shape[2:]
        self.count = max(len(scene.radii) for scene in scenes)
        self.radii = np.zeros((len(scenes), self.count))
        for radii, scene in zip(self.radii, scenes, strict=True):
            # An image with fewer layers than others of its batch has empty ones in focus.
            radii[: len(scene.radii)] = scene.radii
        self.fields = [(0.0, 0.0)]
        if any(aperture.cats_eye for aperture in apertures):
            self.fields = [(y, x) for y in ZONES for x in ZONES]
        largest = np.abs(self.radii).max(axis=1) * [max(own) for own in factors]
        self.margin = max(
            psf(aperture, radius, field=field).shape[0] // 2
            for aperture, radius in zip(apertures, largest, strict=True)
            for field in self.fields
        )
        self.rows, self.columns = (_mirror(n, self.margin) for n in (self.height, self.width))
        self.size = len(self.rows), len(self.columns)
        self.index = [torch.from_numpy(scene.index).to(light.device) for scene in scenes]
        self.continued: dict[int, tuple[int, Tensor, Tensor]] = {}

    def over(self) -> Tensor:
        """Lay the layers over each other, far to near."""
        canvas = self.light.new_zeros(())
        for i in reversed(range(self.count)):
            planes = self._planes(i)
            if (np.abs(self.radii[:, i]) < SHARP_RADIUS_PX).all():
                blurred = self._crop(planes, self.margin).expand(
                    self.views, *planes.shape[:2], -1, -1
                )
            else:
                spectrum = torch.fft.rfft2(planes)
                blurred = self._fade(
                    self._back_from(spectrum * self._transfer(i, field)) for field in self.fields
                )
            seen = 1 - blurred[:, :, self.channels :].clamp(0, 1)
            canvas = canvas * self._for_planes(seen) + blurred
        return self._divide_by_masks(canvas)

    def sum(self) -> Tensor:
        """Sum the layers in the Fourier domain."""
        sums: list[Tensor] = []
        for i in range(self.count):
            spectrum = torch.fft.rfft2(self._planes(i))
            parts = [spectrum * self._transfer(i, field) for field in self.fields]
            sums = [a.add_(b) for a, b in zip(sums, parts, strict=True)] if sums else parts
        return self._divide_by_masks(self._fade(self._back_from(spectrum) for spectrum in sums))

    def _planes(self, i: int) -> Tensor:
        """Return light and masks of one layer, (B, C + masks, h, w), zero outside the layer."""
        chosen = []
        for b, radius in enumerate(self.radii[:, i]):
            light, index = self._continue(b, i)
            mask = (index == i).to(light.dtype)[None]
            passed = light[0 if abs(radius) < SHARP_RADIUS_PX else -1] * mask
            chosen.append(torch.cat([passed, mask.expand(self.masks, -1, -1)]))
        return torch.stack(chosen)

    def _continue(self, b: int, i: int) -> tuple[Tensor, Tensor]:
        """Return light and index of an image, continued behind what is nearer than a layer."""
        scene = self.scenes[b]
        first = scene.first_behind(i)
        if b not in self.continued or self.continued[b][0] != first:
            pixels = torch.from_numpy(scene.behind(first)[self.rows[:, None], self.columns])
            pixels = pixels.to(self.light.device)
            light, index = self.light[b].flatten(-2), self.index[b].flatten()
            # Layers are drawn in order, so that only the latest is wanted again.
            self.continued[b] = first, light[..., pixels], index[pixels]
        return self.continued[b][1:]

    def _transfer(self, i: int, field: tuple[float, float]) -> Tensor:
        """Return the transfer functions of one layer, (views, B, 2 C or 1, h, w // 2 + 1)."""
        reach = 2 * self.margin + 1
        shape = self.views, len(self.scenes), self.masks, reach, reach
        drawn = np.zeros(shape, dtype=np.float32)
        for b, (radius, aperture) in enumerate(zip(self.radii[:, i], self.apertures, strict=True)):
            for c, factor in enumerate(self.factors[b]):
                size = abs(radius) * factor if abs(radius) >= SHARP_RADIUS_PX else 0.0
                kernel = psf(aperture, size, field=field)
                edge = self.margin - kernel.shape[0] // 2
                inside = slice(edge, reach - edge)
                kernels = (kernel, *halves(kernel)) if self.views > 1 else (kernel,)
                for view, each in enumerate(kernels):
                    # In front of the plane of focus the image of the opening is upside down.
                    drawn[view, b, c, inside, inside] = each if radius >= 0 else each[::-1, ::-1]
        spread = torch.from_numpy(drawn).to(self.light.device)
        return self._for_planes(torch.fft.rfft2(spread, s=self.size))

    def _for_planes(self, values: Tensor) -> Tensor:
        """Return what is meant for each channel also for its mask; one for all is broadcast."""
        return values if self.masks == 1 else values.repeat(1, 1, 2, 1, 1)

    def _back_from(self, spectrum: Tensor) -> Tensor:
        # The kernels sit in the corner instead of around it, which shifts everything by margin.
        return self._crop(torch.fft.irfft2(spectrum, s=self.size), 2 * self.margin)

    def _crop(self, planes: Tensor, start: int) -> Tensor:
        return planes[..., start : start + self.height, start : start + self.width]

    def _fade(self, parts: Iterable[Tensor]) -> Tensor:
        """Cross-fade what was blurred for each field position."""
        planes = self.channels + self.masks
        shape = self.views, len(self.scenes), planes, self.height, self.width
        total: Tensor = self.light.new_zeros(shape)
        for field, part in zip(self.fields, parts, strict=True):
            if len(self.fields) == 1:
                return part
            y, x = (
                (1 - (torch.linspace(-1, 1, size) - place).abs()).clamp(min=0)
                for size, place in zip((self.height, self.width), field, strict=True)
            )
            total += part * (y[:, None] * x).to(part.device)
        return total

    def _divide_by_masks(self, canvas: Tensor) -> Tensor:
        return canvas[:, :, : self.channels] / canvas[:, :, self.channels :].clamp(min=1e-4)


def _mirror(size: int, margin: int) -> npt.NDArray[np.int64]:
    """Return indices that mirror an axis at both ends, up to a length that suits the FFT."""
    length = next_fast_len(size + 2 * margin, real=True)
    return np.pad(np.arange(size), (margin, length - size - margin), mode="symmetric")
