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


def load() -> None:
    """Let napari read the preferences now; the first time it looks through all plugins."""
    get("live", True)


def apply(options: Options) -> Options:
    """Fill in what the widget left to the preferences: memory, device, model."""
    changes: dict[str, Any] = {}
    share = float(get("memory_gb", 0) or 0)
    if share > 0:
        changes["memory"] = int(share * 1e9)
    changes |= {"device": device(options.device), "model": model(options.model)}
    return replace(options, **changes)


def apply_to_engine() -> None:
    """Tell the engine what is no option; loads torch on first use, so call it in a thread."""
    from napari_kpac.engine import memory

    memory.keeping_enabled = bool(get("keep_memory", True))


def device(chosen: str) -> str:
    """Fill in the device where the widget says automatic."""
    return str(get("device", "auto") or "auto") if chosen == "auto" else chosen


def model(chosen: str) -> str:
    """Fill in the model where the widget says default."""
    return str(get("model", "default") or "default") if chosen == "default" else chosen
