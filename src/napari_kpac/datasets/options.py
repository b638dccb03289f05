"""Options of making, opening and augmenting pairs, as every interface shows them.

Loads nothing heavy. Not for: doing any of it (one module for each action).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import Any, Literal, get_args

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import check_values, number, option, parse_numbers

SPLITS = ("train", "val", "test")
"""Parts of a dataset."""

DataKind = Literal["synthetic", "dpdd", "pairs", "cuhk"]
"""Kinds of datasets: synthetic makes its pairs on the fly, from a folder of photographs."""

BlurredAs = Literal["white", "black"]
"""What a mask shows blurred pixels as."""


def check_blurred_as(value: Any) -> BlurredAs:
    """Return which masks show blurred pixels, or raise: it is never guessed."""
    if value not in get_args(BlurredAs):
        raise ConfigError(
            f"blurred={value!r}: say what the masks show blurred pixels as, white or black"
        )
    return value  # type: ignore[no-any-return]


ONLY: dict[str, tuple[DataKind, ...]] = {
    "sharp": ("pairs",),
    "dual": ("synthetic", "dpdd"),
    "blurred": ("cuhk",),
    "prefix": ("cuhk",),
}
"""Options that make sense for some kinds of datasets alone."""


@dataclass(frozen=True)
class ReadOptions:
    """Which kind of dataset is read, and how; part of evaluation and training."""

    kind: DataKind = option(
        "synthetic",
        "synthetic (made on the fly from a folder of sharp photographs), dpdd (DPDD, or what"
        " synthesise wrote), pairs (two folders) or cuhk (images and masks of their blur)",
        choices=get_args(DataKind),
    )
    sharp: str | None = option(None, "pairs: folder of the sharp images, if not below the root")
    dual: bool = option(False, "use dual-pixel views (left and right) as well")
    bits: int = option(
        8, "8 rounds deeper images to 8 bits, as the paper did; or 16", int, choices=(8, 16)
    )
    skip_bad: bool = option(False, "go on without files that cannot be used")

    def __post_init__(self) -> None:
        check_values(self)
        if self.sharp is not None:
            object.__setattr__(self, "sharp", str(self.sharp))
        for name, kinds in ONLY.items():
            if self.kind not in kinds and getattr(self, name, None):
                raise ConfigError(f"{name} goes with kind {' or '.join(kinds)}, not {self.kind}")


@dataclass(frozen=True)
class DataOptions(ReadOptions):
    """Which dataset is opened, and how it is read."""

    root: str = option("", "folder of the dataset; of pairs, perhaps of the blurred images")
    split: str = option("train", "train, val or test, where the dataset has such parts")
    blurred: BlurredAs | None = option(
        None, "cuhk: what the masks show blurred pixels as, white or black", check_blurred_as
    )
    prefix: str = option("", "cuhk: how the names of the wanted images begin")
    smallest: int = option(2, "side in pixels that images of pairs have at least", int)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "root", str(self.root))
        if not self.root:
            raise ConfigError(f"name the folder of the {self.kind} dataset (root)")
        if self.split not in SPLITS:
            raise ConfigError(f"split={self.split!r}: must be one of {', '.join(SPLITS)}")
        if self.kind == "cuhk":
            check_blurred_as(self.blurred)


@dataclass(frozen=True)
class SensorOptions:
    """What a sensor adds in linear light; each is drawn between 0 and these."""

    shot: float = number(2e-4, "shot noise at most: variance per unit of light", 0, 1)
    read: float = number(2e-3, "read noise at most, white being 1", 0, 1)
    highlights: float = number(
        2.0, "stops that small blown-out spots are brighter than white at most", 0, 10
    )


@dataclass(frozen=True)
class SynthesisOptions(SensorOptions):
    """What pairs are made of each photograph."""

    per_photo: int = number(1, "pairs made of each photograph", 1)
    val: float = option(0.15, "share of the photographs that go into val_*", float)
    test: float = option(0.15, "share of the photographs that go into test_*", float)
    size: int | None = option(
        None, "longest side; larger photographs are made smaller", int, limits=(16, inf)
    )
    max_radius: float = number(
        8.0, "largest radius of the blur in pixels", 0, 100, aliases=("largest",)
    )
    scene: str = option("random", "radius maps: plane, tilted, objects, smooth or random")
    aperture: str = option("random", "disc, polygon, gaussian, rimmed or random")
    near: bool = option(True, "whether parts may be nearer than the plane of focus")
    layers: int | None = option(
        None, "layers of a radius map at most; default: one every half pixel or so", int,
        limits=(1, inf),
    )  # fmt: skip
    dual: bool = option(False, "write left and right dual-pixel views as well")
    bits: int = option(8, "8 or 16, of the images", int, choices=(8, 16))
    seed: int = number(0, "the same seed makes the same pairs", 0)
    skip_bad: bool = option(False, "go on without photographs that cannot be used")

    def __post_init__(self) -> None:
        # Imported here, since it loads more than a command line needs for its help.
        from napari_kpac.optics.aperture import find_aperture
        from napari_kpac.optics.scene import KINDS

        check_values(self)
        if not (min(self.val, self.test) >= 0 and self.val + self.test <= 1):
            raise ConfigError(
                f"the shares of val ({self.val:g}) and test ({self.test:g}) must not be negative,"
                " nor be more than 1 together"
            )
        if self.scene not in (*KINDS, "random"):
            raise ConfigError(
                f"no scene is called {self.scene!r}; choose one of {', '.join(KINDS)} or random"
            )
        find_aperture(self.aperture)

    def record(self) -> dict[str, Any]:
        """Return what decides how the pairs look, for the folder's record."""
        kept = asdict(self)
        del kept["skip_bad"]
        return kept


@dataclass(frozen=True)
class DefocusOptions:
    """How crops of sharp photographs are put out of focus while training."""

    radii: tuple[float, ...] = option(
        (), "synthetic: radii of the uniform crops, as R1,R2,..., none above max_radius;"
        " default: all",
        parse_numbers,
    )  # fmt: skip
    spread: float = number(
        0.36, "synthetic: each of the radii times a factor up to exp of this", 0, 3
    )
    max_radius: float = number(
        20.0, "synthetic: largest radius of the blur in pixels", 0, 100, aliases=("largest",)
    )
    shrink: float = number(0.5, "synthetic: photographs shrink by a factor from this to 1", 0.1, 1)
    noise: float = number(0.03, "noise on the blurred image: sigma at most, white being 1", 0, 1)
    noise_probability: float = number(
        0.5, "synthetic: share of the crops with such noise", 0, 1, aliases=("noisy",)
    )


@dataclass(frozen=True)
class Augmentation:
    """What is done at random to each pair in training."""

    crop_size: int = number(256, "side of the square crops in pixels", 1)
    flips: bool = option(True, "mirror and upend images")
    rotations: bool = option(
        True, "turn images by multiples of 90 degrees; dual-pixel views by 180 only"
    )
    scale: tuple[float, float] = option(
        (1.0, 1.0), "images are scaled by a factor from LOW to HIGH, as LOW,HIGH", parse_numbers
    )
    noise: float = number(
        DefocusOptions.noise, "noise on the blurred image: sigma at most, white being 1", 0, 1
    )

    def __post_init__(self) -> None:
        check_values(self)
        object.__setattr__(self, "scale", tuple(self.scale))
        if len(self.scale) != 2 or not 0.1 <= self.scale[0] <= self.scale[1] <= 10:
            raise ConfigError(
                f"scale={self.scale}: two factors LOW,HIGH in 0.1..10 are needed, LOW first"
            )
