"""What a blur map can be made from: attention, local variance, edges.

Not for: thresholds and scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, uniform_filter

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.options import DetectionOptions, ImageOptions, alpha_number
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.engine import blur_map_steps
from napari_kpac.engine.arrays import Layout, as_array, layout_for, read_plane
from napari_kpac.engine.device import Model, card_of, prepare_network, resolve
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, resolve_range
from napari_kpac.optics.ebdb import LARGEST as LARGEST_SIGMA
from napari_kpac.optics.ebdb import defocus_map

ImageArray = npt.NDArray[np.float32]
"""(H, W, channels), 1 or 3 channels; black is 0 and white 1."""


@dataclass(frozen=True, eq=False)
class Planes:
    """An array whose axes and range were understood."""

    array: Any
    layout: Layout
    range: PixelRange

    @classmethod
    def of(cls, image: Any, options: ImageOptions) -> Planes:
        """Look at an image; nothing but a sample for the range is loaded."""
        array = as_array(image)
        layout = layout_for(array, options)
        return cls(array, layout, resolve_range(options.range, layout, (array,)))

    @property
    def leading(self) -> tuple[int, ...]:
        """Leading axes of maps of these images, one map each."""
        if self.layout.rgb_channels is None:
            return self.layout.leading
        return (len(self),)

    def __len__(self) -> int:
        return sum(1 for _ in self.layout.planes())

    def __iter__(self) -> Iterator[ImageArray]:
        whole = Rect(0, self.layout.size[0], 0, self.layout.size[1])
        for plane in self.layout.planes():
            reader = PlaneReader(read_plane(self.array, plane), None, self.range, multiple=1)
            values = reader.read(whole)[0, : reader.channels]
            yield ((values + 1) / 2).permute(1, 2, 0).numpy()


FLOOR = (1 / 255) ** 2
"""Variance of about one grey level of 8 bits: below this, detail cannot be told from noise."""
LARGEST = 0.25
"""Variance of half black, half white: values in 0..1 cannot vary more."""


def local_variance_blur(image: ImageArray, window: int) -> npt.NDArray[np.float32]:
    """Measure blur by the lack of local variance.

    The variance v of the pixels in a square window around each pixel, averaged over the
    channels, is put on a logarithmic scale between two fixed ends:

    ``blur = 1 - log(1 + v / FLOOR) / log(1 + LARGEST / FLOOR)``

    so a constant area gives 1 and the strongest texture possible gives 0. The ends do not
    depend on the image: slices of a stack can be compared, and a crop gives what the
    whole image gives there.

    Parameters
    ----------
    image
        (H, W, channels); what lies outside 0..1 is cut off.
    window
        Side of the window in pixels; the image is reflected at its border.
    """
    values = np.clip(image.astype(np.float64), 0, 1)
    variance = np.zeros(values.shape[:2])
    for channel in np.moveaxis(values, -1, 0):
        # Around the mean of the image, so that little is lost when squares are subtracted.
        centred = channel - channel.mean()
        variance += uniform_filter(centred**2, window) - uniform_filter(centred, window) ** 2
    variance = np.clip(variance / values.shape[-1], 0, LARGEST)
    sharpness = np.log1p(variance / FLOOR) / np.log1p(LARGEST / FLOOR)
    blur: npt.NDArray[np.float32] = (1 - sharpness).astype(np.float32)
    return blur


Map = npt.NDArray[np.float32]
Views = tuple[Any, Any] | None


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured on an image, before anything is chosen, smoothed or thresholded."""

    maps: Map
    """(maps, H, W), leading axes of a stack first: all alphas of block 1, or a single map."""
    options: DetectionOptions
    upsampling: int = 1
    """By how much the image was enlarged first."""
    model_name: str = ""
    model_sha256: str = ""
    """Both are empty where no network was asked."""

    def serves(self, options: DetectionOptions) -> bool:
        """Tell whether these maps do for other options, or must be measured again."""
        if family(self.options.source) != family(options.source):
            return False
        return _measuring(self.options) == _measuring(options)


class Source(Protocol):
    """A way to measure blur on an image, step by step."""

    def __call__(
        self, image: Any, options: DetectionOptions, views: Views, model: Model | None
    ) -> Steps[Measured]:
        """Yield progress, return the maps."""


