"""Options of the actions on images: one frozen record each.

The window's controls, the terminal's flags and the recipe file are all views of these.
Loads nothing heavy. Not for: what is decided per image (engine).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from napari_kpac.core.errors import ConfigError, WeightsError
from napari_kpac.core.estimators import ESTIMATOR_NAMES

T = TypeVar("T")
RangeName = Literal["auto", "dtype", "unit", "percentile"]
RangeRule = RangeName | tuple[float, float]
Tile = int | Literal["auto"] | None
Memory = int | str | None
Precision = Literal["float32", "mixed"]
ThresholdRule = Literal["midrange", "mean", "otsu", "fixed"]
Deconvolution = Literal["default", "paper"]
"""Settings of the deconvolution with a defocus map: ours, or those of the literature."""
ExportFormat = Literal["bioimageio", "onnx", "torchscript"]
"""What a model can be exported as."""
MapKind = Literal["png8", "png16", "tiff", "npy", "overlay"]
"""Kinds of files that hold blur maps."""

SHARE_OF_FREE_MEMORY = 0.6
MAX_PIXELS_ENLARGED_BY_4 = 1_000_000
"""Larger images are enlarged by less for a blur map."""

SOURCES = ("mixture", "variance", *ESTIMATOR_NAMES)
"""What a blur map can be made from, besides single attention maps: alpha1, alpha2, ..."""
METHODS = ("kpac", *ESTIMATOR_NAMES, "map")
"""How an image can be deblurred: by the network, or by deconvolution with the map of an estimator
or with a map of one's own."""
DECONVOLUTION_HELP = (
    "settings of the deconvolution with a defocus map: default, or paper (those of the literature: "
    "exponent 1.5, weight 16.8, 32 levels at quantiles; smoother)"
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_ALPHA = re.compile(r"alpha([1-9][0-9]?)?")
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
            # The network sees half the width as 1: it must be a number, and not 0.
            if low < high and np.isfinite(high - low) and (high - low) / 2 > 0:
                return low, high
    raise ConfigError(
        f"range={rule!r}: must be {', '.join(get_args(RangeName))}, or two numbers (low, high)"
    )


def parse_memory(memory: Memory, free: int) -> int:
    """Return a budget in bytes: a number, a text like ``4 GB``, or a safe share of what is free."""
    if memory is None:
        return int(free * SHARE_OF_FREE_MEMORY)
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


def alpha_number(source: str) -> int | None:
    """Return which alpha a source names, counted from 1; None where it is not a single one.

    ``alpha`` alone is the first, which the paper uses.
    """
    match = _ALPHA.fullmatch(source)
    return int(match[1] or 1) if match else None


def check_source(source: Any) -> str:
    """Return a valid source of a blur map, or raise."""
    if not isinstance(source, str) or (source not in SOURCES and alpha_number(source) is None):
        raise ConfigError(f"source={source!r}: must be alpha1, alpha2, ..., {', '.join(SOURCES)}")
    return source


def check_threshold_rule(rule: Any) -> ThresholdRule:
    """Return a valid rule for a threshold, or raise."""
    names = get_args(ThresholdRule)
    if rule not in names:
        raise ConfigError(f"threshold_rule={rule!r}: must be one of {', '.join(names)}")
    return rule  # type: ignore[no-any-return]


def check_threshold(rule: Any, threshold: float | None) -> None:
    """Raise unless a threshold was given exactly where the rule wants one."""
    if check_threshold_rule(rule) == "fixed":
        if not is_number(threshold):
            raise ConfigError(f"threshold={threshold!r}: rule 'fixed' needs a number, e.g. 0.5")
    elif threshold is not None:
        raise ConfigError(
            f"threshold={threshold!r}: rule {rule!r} finds its own; leave the threshold out or "
            "choose rule 'fixed'"
        )


def is_number(value: Any) -> bool:
    """Return True if a value is a finite real number."""
    kinds = (int, float, np.integer, np.floating)
    try:
        return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # an integer beyond all floating-point numbers
        return False


def check_name(name: object) -> str:
    """Return the name of a model if it can stand in the catalogue and as a file name, or raise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WeightsError(
            f"model name {str(name)[:80]!r}: use 1 to 64 letters, digits, dots, dashes and "
            "underscores, beginning with a letter or digit"
        )
    return name


def option(
    default: Any,
    help: str,
    parse: Callable[[str], Any] = str,
    *,
    many: bool = False,
    limits: tuple[float, float] | None = None,
    choices: tuple[Any, ...] = (),
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a field of an options record, with what every interface needs to know of it.

    Parameters
    ----------
    default
        Its value where nothing else is given.
    help
        What it is, as every interface shows it.
    parse
        Reads its value from a text.
    many
        Whether the field is a tuple whose values are given one by one.
    limits
        Smallest and largest number (see :func:`check_values`).
    choices
        All values that it may have, where they are few.
    aliases
        Earlier names, still accepted by command lines, presets and files of ours.
    """
    metadata = {
        "help": help,
        "parse": parse,
        "many": many,
        "limits": limits,
        "choices": choices,
        "aliases": aliases,
    }
    return field(default=default, metadata=metadata)


def number(
    default: float,
    help: str,
    low: float,
    high: float = math.inf,
    *,
    aliases: tuple[str, ...] = (),
) -> Any:
    """Declare a field that is a number, of the type of its default, from ``low`` to ``high``."""
    return option(default, help, type(default), limits=(low, high), aliases=aliases)


def check_values(options: Any) -> None:
    """Raise unless every field of a record keeps to its limits and choices; None is not checked."""
    for item in fields(options):
        value = getattr(options, item.name)
        choices, limits = item.metadata.get("choices"), item.metadata.get("limits")
        if choices and value not in choices:
            names = ", ".join(map(str, choices))
            raise ConfigError(f"{item.name}={value!r}: must be one of {names}")
        if limits and value is not None:
            low, high = limits
            if not is_number(value) or not low <= value <= high:
                raise ConfigError(f"{item.name}={value!r}: must lie in {low:g}..{high:g}")


def rename_aliases(record: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by the names that the fields of a record have today.

    Raises
    ------
    ConfigError
        If an option is given by two of its names.
    """
    today = {old: item.name for item in fields(record) for old in item.metadata.get("aliases", ())}
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        new = today.get(name, name)
        if new in renamed:
            raise ConfigError(f"{new} is given twice, once by an earlier name; give it once")
        renamed[new] = value
    return renamed


def select_options(record: type[T], options: Any, **changes: Any) -> T:
    """Make a record from the fields that it shares with other options, and from changes."""
    there = {item.name for item in fields(options)}
    shared = [item.name for item in fields(record) if item.name in there]  # type: ignore[arg-type]
    return record(**{name: getattr(options, name) for name in shared} | changes)


def parse_numbers(text: str) -> tuple[float, ...]:
    """Read numbers that are separated by commas."""
    return tuple(float(part) for part in text.split(","))


def _channels(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def _range(text: str) -> RangeRule:
    return check_range(parse_numbers(text) if "," in text else text)


def _tile(text: str) -> Tile:
    whole = text.removeprefix("-").isdecimal()
    return check_tile(None if text == "none" else int(text) if whole else text)


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
    channel_axis: int | None = option(None, "axis whose rgb_channels form one colour image", int)
    rgb_channels: tuple[int, int, int] | None = option(
        None, "three channels to process as RGB, as R,G,B", _channels
    )
    tile: Tile = option("auto", "side of a tile in pixels, auto, or none for one piece", _tile)
    memory: Memory = option(None, "memory budget, for example '4 GB'; default: what is safe")
    precision: Precision = option(
        "float32", "float32, or mixed (half precision where it is faster)"
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", check_range(self.range))
        check_tile(self.tile)
        parse_memory(self.memory, free=1)
        if self.precision not in get_args(Precision):
            raise ConfigError(f"precision={self.precision!r}: must be float32 or mixed")
        if (self.channel_axis is None) != (self.rgb_channels is None):
            raise ConfigError("channel_axis and rgb_channels go together: give both or neither")
        if self.rgb_channels is not None:
            object.__setattr__(self, "rgb_channels", tuple(self.rgb_channels))
            if len(self.rgb_channels) != 3:
                raise ConfigError(f"rgb_channels={self.rgb_channels}: must be three channels")

    def upsampling_factor(self, pixels: int, best: int = 1) -> int:  # noqa: ARG002 - see BlurMap
        """Return the whole factor by which an image of that many pixels is enlarged first."""
        return 1

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        return {key: list(v) if isinstance(v, tuple) else v for key, v in plain.items()}

    @classmethod
    def from_dict(cls, values: Any) -> Any:
        """Return options from what :meth:`to_dict` gave; an unknown one is an error."""
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

    method: str = option(
        "kpac",
        "kpac (the network), or deconvolution with a defocus map: that of an estimator "
        f"({', '.join(ESTIMATOR_NAMES)}) or your own (map)",
    )
    deconvolution: Deconvolution = option(
        "default", DECONVOLUTION_HELP, choices=get_args(Deconvolution)
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in METHODS:
            raise ConfigError(f"method={self.method!r}: must be one of {', '.join(METHODS)}")
        check_values(self)


@dataclass(frozen=True)
class BlurMapOptions(ImageOptions):
    """Options of the blur map."""

    upsampling: int | Literal["auto", "paper"] = option(
        "auto",
        "enlarge the image first: auto (what the model's card says is best for it), paper (4), 1, "
        "2 or 4",
        _upsampling,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upsampling not in ("auto", "paper", 1, 2, 4):
            raise ConfigError(f"upsampling={self.upsampling!r}: must be auto, paper, 1, 2 or 4")

    def upsampling_factor(self, pixels: int, best: int = 1) -> int:
        """Return the whole factor by which an image of that many pixels is enlarged first.

        ``best`` is the factor that is best for the model; ``auto`` enlarges large images by less.
        """
        if isinstance(self.upsampling, int):
            return self.upsampling
        if self.upsampling == "paper":
            return 4
        small = pixels <= MAX_PIXELS_ENLARGED_BY_4
        most = 4 if small else 2 if pixels <= 4 * MAX_PIXELS_ENLARGED_BY_4 else 1
        return min(best, most)


@dataclass(frozen=True)
class DetectionOptions(BlurMapOptions):
    """Options of blur detection: what is measured, and what counts as blurred."""

    source: str = option(
        "alpha1",
        "what to measure blur by: alpha1 (as in the paper), alpha2, ..., mixture (of all "
        "alphas), variance (local variance, without a network), or the defocus in pixels by an "
        f"estimator: {', '.join(ESTIMATOR_NAMES)}",
        check_source,
    )
    weights: tuple[float, ...] | None = option(
        None,
        "weight of each alpha in the mixture, as W1,W2,...; by default all the same",
        parse_numbers,
    )
    window: int = option(15, "side of the window of source variance, in pixels; an odd number", int)
    smoothing: float = option(0.0, "sigma of a Gaussian over the map, in pixels", float)
    threshold_rule: ThresholdRule = option(
        "midrange",
        "what counts as blurred: midrange (0.3 max + 0.7 min), mean (1.5 times the mean, at "
        "most 1), otsu, or fixed",
        check_threshold_rule,
    )
    threshold: float | None = option(None, "the threshold of rule fixed, in 0..1", float)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_source(self.source)
        if self.weights is not None:
            self._check_weights()
        if isinstance(self.window, bool) or self.window not in range(3, 1000, 2):
            raise ConfigError(f"window={self.window!r}: must be an odd number from 3 to 999")
        if not is_number(self.smoothing) or not 0 <= self.smoothing <= 1000:
            raise ConfigError(f"smoothing={self.smoothing!r}: must be a sigma of 0 to 1000 pixels")
        check_threshold(self.threshold_rule, self.threshold)

    def _check_weights(self) -> None:
        weights = tuple(self.weights or ())
        if self.source != "mixture":
            raise ConfigError(f"weights go with source 'mixture', not with {self.source!r}")
        if not all(is_number(w) and w >= 0 for w in weights) or not sum(weights) > 0:
            raise ConfigError(f"weights={weights}: must be numbers of 0 or more, not all 0")
        object.__setattr__(self, "weights", weights)
