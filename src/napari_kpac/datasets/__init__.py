"""Pairs of blurred and sharp pictures: made from sharp photographs.

Loads nothing heavy before it is used. Not for: the optics of blur (optics), or training with
the pairs (training).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from napari_kpac.datasets.options import SynthesisOptions as SynthesisOptions
    from napari_kpac.datasets.radius_files import read_radius as read_radius
    from napari_kpac.datasets.synthesis import Synthesis as Synthesis
    from napari_kpac.datasets.synthesis import synthesise as synthesise

_HOMES = {
    "Synthesis": "synthesis",
    "SynthesisOptions": "options",
    "read_radius": "radius_files",
    "synthesise": "synthesis",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
