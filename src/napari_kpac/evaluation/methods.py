"""What can be compared: models and classical methods, image in, image out.

Not for: scores (metrics, probe).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from skimage.filters import unsharp_mask
from skimage.restoration import richardson_lucy, wiener

from napari_kpac.datasets.pairs import Floats
from napari_kpac.evaluation.options import EvaluateOptions, MethodName
from napari_kpac.optics import Aperture, defocus_map, psf, two_step

if TYPE_CHECKING:
    from napari_kpac.engine import Session

Views = tuple[Floats, Floats] | None


class Comparator(Protocol):
    """A way to deblur an image."""

    @property
    def name(self) -> str:
        """What tables call it; no two of a comparison are called the same."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides its result, as plain values."""

    def restore(self, image: Floats, views: Views = None) -> Floats:
        """Deblur (H, W, 3) with black at 0 and white at 1; the result may leave 0..1."""


class Unchanged:
    """The blurred image itself, which everything has to beat."""

    name = "input"
    settings: Mapping[str, Any] = {}

    def restore(self, image: Floats, views: Views = None) -> Floats:  # noqa: ARG002
        """Give the image back."""
        return image


class ModelComparator:
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
        self._device = device
        self.name = name or model
        self.dual = self.net.config.views == 2
        self.dilations: Sequence[int] = self.net.config.dilations
        self.has_alphas = self.net.config.scale_attention
        self.settings: Mapping[str, Any] = {
            "model": model,
            "sha256": card_of(self.net).sha256,
            "levels": self.net.config.levels,
            "blocks": self.net.config.blocks,
            "views": self.net.config.views,
        }

    def session(self, image: Floats, views: Views = None) -> Session:
        """Open an image, to be rendered with any modulation."""
        from napari_kpac.engine import Session

        return Session(
            image,
            self.net,
            self._device,
            views=views if self.dual else None,
            range="unit",
            rgb=True,
        )

    def restore(self, image: Floats, views: Views = None) -> Floats:
        """Deblur with the network."""
        session = self.session(image, views)
        try:
            restored: Floats = session.render().image
            return restored
        finally:
            session.close()


def make_models(models: Sequence[str], device: str) -> list[ModelComparator]:
    """Load models; each is called by its file's name where that tells it from the others."""
    short = [Path(model).name for model in models]
    return [
        ModelComparator(model, device, model if short.count(name) > 1 else name)
        for model, name in zip(models, short, strict=True)
    ]


BALANCE = 0.01
"""Of Wiener: how much noise is feared."""
ITERATIONS = 15
"""Of Richardson-Lucy."""
SMALLEST_SIGMA = 0.3
"""Below this estimate an image counts as sharp and is left alone."""
UNSHARP = {"radius": 2.0, "amount": 1.0}

Doubles = npt.NDArray[np.float64]
Deconvolve = Callable[[Doubles, Doubles], Doubles]


class EdgeBased:
    """EBDB's defocus map, then one deconvolution for each level of blur."""

    name = "ebdb"
    settings: Mapping[str, Any] = {"method": "two-step", "defocus map": "EBDB"}

    def restore(self, image: Floats, views: Views = None) -> Floats:  # noqa: ARG002
        """Deblur with the estimated map."""
        return np.asarray(two_step(np.clip(image, 0, 1)).image, np.float32)


class OneKernel:
    """Deconvolution of the whole image with one kernel, given or estimated."""

    def __init__(
        self,
        name: str,
        deconvolve: Deconvolve,
        radius: float | None,
        settings: Mapping[str, Any],
    ) -> None:
        self.name = name
        self._deconvolve = deconvolve
        self._radius = radius
        blur = (
            f"disc of radius {radius:g} px"
            if radius is not None
            else "Gaussian, its sigma the median of EBDB's map of the image"
        )
        self.settings: Mapping[str, Any] = {**settings, "blur": blur}

    def restore(self, image: Floats, views: Views = None) -> Floats:  # noqa: ARG002
        """Deconvolve each channel; the image is mirrored at its border."""
        values = np.clip(image.astype(np.float64), 0, 1)
        kernel = self._kernel(values)
        if kernel.size == 1:
            return image
        reach = min(2 * kernel.shape[0], *(side - 1 for side in values.shape[:2]))
        wide = np.pad(values, ((reach, reach), (reach, reach), (0, 0)), mode="reflect")
        channels = [
            self._deconvolve(np.ascontiguousarray(wide[..., i]), kernel)
            for i in range(values.shape[2])
        ]
        restored: Floats = np.stack(channels, axis=2)[reach:-reach, reach:-reach].astype(np.float32)
        return restored

    def _kernel(self, values: Doubles) -> Doubles:
        if self._radius is not None:
            return np.array(psf(Aperture("disc"), self._radius))
        sigma = float(np.median(defocus_map(values.astype(np.float32)).sigma))
        if sigma < SMALLEST_SIGMA:
            return np.ones((1, 1))
        # A Gaussian's radius is twice its sigma.
        return np.array(psf(Aperture("gaussian"), 2 * sigma))


class Unsharp:
    """Unsharp masking: what costs nothing and knows nothing of the blur."""

    name = "unsharp"
    settings: Mapping[str, Any] = UNSHARP

    def restore(self, image: Floats, views: Views = None) -> Floats:  # noqa: ARG002
        """Add what a Gaussian takes away."""
        clipped = np.clip(image, 0, 1)
        return np.asarray(unsharp_mask(clipped, channel_axis=2, **UNSHARP), np.float32)


def make_rival(name: MethodName, options: EvaluateOptions) -> Comparator:
    """Make a method by its name."""
    if name == "ebdb":
        return EdgeBased()
    if name == "unsharp":
        return Unsharp()
    if name == "wiener":
        return OneKernel(
            name,
            lambda channel, kernel: wiener(channel, kernel, BALANCE, clip=False),
            options.radius,
            {"balance": BALANCE},
        )
    return OneKernel(
        name,
        lambda channel, kernel: richardson_lucy(
            channel, kernel, ITERATIONS, clip=False, filter_epsilon=1e-6
        ),
        options.radius,
        {"iterations": ITERATIONS},
    )
