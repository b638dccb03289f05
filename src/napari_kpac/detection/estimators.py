"""Blur detection: an image in, the blur map of an estimator, its threshold and mask out.

Not for: the rules of thresholds (thresholds), scores, regions and files.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter, uniform_filter

from napari_kpac.core.errors import ConfigError, ImageError
from napari_kpac.core.estimators import ESTIMATOR_NAMES
from napari_kpac.core.options import DetectionOptions, ImageOptions, ThresholdRule, alpha_number
from napari_kpac.core.progress import Progress, Steps, finish, of_all, relay
from napari_kpac.detection.thresholds import (
    MIN_CONTRAST,
    WITHOUT_CONTRAST,
    Histogram,
    blurred_mask,
    contrast,
    find_threshold,
    histogram,
)
from napari_kpac.engine import blur_map_steps
from napari_kpac.engine.arrays import Layout, as_array, layout_for, read_plane
from napari_kpac.engine.containers import map_like, pixels_of
from napari_kpac.engine.device import Model, card_of, model_name, prepare_network, resolve
from napari_kpac.engine.estimators import Estimator, prepare_estimator
from napari_kpac.engine.memory import explaining_shortage
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, check_finite, resolve_range

ImageArray = npt.NDArray[np.float32]
"""(H, W, channels), 1 or 3 channels; black is 0 and white 1."""
Map = npt.NDArray[np.float32]
Views = tuple[Any, Any] | None

MIN_VARIANCE = (1 / 255) ** 2
"""Of about one grey level of 8 bits: below this, detail cannot be told from noise."""
MAX_VARIANCE = 0.25
"""Of half black, half white: values in 0..1 cannot vary more."""
MAX_SIGMA_PX = 5.0
"""Defocus, in pixels of sigma, that counts as 1 in a blur map."""


@dataclass(frozen=True, eq=False)
class Planes:
    """The images of an array, whose axes and range are known."""

    array: Any
    layout: Layout
    range: PixelRange

    @classmethod
    def of(cls, image: Any, options: ImageOptions) -> Planes:
        """Find axes and range; nothing but a sample for the range is loaded."""
        array = as_array(image)
        layout = layout_for(array, options)
        check_finite(layout, (array,))
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


def local_variance_blur(image: ImageArray, window: int) -> npt.NDArray[np.float32]:
    """Measure blur by the lack of local variance.

    The variance v of the pixels in a square window around each pixel, averaged over the
    channels, is put on a logarithmic scale between two fixed ends:

    ``blur = 1 - log(1 + v / MIN_VARIANCE) / log(1 + MAX_VARIANCE / MIN_VARIANCE)``

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
    variance = np.clip(variance / values.shape[-1], 0, MAX_VARIANCE)
    sharpness = np.log1p(variance / MIN_VARIANCE) / np.log1p(MAX_VARIANCE / MIN_VARIANCE)
    blur: npt.NDArray[np.float32] = (1 - sharpness).astype(np.float32)
    return blur


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
    """Both are empty where no network was used."""

    def serves(self, options: DetectionOptions) -> bool:
        """Return True if these maps do for other options, too."""
        own = self.options
        # A model may go by an alias and by its own name; the rest plays no part in measuring.
        alike = replace(
            options,
            model=own.model if options.model == self.model_name else options.model,
            source=own.source,
            weights=own.weights,
            smoothing=own.smoothing,
            threshold_rule=own.threshold_rule,
            threshold=own.threshold,
        )
        return family(options.source) == family(own.source) and alike == own


def family(source: str) -> str:
    """Return what a source is measured by; all alphas and their mixture come together."""
    return "alpha" if source == "mixture" or alpha_number(source) else source


def measure_steps(
    image: Any,
    options: DetectionOptions,
    *,
    views: Views = None,
    model: Model | None = None,
) -> Steps[Measured]:
    """Measure blur: the part that takes time. Yields progress, returns the maps."""
    if family(options.source) == "alpha":
        return _measure_alphas(image, options, views, model)
    return _measure_planes((image,) if image is not None else views or (), options, model)


