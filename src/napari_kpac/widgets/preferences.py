"""The plugin's preferences in napari's own dialogue, applied to options.

Not for: declaring them (napari.yaml).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from napari.settings import get_plugin_settings

from napari_kpac.core.options import ImageOptions

Options = TypeVar("Options", bound=ImageOptions)


def get(name: str, default: Any) -> Any:
    """Return a preference, or the default where napari knows of none."""
    try:
        settings = get_plugin_settings("napari-kpac")
    except (KeyError, ValueError):
        return default
    return getattr(getattr(settings, "computing", None), name, default)


def apply(options: Options) -> Options:
    """Return options with the preferred memory, device and model where none was chosen."""
    chosen = replace(options, device=device(options.device), model=model(options.model))
    gigabytes = float(get("memory_gb", 0) or 0)
    return replace(chosen, memory=int(gigabytes * 1e9)) if gigabytes > 0 else chosen


def device(chosen: str) -> str:
    """Return the device that was chosen, the preferred one instead of ``auto``."""
    return str(get("device", "auto") or "auto") if chosen == "auto" else chosen


def model(chosen: str) -> str:
    """Return the model that was chosen, the preferred one instead of ``default``."""
    return str(get("model", "default") or "default") if chosen == "default" else chosen
