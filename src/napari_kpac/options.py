"""Options of the actions on images: one frozen record each.

The window's controls, the terminal's flags and the recipe file are all views of these.
Loads nothing heavy. Not for: what is decided per picture (engine).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

import numpy as np

from napari_kpac.errors import ConfigError

RangeName = Literal["auto", "dtype", "unit", "percentile"]
RangeRule = RangeName | tuple[float, float]
Tile = int | Literal["auto"] | None
Memory = int | str | None
Precision = Literal["float32", "mixed"]

SHARE_OF_FREE = 0.6

_SIZE = re.compile(r"\s*([0-9]*\.?[0-9]+)\s*([kmgt]?)i?b?\s*", re.IGNORECASE)


def check_range(rule: Any) -> RangeRule:
    """Return a valid rule, or raise."""
    if isinstance(rule, str):
        if rule in get_args(RangeName):
            return rule  # type: ignore[return-value]
    elif isinstance(rule, Iterable):
        values = tuple(rule)
        if len(values) == 2 and all(isinstance(v, int | float | np.number) for v in values):
            low, high = map(float, values)
            if np.isfinite((low, high)).all() and low < high:
                return low, high
    raise ConfigError(
        f"range={rule!r}: must be {', '.join(get_args(RangeName))}, or two numbers (low, high)"
    )


def parse_memory(memory: Memory, free: int) -> int:
    """Return a budget in bytes: a number, a text like ``4 GB``, or a safe share of what is free."""
    if memory is None:
        return int(free * SHARE_OF_FREE)
    if isinstance(memory, str):
        match = _SIZE.fullmatch(memory)
        if match:
            power = "kmgt".find(match[2].lower()) + 1 if match[2] else 0
            memory = int(float(match[1]) * 1000**power)
    if isinstance(memory, bool) or not isinstance(memory, int) or memory <= 0:
        raise ConfigError(f"memory={memory!r}: give a number of bytes or a text like '4 GB'")
    return memory


def check_tile(tile: Any) -> Tile:
    """Return a valid tile option, or raise."""
    if tile is None or tile == "auto":
        return tile  # type: ignore[no-any-return]
    if isinstance(tile, bool) or not isinstance(tile, int) or not 8 <= tile <= 1_000_000:
        raise ConfigError(f"tile={tile!r}: must be 'auto', None (untiled) or a side of 8 or more")
    return tile


def option(default: Any, help: str, parse: Callable[[str], Any] = str) -> Any:
    """Declare a field with the words that every interface shows for it, and how to read it."""
    return field(default=default, metadata={"help": help, "parse": parse})


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


def _channels(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _range(text: str) -> RangeRule:
    return check_range(_numbers(text) if "," in text else text)


def _tile(text: str) -> Tile:
    return check_tile(None if text == "none" else text if text == "auto" else int(text))


def _upsampling(text: str) -> int | str:
    return int(text) if text.isdigit() else text


@dataclass(frozen=True)
class ImageOptions:
    """How an image is read and where the network runs; shared by all actions on images."""

    model: str = option("default", "name of a model, or path of a model file")
    device: str = option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")
    range: RangeRule = option(
        "auto",
        "values seen as black and white: auto, dtype, unit, percentile, or two as LOW,HIGH",
        _range,
    )
    rgb: bool | None = option(None, "whether the last axis is colour; by default as in napari")
    channel_axis: int | None = option(None, "axis whose rgb_channels form one colour picture", int)
    rgb_channels: tuple[int, int, int] | None = option(
        None, "three channels to process as RGB, as R,G,B", _channels
    )
    tile: Tile = option("auto", "side of a tile in pixels, auto, or none for one piece", _tile)
    memory: Memory = option(None, "memory budget, for example '4 GB'; default: what is safe")
    precision: Precision = option("float32", "float32, or mixed (half precision, GPUs only)")

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", check_range(self.range))
        check_tile(self.tile)
        parse_memory(self.memory, free=1)
        if self.precision not in get_args(Precision):
            raise ConfigError(f"precision={self.precision!r}: must be float32 or mixed")
        if self.rgb_channels is not None:
            object.__setattr__(self, "rgb_channels", tuple(self.rgb_channels))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in plain.items()}

    @classmethod
    def from_dict(cls, values: Any) -> Any:
        """Inverse of :meth:`to_dict`; an unknown option is an error."""
        known = {item.name for item in fields(cls)}
        if not isinstance(values, dict) or set(values) - known:
            raise ConfigError(f"options must be a table of {', '.join(sorted(known))}")
        plain: dict[str, Any] = {
            key: tuple(v) if isinstance(v, list) else v for key, v in values.items()
        }
        try:
            return cls(**plain)
        except TypeError as error:
            raise ConfigError(f"bad option: {error}") from error


@dataclass(frozen=True)
class DeblurOptions(ImageOptions):
    """Options of deblurring."""


@dataclass(frozen=True)
class BlurMapOptions(ImageOptions):
    """Options of the blur map."""

    upsampling: int | Literal["auto", "paper"] = option(
        "auto",
        "enlarge the picture first: auto (4 up to 1 MP, less above), paper (4), 1, 2 or 4",
        _upsampling,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upsampling not in ("auto", "paper", 1, 2, 4):
            raise ConfigError(f"upsampling={self.upsampling!r}: must be auto, paper, 1, 2 or 4")
