"""Packages that are imported when they are first asked for: our own, and those of extras.

Not for: what the packages hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from napari_kpac.core.errors import MissingExtraError


def lazily(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Make a package's ``__getattr__``: each name comes from a module of the package.

    Parameters
    ----------
    package
        Name of the package.
    homes
        For each public name, the module (below the package) in which it lives.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    return find


def require(module: str, extra: str, what: str) -> Any:
    """Import a package of an extra, or raise an error that says what needs it and how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f'{what} needs the extra {extra!r}: pip install "napari-kpac[{extra}]" ({error})'
        ) from error
