"""Flags from an action's options record, and the record back from the flags.

Not for: the options themselves.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from napari_kpac.errors import ConfigError

T = TypeVar("T")


def add_options(parser: argparse.ArgumentParser, record: type[Any], title: str = "options") -> None:
    """Add a flag for every field of an options record; what is not given stays a default."""
    group = parser.add_argument_group(title)
    for item in fields(record):
        flag = "--" + item.name.replace("_", "-")
        text = item.metadata["help"]
        shown = f"{text} (default: {item.default})" if item.default is not None else text
        if "bool" in str(item.type):
            group.add_argument(
                flag, action=argparse.BooleanOptionalAction, default=argparse.SUPPRESS, help=shown
            )
        else:
            group.add_argument(
                flag,
                action="append" if item.metadata["many"] else "store",
                type=_checked(item.metadata["parse"]),
                default=argparse.SUPPRESS,
                metavar=item.name.split("_")[-1].upper(),
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
            raise argparse.ArgumentTypeError(str(error)) from error

    return read
