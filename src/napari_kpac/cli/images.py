"""What commands on image files share: which go in, where results go, saying so.

Not for: reading and writing them (napari_kpac.pictures).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from napari_kpac.cli.common import print_json
from napari_kpac.errors import FileError

FILES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".npy", ".csv")
"""Endings by which a name is taken for that of a file, and not of a folder."""


def add_files(command: argparse.ArgumentParser) -> None:
    """Add the arguments for image files and for what is made of them."""
    command.add_argument("inputs", nargs="+", type=Path, metavar="INPUT", help="image files")
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="a file, or a folder"
    )


def targets(
    inputs: list[Path],
    output: Path,
    suffixes: tuple[str, ...],
    tail: str = "",
    suffix: str | None = None,
) -> Iterator[Path]:
    """Say where each result goes: the file that was named, or a file in the folder.

    In a folder, names end in ``tail`` and ``suffix``; without one, in the input's own where
    that is among the suffixes, else in ``.png``.
    """
    if output.suffix.lower() in suffixes and not output.is_dir():
        if len(inputs) > 1:
            raise FileError(f"{output} is one file for {len(inputs)} pictures; name a folder")
        _refuse_input(output, inputs[0])
        yield output
        return
    if output.suffix.lower() in FILES and not output.is_dir():
        raise FileError(
            f"{output}: the name must end in one of {', '.join(dict.fromkeys(suffixes))}"
        )
    names: dict[str, Path] = {}
    for path in inputs:
        own = path.suffix if path.suffix.lower() in suffixes else ".png"
        name = f"{path.stem}{tail}{suffix or own}"
        if name in names:
            raise FileError(f"{names[name]} and {path} would both be written to {output / name}")
        names[name] = path
        _refuse_input(output / name, path)
        yield output / name


def tell(given: argparse.Namespace, written: list[str]) -> None:
    """Print the names of the files that were written."""
    if given.json:
        print_json(written)
    else:
        for name in written:
            print(name)


def _refuse_input(target: Path, source: Path) -> None:
    if target.exists() and source.exists() and target.samefile(source):
        raise FileError(f"{target}: refusing to write over the input; choose another name")
