"""Packages whose names are looked up when they are first asked for.

Not for: what the packages hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


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