def measure_steps(
    image: Any,
    options: DetectionOptions,
    *,
    views: Views = None,
    model: Model | None = None,
) -> Steps[Measured]:
    """Measure blur: the part that takes time. Yields progress, returns the maps."""
    return _FAMILIES[family(options.source)](image, options, views, model)


def blur_values(measured: Measured, options: DetectionOptions) -> Map:
    """Choose or mix what was measured, and smooth it: (H, W) in 0..1, leading axes first.

    Cheap: a change of alpha, weights or smoothing needs this alone (see
    :meth:`Measured.serves`).
    """
    maps = measured.maps
    number = alpha_number(options.source)
    if options.source == "mixture":
        _check_alphas(options, maps.shape[-3])
        shares = np.ones(maps.shape[-3]) if options.weights is None else options.weights
        values = np.average(maps, axis=-3, weights=shares)
    else:
        if number is not None:
            _check_alphas(options, maps.shape[-3])
        values = maps[..., (number or 1) - 1, :, :]
    if options.smoothing:
        sigmas = (0,) * (values.ndim - 2) + (options.smoothing,) * 2
        values = gaussian_filter(values, sigmas)
    if options.smoothing or options.source == "mixture":
        values = np.clip(values, 0, 1)
    return np.ascontiguousarray(values, dtype=np.float32)


def family(source: str) -> str:
    """Return what a source is measured by; all alphas and their mixture come together."""
    return "alpha" if source == "mixture" or alpha_number(source) else source


def _attention(
    image: Any, options: DetectionOptions, views: Views, model: Model | None
) -> Steps[Measured]:
    net = prepare_network(options.model if model is None else model, resolve(options.device))
    _check_alphas(options, len(net.config.dilations))
    card = card_of(net)
    found = yield from blur_map_steps(image, options, views=views, model=net)
    return Measured(found.alpha, options, found.upsampling, card.name, card.sha256)


def _by_image(measure: Callable[[ImageArray, DetectionOptions], Map]) -> Source:
    """Make a source of a function from an image to a map (H, W).

    Of a dual-pixel pair without an image both views are measured and averaged.
    """

    def steps(
        image: Any,
        options: DetectionOptions,
        views: Views,
        model: Model | None,  # noqa: ARG001 - no network is asked
    ) -> Steps[Measured]:
        given = (views or ()) if image is None else (image,)
        if not given:
            raise ImageError("there is no image")
        stacks = [Planes.of(array, options) for array in given]
        if len({planes.layout.shape for planes in stacks}) > 1:
            raise ImageError("the two views must have the same shape")
        found, total = [], len(stacks[0])
        for done, together in enumerate(zip(*stacks, strict=True), start=1):
            found.append(np.mean([measure(plane, options) for plane in together], axis=0))
            yield Progress(done, total, "measure")
        maps = np.stack(found).astype(np.float32)
        return Measured(maps.reshape(*stacks[0].leading, 1, *maps.shape[1:]), options)

    return steps


def _edge_blur(image: ImageArray) -> Map:
    """Measure blur by the classical defocus map: its sigma as a share of the largest it knows."""
    pixels = image[..., 0] if image.shape[-1] == 1 else image
    sigma = defocus_map(np.clip(pixels, 0, 1)).sigma
    values: Map = np.clip(np.asarray(sigma, np.float32) / LARGEST_SIGMA, 0, 1)
    return values


def _check_alphas(options: DetectionOptions, count: int) -> None:
    """Raise where the options name more alphas than the network has."""
    number = alpha_number(options.source)
    if number is not None and number > count:
        raise ConfigError(
            f"source={options.source!r}: this model has {count} dilations; choose alpha1 to "
            f"alpha{count}"
        )
    if options.weights is not None and len(options.weights) != count:
        raise ConfigError(
            f"{len(options.weights)} weights were given, but this model has {count} dilations"
        )


def _measuring(options: DetectionOptions) -> DetectionOptions:
    """Forget what plays no part in measuring."""
    return replace(
        options,
        source=DetectionOptions.source,
        weights=None,
        smoothing=0.0,
        threshold_rule=DetectionOptions.threshold_rule,
        threshold=None,
    )


_FAMILIES: dict[str, Source] = {
    "alpha": _attention,
    "variance": _by_image(lambda image, options: local_variance_blur(image, options.window)),
    "ebdb": _by_image(lambda image, _: _edge_blur(image)),
}
