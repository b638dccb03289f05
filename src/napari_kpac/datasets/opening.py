"""A dataset from its options.

Not for: how any kind of dataset lies on disk (one module for each kind).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from napari_kpac.core.errors import ConfigError
from napari_kpac.datasets.cuhk import MaskedPictures, open_cuhk
from napari_kpac.datasets.dpdd import open_dpdd
from napari_kpac.datasets.folders import open_folders
from napari_kpac.datasets.options import DataOptions, check_blurred_as
from napari_kpac.datasets.pair import Pairs


def open_pairs(options: DataOptions, *, by_manifest: bool = False) -> Pairs:
    """Open a dataset of pairs; what is wrong with it is said at once.

    Parameters
    ----------
    options
        Which dataset.
    by_manifest
        Of plain folders, open only the pairs that their MANIFEST.csv puts into the split.
    """
    if by_manifest and options.kind == "pairs":
        return _folders(options, options.split)
    if options.kind not in _OPENERS:
        raise ConfigError(
            f"a {options.kind} dataset has no pairs to open; choose one of {', '.join(_OPENERS)}"
        )
    return _OPENERS[options.kind](options)


def open_masked(options: DataOptions) -> MaskedPictures:
    """Open a dataset of pictures and masks of their blur."""
    if options.kind != "cuhk":
        raise ConfigError(f"a {options.kind} dataset has no masks; choose cuhk")
    return open_cuhk(
        Path(options.root),
        blurred=check_blurred_as(options.blurred),
        prefix=options.prefix,
        skip_bad=options.skip_bad,
    )


def _dpdd(options: DataOptions) -> Pairs:
    return open_dpdd(
        Path(options.root),
        options.split,
        dual=options.dual,
        bits=options.bits,
        skip_bad=options.skip_bad,
        smallest=options.smallest,
    )


def _folders(options: DataOptions, split: str | None = None) -> Pairs:
    return open_folders(
        Path(options.root),
        None if options.sharp is None else Path(options.sharp),
        bits=options.bits,
        skip_bad=options.skip_bad,
        smallest=options.smallest,
        split=split,
    )


_OPENERS: dict[str, Callable[[DataOptions], Pairs]] = {
    "dpdd": _dpdd,
    "pairs": _folders,
}