def _measure_alphas(
    image: Any, options: DetectionOptions, views: Views, model: Model | None
) -> Steps[Measured]:
    net = prepare_network(options.model if model is None else model, resolve(options.device))
    _check_alphas(options, len(net.config.dilations))
    card = card_of(net)
    found = yield from blur_map_steps(image, options, views=views, model=net)
    return Measured(found.alpha, options, found.upsampling, card.name, card.sha256)


def _measure_planes(
    arrays: tuple[Any, ...], options: DetectionOptions, model: Model | None
) -> Steps[Measured]:
    """Measure every plane of an image, or the mean of both views of a dual-pixel pair."""
    if not arrays:
        raise ImageError("there is no image")
    stacks = [Planes.of(array, options) for array in arrays]
    if len({planes.layout.shape for planes in stacks}) > 1:
        raise ImageError("the two views must have the same shape")
    estimator = None
    if options.source in ESTIMATOR_NAMES:
        wanted = options.model if model is None else model
        estimator = prepare_estimator(options.source, wanted, options.device, options.memory)
    found: list[Map] = []
    count = len(stacks[0]) * len(stacks)
    for together in zip(*stacks, strict=True):
        maps: list[Map] = []
        for plane in together:
            part = partial(of_all, len(found) * len(stacks) + len(maps), count)
            maps.append((yield from relay(_measure_plane(plane, options, estimator), part)))
        found.append(np.mean(maps, axis=0))
    values = np.stack(found).astype(np.float32)
    return Measured(
        values.reshape(*stacks[0].leading, 1, *values.shape[1:]),
        options,
        model_name="" if estimator is None else estimator.model_name,
        model_sha256="" if estimator is None else estimator.model_sha256,
    )


def _measure_plane(
    image: ImageArray, options: DetectionOptions, estimator: Estimator | None
) -> Steps[Map]:
    """Measure one plane: a map (H, W) in 0..1."""
    if estimator is None:
        values = local_variance_blur(image, options.window)
        yield Progress(1, 1, "measure")
        return values
    pixels = np.clip(image[..., 0] if image.shape[-1] == 1 else image, 0, 1)
    sigma = yield from estimator.estimate(np.ascontiguousarray(pixels, np.float32))
    blur: Map = np.clip(sigma / MAX_SIGMA_PX, 0, 1)
    return blur


def blur_values(measured: Measured, options: DetectionOptions) -> Map:
    """Choose or mix what was measured, and smooth it: (H, W) in 0..1, leading axes first.

    Cheap: a change of alpha, weights or smoothing needs this alone (see
    :meth:`Measured.serves`).
    """
    maps = measured.maps
    if family(options.source) == "alpha":
        _check_alphas(options, maps.shape[-3])
    if options.source == "mixture":
        shares = np.ones(maps.shape[-3]) if options.weights is None else options.weights
        values = np.average(maps, axis=-3, weights=shares)
    else:
        values = maps[..., (alpha_number(options.source) or 1) - 1, :, :]
    if options.smoothing:
        sigmas = (0,) * (values.ndim - 2) + (options.smoothing,) * 2
        values = gaussian_filter(values, sigmas)
    if options.smoothing or options.source == "mixture":
        values = np.clip(values, 0, 1)
    return np.ascontiguousarray(values, dtype=np.float32)


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


