"""What can be compared: image in, image out, a name and settings.

Not for: scores. Classical methods stand in ``rivals``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from napari_kpac.datasets.pair import Floats

if TYPE_CHECKING:
    from napari_kpac.engine import Session

Views = tuple[Floats, Floats] | None


class Comparator(Protocol):
    """A way to deblur a picture."""

    @property
    def name(self) -> str:
        """What tables call it; no two of a comparison are called the same."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Everything that decides its result, as plain values."""

    def restore(self, picture: Floats, views: Views = None) -> Floats:
        """Deblur (H, W, 3) with black at 0 and white at 1; the result may leave 0..1."""


class Unchanged:
    """The blurred picture itself, which everything has to beat."""

    name = "input"
    settings: Mapping[str, Any] = {}

    def restore(self, picture: Floats, views: Views = None) -> Floats:  # noqa: ARG002
        """Give the picture back."""
        return picture


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
        from napari_kpac.engine.device import resolve
        from napari_kpac.engine.model import card_of, prepare

        self.net = prepare(model, resolve(device))
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

    def session(self, picture: Floats, views: Views = None) -> Session:
        """Open a picture, to be rendered with any modulation."""
        from napari_kpac.engine import Session

        return Session(
            picture,
            self.net,
            self._device,
            views=views if self.dual else None,
            range="unit",
            rgb=True,
        )

    def restore(self, picture: Floats, views: Views = None) -> Floats:
        """Deblur with the network."""
        session = self.session(picture, views)
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
