"""Packages that are only needed for some things, and what to install where they are missing.

Not for: packages that the project always has.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from napari_kpac.errors import MissingExtraError


def require(module: str, extra: str, what: str) -> Any:
    """Import a package of an extra, or say what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs the extra {extra!r}: pip install "napari-kpac[{extra}]" ({error})'
        ) from error
