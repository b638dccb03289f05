"""Flags from an action's options record, and the record back from the flags.

Not for: the options themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from napari_kpac.core.errors import ConfigError, for_people

T = TypeVar("T")


def add_options(
    parser: argparse.ArgumentParser,
    record: type[Any],
    title: str = "options",
    *,
    flags: Mapping[str, str] | None = None,
) -> None:
    """Add a flag for every field of an options record; what is not given stays a default.

    A flag is called like its field, unless ``flags`` has another name for it.
    """
    group = parser.add_argument_group(title)
    for item in fields(record):
        if not item.metadata:  # not for a command line
            continue
        name = (flags or {}).get(item.name, item.name)
        flag = "--" + name.replace("_", "-")
        text = item.metadata["help"]
        shown = f"{text} (default: {item.default})" if item.default is not None else text
        if "bool" in str(item.type):
            group.add_argument(
                flag,
                dest=item.name,
                action=argparse.BooleanOptionalAction,
                default=argparse.SUPPRESS,
                help=shown,
            )
        else:
            group.add_argument(
                flag,
                dest=item.name,
                action="append" if item.metadata["many"] else "store",
                type=_checked(item.metadata["parse"]),
                default=argparse.SUPPRESS,
                metavar=name.split("_")[-1].upper(),
                help=shown,
            )


def given_options(given: argparse.Namespace, record: type[Any]) -> dict[str, Any]:
    """Return the options that were given, by field name."""
    names = {item.name for item in fields(record)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in vars(given).items()
        if name in names
    }


def _checked(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Turn our errors into argparse's, so that a bad value is a mistake in the call."""

    def read(text: str) -> T:
        try:
            return parse(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(for_people(error)) from error

    return read