@dataclass(frozen=True, eq=False)
class Detection:
    """A blur map, what in it counts as blurred, and how both were made."""

    values: Any
    """(H, W) in 0..1, larger = more blurred; leading axes of a stack come first. A tensor or an
    xarray where :func:`detect` was given one."""
    mask: Any
    """Where the values reach the threshold; in the same container."""
    threshold: float
    """The number that was used, one for all slices of a stack."""
    histogram: Histogram
    options: DetectionOptions
    upsampling: int
    """By how much the image was enlarged first."""
    model_name: str
    model_sha256: str
    """Both are empty where no network was used."""

    @cached_property
    def contrast(self) -> float:
        """Difference of the 99th and the 1st percentile of the map."""
        return contrast(self.values)

    @property
    def has_contrast(self) -> bool:
        """Whether the map separates anything; without contrast the mask is no result."""
        return self.contrast >= MIN_CONTRAST

    @property
    def note(self) -> str:
        """What a person must know before taking the map for a result; mostly nothing."""
        if self.has_contrast:
            return ""
        middle = float(np.nanmedian(self.values))
        kind = "blurred" if middle >= WITHOUT_CONTRAST else "sharp"
        return (
            f"the map has no contrast: all of the image reads as equally {kind} (about "
            f"{middle:.2f} of 1), so there is nothing to separate"
        )

    def with_threshold(self, rule: ThresholdRule, threshold: float | None = None) -> Detection:
        """Return the same map under another threshold; fast enough for a slider."""
        options = replace(self.options, threshold_rule=rule, threshold=threshold)
        values = pixels_of(self.values)
        used = find_threshold(values, rule, threshold)
        mask = map_like(self.values, blurred_mask(values, used), "blurred")
        return replace(self, options=options, threshold=used, mask=mask)

    def to_dict(self) -> dict[str, Any]:
        """Return model and settings as plain values, for the record in a file."""
        return {
            "blur map": self.options.to_dict(),
            "model": {"name": self.model_name, "sha256": self.model_sha256},
            "upsampling": self.upsampling,
            "threshold": self.threshold,
            "contrast": self.contrast,
        }


def detect(
    image: Any,
    model: Model = "default",
    device: str = "auto",
    *,
    views: Views = None,
    **options: Any,
) -> Detection:
    """Find what is blurred in an image.

    Parameters
    ----------
    image
        Any image that :func:`napari_kpac.deblur` takes; stacks are measured slice by slice.
    model
        A name, a path, or a network from :func:`napari_kpac.load`.
    device
        ``auto``, ``cpu``, ``cuda:0``, ``mps``, ``xpu:0``.
    views
        The left and right view of a dual-pixel camera, for dual-pixel models.
    **options
        Further fields of :class:`DetectionOptions`: source, weights, window, smoothing,
        threshold_rule, threshold, upsampling, range, rgb, ...

    Returns
    -------
    Detection
        Its map and mask are in the container of the image, as :func:`napari_kpac.blur_map` says.
    """
    chosen = DetectionOptions(model=model_name(model), device=device, **options)
    found = finish(detect_steps(image, chosen, views=views, model=model))
    given = views[0] if image is None and views is not None else image
    return replace(
        found,
        values=map_like(given, found.values, "blur_map"),
        mask=map_like(given, found.mask, "blurred"),
    )


def detect_steps(
    image: Any,
    options: DetectionOptions | None = None,
    *,
    views: Views = None,
    model: Model | None = None,
) -> Steps[Detection]:
    """Detect as `detect` does, step by step: yields progress, returns the detection.

    Closing the generator cancels the work. ``model`` overrides the name in the options.
    """
    options = options or DetectionOptions()
    with explaining_shortage():
        measured = yield from measure_steps(image, options, views=views, model=model)
        return decide(measured, options)


def decide(measured: Measured, options: DetectionOptions) -> Detection:
    """Return the detection of what was measured: everything that needs no network."""
    values = blur_values(measured, options)
    threshold = find_threshold(values, options.threshold_rule, options.threshold)
    return Detection(
        values=values,
        mask=blurred_mask(values, threshold),
        threshold=threshold,
        histogram=histogram(values),
        options=options,
        upsampling=measured.upsampling,
        model_name=measured.model_name,
        model_sha256=measured.model_sha256,
    )
