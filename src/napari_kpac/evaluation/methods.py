"""What can be compared: models and classical methods, image in, image out.

Not for: scores (metrics, attention).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from skimage.filters import unsharp_mask
from skimage.restoration import richardson_lucy, wiener

from napari_kpac.core.estimators import ESTIMATORS, EstimatorInfo, find_estimator
from napari_kpac.core.options import Deconvolution
from napari_kpac.core.progress import finish
from napari_kpac.datasets.pairs import Floats
from napari_kpac.evaluation.options import EvaluateOptions, MethodName
from napari_kpac.optics import TWO_STEP_SETTINGS, Aperture, defocus_map, psf, two_step
from napari_kpac.optics.deconvolution import fitting_blur

if TYPE_CHECKING:
    from napari_kpac.engine import Session

Views = tuple[Floats, Floats] | None
Doubles = npt.NDArray[np.float64]

SETTINGS: dict[str, dict[str, Any]] = {
    "unsharp": {"radius": 3.0, "amount": 0.25},
    "wiener": {"balance": 0.1, "aperture": "gaussian"},
    "richardson-lucy": {"iterations": 6, "aperture": "gaussian"},
}
"""What each method gains most with on the benchmark (``tools/tune_methods.py``)."""
MAP = "defocus map"
"""Of the settings of a method in two steps: which estimator's."""
MIN_SIGMA_PX = 0.3
"""Below this estimate an image counts as sharp and is left alone."""


@dataclass
class Method:
    """A way to deblur an image."""

    name: str
    """What tables call it; no two of a comparison are called the same."""
    settings: Mapping[str, Any]
    """Everything that decides its result, as plain values."""
    restore: Callable[[Floats, Views], Floats]
    """Deblur (H, W, 3) with black at 0 and white at 1; the result may leave 0..1."""


INPUT = Method("input", {}, lambda image, _: image)
"""The blurred image itself, which everything has to beat."""


class ModelMethod(Method):
    """A network: one of ours, or weights of the authors that the user brought.

    Parameters
    ----------
    model
        A name from the catalogue, or the path of a model file.
    device
        As in :func:`napari_kpac.deblur`.
    name
        What tables call it; by default the model as it was given.
    """

    def __init__(self, model: str, device: str = "auto", name: str | None = None) -> None:
        from napari_kpac.engine.device import card_of, prepare_network, resolve

        self.net = prepare_network(model, resolve(device))
        self.config = self.net.config
        self.device = device
        settings = {
            "model": model,
            "sha256": card_of(self.net).sha256,
            "levels": self.config.levels,
            "blocks": self.config.blocks,
            "views": self.config.views,
        }
        super().__init__(name or model, settings, self._deblur)

    def session(self, image: Floats, views: Views) -> Session:
        """Open an image, to be rendered with any modulation."""
        from napari_kpac.engine import Session

        views = views if self.config.views == 2 else None
        return Session(image, self.net, self.device, views=views, range="unit", rgb=True)

    def _deblur(self, image: Floats, views: Views) -> Floats:
        with closing(self.session(image, views)) as session:
            restored: Floats = session.render().image
            return restored


def load_models(models: Sequence[str], device: str) -> list[ModelMethod]:
    """Load the models that deblur; see :func:`name_models` for how they are called."""
    return [ModelMethod(model, device, name) for name, model in name_models(models, "kpac")]


def load_estimators(
    models: Sequence[str], device: str, deconvolution: Deconvolution
) -> list[Method]:
    """Load the models that estimate defocus, as methods that deconvolve with their maps."""
    return [
        _two_step(info, deconvolution, model, device, name)
        for info in ESTIMATORS
        if info.needs_model
        for name, model in name_models(models, info.name)
    ]


def name_models(models: Sequence[str], kind: str) -> list[tuple[str, str]]:
    """Return the models of one kind, the name that tables have for it before each.

    Each is called by its file's name where that tells it from the others.
    """
    from napari_kpac.weights import kind_of

    short = [Path(model).name for model in models]
    return [
        (model if short.count(name) > 1 else name, model)
        for model, name in zip(models, short, strict=True)
        if kind_of(model) == kind
    ]


