"""Options of making, opening and augmenting pairs, as every interface shows them.

Loads nothing heavy. Not for: doing any of it (one module for each action).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.options import option, parse_numbers

SPLITS = ("train", "val", "test")
"""Parts of a dataset."""

DataKind = Literal["synthetic", "dpdd", "pairs", "cuhk"]
"""Kinds of datasets: synthetic makes its pairs on the fly, from a folder of photographs."""

BlurredAs = Literal["white", "black"]
"""What a mask shows blurred pixels as."""


@dataclass(frozen=True)
class SynthesisOptions:
    """What pairs are made of each photograph."""

    per_photo: int = option(1, "pairs made of each photograph", int)
    val: float = option(0.15, "share of the photographs that go into val_*", float)
    test: float = option(0.15, "share of the photographs that go into test_*", float)
    size: int | None = option(None, "longest side; larger photographs are made smaller", int)
    largest: float = option(8.0, "largest radius of the blur in pixels", float)
    scene: str = option("random", "radius maps: plane, tilted, objects, smooth or random")
    aperture: str = option("random", "disc, polygon, gaussian, rimmed or random")
    near: bool = option(True, "whether parts may be nearer than the plane of focus")
    layers: int | None = option(
        None, "layers of a radius map at most; default: one every half pixel or so", int
    )
    shot: float = option(2e-4, "shot noise at most: variance per unit of light", float)
    read: float = option(2e-3, "read noise at most, white being 1", float)
    highlights: float = option(
        2.0, "stops that small blown-out spots are brighter than white at most", float
    )
    dual: bool = option(False, "write left and right dual-pixel views as well")
    bits: int = option(8, "8 or 16, of the images", int)
    seed: int = option(0, "the same seed makes the same pairs", int)
    skip_bad: bool = option(False, "go on without photographs that cannot be used")

    def __post_init__(self) -> None:
        # Imported here, since it loads more than a command line needs for its help.
        from napari_kpac.optics.aperture import find_aperture
        from napari_kpac.optics.scene import KINDS

        if self.per_photo < 1:
            raise ConfigError(f"at least one pair is made of each photograph, not {self.per_photo}")
        if not (min(self.val, self.test) >= 0 and self.val + self.test <= 1):
            raise ConfigError(
                f"the shares of val ({self.val:g}) and test ({self.test:g}) must not be negative,"
                " nor be more than 1 together"
            )
        if self.size is not None and self.size < 16:
            raise ConfigError(f"images need at least 16 pixels, not {self.size}")
        if not 0 <= self.largest <= 100:
            raise ConfigError(f"the largest radius is 0 to 100 pixels, not {self.largest}")
        if self.scene not in (*KINDS, "random"):
            raise ConfigError(
                f"no scene is called {self.scene!r}; choose one of {', '.join(KINDS)} or random"
            )
        find_aperture(self.aperture)
        if self.layers is not None and self.layers < 1:
            raise ConfigError(f"at least one layer is needed, not {self.layers}")
        for name, most in (("shot", 1), ("read", 1), ("highlights", 10)):
            if not 0 <= getattr(self, name) <= most:
                raise ConfigError(f"{name} lies in 0..{most}, not at {getattr(self, name)}")
        if self.bits not in (8, 16):
            raise ConfigError(f"images have 8 or 16 bits, not {self.bits}")
        if self.seed < 0:
            raise ConfigError(f"a seed is 0 or more, not {self.seed}")

    def record(self) -> dict[str, Any]:
        """Give what decides how the pairs look, for the folder's record."""
        kept = asdict(self)
        del kept["skip_bad"]
        return kept


@dataclass(frozen=True)
class Augmentation:
    """What is done at random to each pair in training."""

    crop: int = option(256, "side of the square crops in pixels", int)
    flips: bool = option(True, "mirror and upend images")
    rotations: bool = option(
        True, "turn images by multiples of 90 degrees; dual-pixel views by 180 only"
    )
    scale: tuple[float, float] = option(
        (1.0, 1.0), "images are scaled by a factor from LOW to HIGH, as LOW,HIGH", parse_numbers
    )
    noise: float = option(0.03, "noise on the blurred image: sigma at most, white being 1", float)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", tuple(self.scale))
        if self.crop < 1:
            raise ConfigError(f"crops have at least 1 pixel a side, not {self.crop}")
        if len(self.scale) != 2 or not 0.1 <= self.scale[0] <= self.scale[1] <= 10:
            raise ConfigError(
                f"scale={self.scale}: two factors LOW,HIGH in 0.1..10 are needed, LOW first"
            )
        if not 0 <= self.noise <= 1:
            raise ConfigError(f"the sigma of the noise lies in 0..1, not at {self.noise}")


def check_blurred_as(value: Any) -> BlurredAs:
    """Return which masks show blurred pixels, or raise: it is never guessed."""
    if value not in get_args(BlurredAs):
        raise ConfigError(
            f"blurred={value!r}: say what the masks show blurred pixels as, white or black"
        )
    return value  # type: ignore[no-any-return]


@dataclass(frozen=True)
class DataOptions:
    """Which dataset is opened, and how it is read."""

    kind: DataKind = option(
        "synthetic",
        "synthetic (made on the fly from a folder of sharp photographs), dpdd (DPDD, or what "
        "synthesise wrote), pairs (two folders) or cuhk (images and masks of their blur)",
    )
    root: str = option("", "folder of the dataset; of pairs, perhaps of the blurred images")
    sharp: str | None = option(None, "pairs: folder of the sharp images, if not below the root")
    split: str = option("train", "train, val or test, where the dataset has such parts")
    dual: bool = option(False, "read dual-pixel views too")
    bits: int = option(8, "8 rounds deeper images to 8 bits, as the paper did; or 16", int)
    blurred: BlurredAs | None = option(
        None, "cuhk: what the masks show blurred pixels as, white or black", check_blurred_as
    )
    prefix: str = option("", "cuhk: how the names of the wanted images begin")
    skip_bad: bool = option(False, "go on without files that cannot be used")
    smallest: int = option(2, "side in pixels that images of pairs have at least", int)

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", str(self.root))
        if self.sharp is not None:
            object.__setattr__(self, "sharp", str(self.sharp))
        kinds = get_args(DataKind)
        if self.kind not in kinds:
            raise ConfigError(f"kind={self.kind!r}: must be one of {', '.join(kinds)}")
        if not self.root:
            raise ConfigError(f"name the folder of the {self.kind} dataset (root)")
        if self.split not in SPLITS:
            raise ConfigError(f"split={self.split!r}: must be one of {', '.join(SPLITS)}")
        if self.bits not in (8, 16):
            raise ConfigError(f"images are read with 8 or 16 bits, not {self.bits}")
        if self.kind == "cuhk":
            check_blurred_as(self.blurred)
        for name, kinds_with in _ONLY.items():
            if self.kind not in kinds_with and getattr(self, name):
                raise ConfigError(f"{name} goes with {' or '.join(kinds_with)}, not {self.kind}")


_ONLY: dict[str, tuple[DataKind, ...]] = {
    "sharp": ("pairs",),
    "dual": ("synthetic", "dpdd"),
    "blurred": ("cuhk",),
    "prefix": ("cuhk",),
}
"""Options that make sense for some kinds of datasets alone."""
