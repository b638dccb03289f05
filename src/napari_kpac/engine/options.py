"""Options of the engine's actions: one frozen record each.

The window's controls, the terminal's flags and the recipe file are all views of these.
Not for: anything that is decided per picture.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from napari_kpac.engine.pixels import RangeRule, check_range
from napari_kpac.engine.plan import Memory, Tile, check_tile, parse_memory
from napari_kpac.errors import ConfigError

Precision = Literal["float32", "mixed"]


def _option(default: Any, help: str, **extra: Any) -> Any:
    """Declare a field with the words that every interface shows for it."""
    return field(default=default, metadata={"help": help, **extra})


@dataclass(frozen=True)
class ImageOptions:
    """How an image is read and where the network runs; shared by all actions on images."""

    model: str = _option("default", "name of a model, or path of a model file")
    device: str = _option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")
    range: RangeRule = _option(
        "auto", "values seen as black and white: auto, dtype, unit, percentile, or two numbers"
    )
    rgb: bool | None = _option(None, "whether the last axis is colour; by default as in napari")
    channel_axis: int | None = _option(None, "axis whose rgb_channels form one colour picture")
    rgb_channels: tuple[int, int, int] | None = _option(None, "three channels to process as RGB")
    tile: Tile = _option("auto", "side of a tile in pixels, auto, or None for one piece")
    memory: Memory = _option(None, "memory budget, for example '4 GB'; default: what is safe")
    precision: Precision = _option("float32", "float32, or mixed (half precision, GPUs only)")

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

    upsampling: int | Literal["auto", "paper"] = _option(
        "auto", "enlarge the picture first: auto (4 up to 1 MP, less above), paper (4), 1, 2 or 4"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.upsampling not in ("auto", "paper", 1, 2, 4):
            raise ConfigError(f"upsampling={self.upsampling!r}: must be auto, paper, 1, 2 or 4")
