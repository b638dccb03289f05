"""What files claim, checked before any memory is taken or another file is opened.

Not for: reading them (one module for each family of formats).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from napari_kpac.core.errors import FileError

UNQUESTIONED = 64_000_000
"""Bytes that any file may claim."""
SPARSE = 50_000
"""Bytes of pixels that a byte of a file can stand for: much more than real images have."""
DEFLATED = 1_100
"""The same for DEFLATE, which cannot do better."""
MOST_PLANES = 10_000_000
MOST_SIDE = 2**31
_COUNTS = ("NumPlanes", "PlaneCount", "IFD", "SamplesPerPixel", "FirstC", "FirstT", "FirstZ")
_SIDES = ("SizeX", "SizeY", "SizeZ", "SizeC", "SizeT")
_STEPS = ("Start", "End", "Step")


def check_claim(path: Path, claimed: int, stored: int, most: int = SPARSE) -> None:
    """Raise where a file cannot hold the pixels that it claims, or memory cannot.

    Parameters
    ----------
    path
        The file, for the message.
    claimed
        Bytes that its pixels would take.
    stored
        Bytes that it has.
    most
        Bytes of pixels that one byte of the file can stand for.
    """
    if claimed <= UNQUESTIONED:
        return
    if claimed > most * stored:
        raise FileError(
            f"{path}: claims {_size(claimed)} of pixels, but has only {_size(stored)}; it is "
            "damaged or cut off, get it again"
        )
    free = psutil.virtual_memory().available
    if claimed > free:
        raise FileError(
            f"{path}: needs {_size(claimed)} of memory, and {_size(free)} are free; cut it into "
            "parts, or close other programs"
        )


def check_ome(path: Path, described: Any) -> None:
    """Raise where a description of OME-TIFF names files elsewhere, or absurd numbers of planes.

    TIFF readers open the files that it names and make lists as long as it says.
    """
    for table in _tables(described):
        name = table.get("FileName")
        if name is not None and not _is_plain(name):
            raise FileError(
                f"{path}: names a part of it as {str(name)[:80]!r}; parts must lie in the same "
                "folder"
            )
        for key, value in table.items():
            if key in _COUNTS:
                _check_number(path, key, value, MOST_PLANES)
            elif key in _SIDES:
                _check_number(path, key, value, MOST_SIDE)
        if "Start" in table and "End" in table:
            _check_steps(path, [table.get(key, 1) for key in _STEPS])


def _tables(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for value in inside:
        yield from _tables(value)


def _is_plain(name: Any) -> bool:
    """Tell whether this is the name of a file, without any folder, on every system."""
    return not set(str(name)) & set("/\\:\0") and str(name) not in ("", ".", "..")


def _check_number(path: Path, key: str, value: Any, most: int) -> None:
    if isinstance(value, dict | list):
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise FileError(f"{path}: its OME description has {key}={str(value)[:40]}; it is damaged")


def _check_steps(path: Path, steps: list[Any]) -> None:
    try:
        start, end, step = map(float, steps)
        fits = abs((end - start) / step) <= MOST_PLANES
    except (TypeError, ValueError, ZeroDivisionError):
        fits = False
    if not fits:
        raise FileError(f"{path}: its OME description has a series of {steps}; it is damaged")


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e8 else f"{count / 1e6:,.3f} MB"
