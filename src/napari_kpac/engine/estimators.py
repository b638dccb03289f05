"""Estimators of defocus made ready: an image in, a map of sigma in pixels out.

Deblurring with an estimated map (job.py), blur maps (detection) and comparisons (evaluation) take
them from here. Not for: which there are (core.estimators), or how each works (optics, network).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.estimators import ESTIMATOR_NAMES
from napari_kpac.core.options import Memory
from napari_kpac.core.progress import Steps
from napari_kpac.engine.device import Model, card_of, prepare_dmenet, resolve
from napari_kpac.engine.dmenet import defocus_steps
from napari_kpac.optics.ebdb import defocus_map_steps
from napari_kpac.optics.jnb import sparsity_map_steps
from napari_kpac.optics.pixels import Floats

Estimate = Callable[[Floats], Steps[Floats]]
"""Takes a grey (H, W) or an sRGB (H, W, 3) image, finite float32 in 0..1 and at least 2x2; yields
progress and returns sigma in pixels, float32 (H, W), finite and 0 or more."""


@dataclass(frozen=True, eq=False)
class Estimator:
    """An estimator that can be run on any number of images."""

    name: str
    estimate: Estimate
    model_name: str = ""
    model_sha256: str = ""
    """Both are empty where there are no weights."""


def prepare_estimator(
    name: str, model: Model = "default", device: str = "auto", memory: Memory = None
) -> Estimator:
    """Return the estimator of that name; a network's weights are loaded, so that errors show.

    Parameters
    ----------
    name
        One of :data:`napari_kpac.core.estimators.ESTIMATORS`.
    model, device, memory
        Weights, device and memory budget of those that are networks; the others ignore them.
    """
    if name not in _PREPARE:
        raise ConfigError(f"estimator {name!r}: must be one of {', '.join(ESTIMATOR_NAMES)}")
    return _PREPARE[name](model, device, memory)


def _without_model(
    name: str, estimate: Estimate, model: Model, device: str, memory: Memory
) -> Estimator:
    del model, device, memory
    return Estimator(name, estimate)


def _ebdb(image: Floats) -> Steps[Floats]:
    return (yield from defocus_map_steps(image)).sigma


def _dmenet(model: Model, device: str, memory: Memory) -> Estimator:
    net = prepare_dmenet(model, resolve(device))
    card = card_of(net)
    return Estimator(
        "dmenet", partial(defocus_steps, net=net, memory=memory), card.name, card.sha256
    )


_PREPARE: dict[str, Callable[[Model, str, Memory], Estimator]] = {
    "ebdb": partial(_without_model, "ebdb", _ebdb),
    "jnb": partial(_without_model, "jnb", sparsity_map_steps),
    "dmenet": _dmenet,
}