def classical_method(
    name: MethodName, options: EvaluateOptions, settings: Mapping[str, Any] | None = None
) -> Method:
    """Return a method without a network by its name; ``settings`` replace those it has."""
    info = find_estimator(name)
    if info is not None:
        return _two_step(info, options.deconvolution)
    chosen = SETTINGS[name] if settings is None else settings
    if name == "unsharp":
        return Method(name, chosen, partial(_unsharp, **chosen))
    radius = options.radius
    blur = (
        f"{chosen['aperture']}, its size from the median of EBDB's map of the image"
        if radius is None
        else f"disc of radius {radius:g} px"
    )
    how = {setting: value for setting, value in chosen.items() if setting != "aperture"}
    deconvolve = partial(_wiener if name == "wiener" else _richardson_lucy, **how)

    def restore(image: Floats, _: Views) -> Floats:
        values = np.clip(image, 0, 1).astype(np.float32)
        if radius is not None:
            return _deconvolved(values, deconvolve, psf(Aperture("disc"), radius))
        sigma = float(np.median(defocus_map(values).sigma))
        if sigma < MIN_SIGMA_PX:
            return image
        # A Gaussian's radius is twice its sigma, and a disc of that radius varies as much.
        return _deconvolved(values, deconvolve, psf(Aperture(chosen["aperture"]), 2 * sigma))

    return Method(name, {**how, "blur": blur}, restore)


def _two_step(
    info: EstimatorInfo,
    deconvolution: Deconvolution,
    model: str = "default",
    device: str = "auto",
    name: str = "",
) -> Method:
    """Return the method that estimates a defocus map and deconvolves once per level of blur."""
    from napari_kpac.engine.estimators import prepare_estimator

    estimator = prepare_estimator(info.name, model, device)
    options = TWO_STEP_SETTINGS[deconvolution]

    def restore(image: Floats, _: Views) -> Floats:
        unit = np.clip(image, 0, 1).astype(np.float32)
        sigma = fitting_blur(finish(estimator.estimate(unit)))
        return np.asarray(two_step(unit, options, sigma=sigma).image, np.float32)

    settings = {"method": "two-step", MAP: info.label, **asdict(options)}
    if estimator.model_sha256:
        settings |= {"model": model, "sha256": estimator.model_sha256}
    return Method(name or info.name, settings, restore)


def _unsharp(image: Floats, _: Views, *, radius: float, amount: float) -> Floats:
    """Apply unsharp masking, which costs nothing and knows nothing of the blur."""
    sharpened = unsharp_mask(np.clip(image, 0, 1), radius, amount, channel_axis=2)
    return np.asarray(sharpened, np.float32)


def _wiener(channel: Doubles, kernel: Doubles, *, balance: float) -> Doubles:
    restored: Doubles = wiener(channel, kernel, balance, clip=False)
    return restored


def _richardson_lucy(channel: Doubles, kernel: Doubles, *, iterations: int) -> Doubles:
    restored: Doubles = richardson_lucy(
        channel, kernel, iterations, clip=False, filter_epsilon=1e-6
    )
    return restored


def _deconvolved(
    image: Floats, deconvolve: Callable[[Doubles, Doubles], Doubles], kernel: Doubles
) -> Floats:
    """Deconvolve each channel with one kernel; the image is mirrored at its border."""
    if kernel.size == 1:
        return image
    reach = min(2 * kernel.shape[0], *(side - 1 for side in image.shape[:2]))
    wide = np.pad(image, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
    channels = [
        deconvolve(np.ascontiguousarray(channel, np.float64), np.array(kernel))
        for channel in np.moveaxis(wide, 2, 0)
    ]
    restored: Floats = np.stack(channels, axis=2)[reach:-reach, reach:-reach].astype(np.float32)
    return restored
