"""Configuration of a KPAC network: one frozen, validated record.

Not for: training or inference options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Literal, get_args

from napari_kpac.core.errors import ConfigError

StridePadding = Literal["authors", "symmetric"]

_ALLOWED = {
    "levels": (range(2, 4), "2 or 3"),
    "blocks": (range(1, 17), "a whole number from 1 to 16"),
    "kernel_size": (range(1, 32, 2), "an odd whole number from 1 to 31"),
    "channels": (range(1, 1025), "a whole number from 1 to 1024"),
    "shape_hidden": (range(1, 1025), "a whole number from 1 to 1024"),
    "views": (range(1, 3), "1 (one image) or 2 (a dual-pixel pair)"),
}
"""Values of the fields that are whole numbers."""


@dataclass(frozen=True)
class KPACConfig:
    """Shape of a KPAC network; the defaults are the paper's 3-level model.

    Parameters
    ----------
    levels
        Number of downsampling steps in the encoder, 2 or 3.
    blocks
        Number of KPAC blocks, at least 1.
    kernel_size
        Side of the shared atrous kernels, odd.
    dilations
        Dilation of each branch of a block.
    channels
        Width of the first encoder level; the bottleneck is twice as wide.
    shared_kernels
        Whether the branches of a block share one kernel, as in the paper.
    scale_attention, shape_attention
        Whether a block computes alpha (per pixel and dilation) and beta (per channel).
    shape_hidden
        Hidden width of the shape attention: 16 in the paper's table, 12 in the authors' files.
    stride_padding
        Padding of the strided convolutions: ``authors`` is TensorFlow's SAME rule
        (asymmetric on even sizes), ``symmetric`` pads one pixel on every side.
    views
        1 for a single image, 2 for a dual-pixel pair.
    """

    KIND: ClassVar[str] = "kpac"

    levels: int = 3
    blocks: int = 2
    kernel_size: int = 5
    dilations: tuple[int, ...] = (1, 2, 3, 4, 5)
    channels: int = 48
    shared_kernels: bool = True
    scale_attention: bool = True
    shape_attention: bool = True
    shape_hidden: int = 16
    stride_padding: StridePadding = "authors"
    views: int = 1

    def __post_init__(self) -> None:
        for name, (allowed, text) in _ALLOWED.items():
            if not is_whole(getattr(self, name), allowed):
                self._refuse(name, text)
        for name in ("shared_kernels", "scale_attention", "shape_attention"):
            if not isinstance(getattr(self, name), bool):
                self._refuse(name, "true or false")
        if self.stride_padding not in get_args(StridePadding):
            self._refuse("stride_padding", " or ".join(map(repr, get_args(StridePadding))))
        values = self.dilations
        if (
            not isinstance(values, tuple)
            or not 1 <= len(values) <= 32
            or not all(is_whole(value, range(1, 129)) for value in values)
            or len(set(values)) != len(values)
        ):
            self._refuse("dilations", "a tuple of 1 to 32 different whole numbers from 1 to 128")

    @property
    def columns_after(self) -> int:
        """Columns and rows of zeros that strided convolutions want after an even size."""
        return 0 if self.stride_padding == "symmetric" else 1

    @property
    def multiple(self) -> int:
        """Image sides must be multiples of this number: 4 at 2 levels, 8 at 3."""
        return int(2**self.levels)

    @property
    def wide(self) -> int:
        """Number of channels of the bottleneck."""
        return 2 * self.channels

    @property
    def level_channels(self) -> tuple[int, ...]:
        """Number of channels at each encoder level, full resolution first."""
        return (self.channels, self.channels, self.wide, self.wide)[: self.levels + 1]

    @property
    def scale_widths(self) -> tuple[int, int, int, int]:
        """Hidden widths of the scale attention: 32, 32, 16, 16 for the paper's 48 channels."""
        half, quarter = max(1, 2 * self.channels // 3), max(1, self.channels // 3)
        return (half, half, quarter, quarter)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {**asdict(self), "dilations": list(self.dilations)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> KPACConfig:
        """Make a configuration from what :meth:`to_dict` returns; an unknown field is an error."""
        plain = check_fields(cls, values)
        if isinstance(plain.get("dilations"), list):
            plain["dilations"] = tuple(plain["dilations"])
        return cls(**plain)

    def _refuse(self, name: str, allowed: str) -> None:
        raise ConfigError(f"KPACConfig.{name} = {getattr(self, name)!r}: must be {allowed}")


def check_fields(record: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a configuration as they were given; an unknown field is an error."""
    if not isinstance(values, Mapping):
        raise ConfigError(f"a network configuration must be a table of fields, got {values!r}")
    known = {field.name for field in fields(record)}
    unknown = sorted(map(str, set(values) - known))
    if unknown:
        raise ConfigError(
            f"unknown field(s) in the network configuration: {', '.join(unknown)}; "
            f"known are {', '.join(sorted(known))}"
        )
    return dict(values)


def is_whole(value: object, allowed: range) -> bool:
    """Return True if a value is an integer, not a bool, in a range."""
    return isinstance(value, int) and not isinstance(value, bool) and value in allowed
