"""Options of training, as every interface shows them, and the presets that ship with us.

Loads nothing heavy. Not for: the loop (loop), or what pairs are made of (datasets).
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import read_text
from napari_kpac.core.options import check_name, is_number, option, parse_numbers

TrainKind = Literal["synthetic", "dpdd", "pairs"]
Network = Literal["kpac", "residual"]
TrainPrecision = Literal["float32", "bfloat16", "float16"]
PRESETS = ("default", "paper", "finetune", "smoke")


@dataclass(frozen=True)
class TrainOptions:
    """What is trained, on what, and how."""

    kind: TrainKind = option(
        "synthetic", "data: synthetic (a folder of sharp photographs), dpdd, or pairs (two folders)"
    )
    root: tuple[str, ...] = option((), "folder of the data; may be given several times", many=True)
    pairs: tuple[str, ...] = option(
        (), "synthetic: folder of pairs that are mixed in (paired); may be given several times",
        many=True,
    )  # fmt: skip
    sharp: str | None = option(None, "pairs: folder of the sharp images, if not below the root")
    bits: int = option(8, "8 rounds deeper images to 8 bits, as the paper did; or 16", int)
    held_out: float = option(
        0.1, "share kept for validation where the data does not say which part is", float
    )
    skip_bad: bool = option(False, "go on without files that cannot be used")

    start: str = option("", "model to start from; by default from scratch")
    network: Network = option(
        "kpac", "kpac, or residual: the paper's baseline of 2 levels, only to compare with"
    )
    levels: int = option(3, "levels of the network, 2 or 3", int)
    blocks: int = option(2, "KPAC blocks", int)
    channels: int = option(48, "channels of the first level; the paper has 48", int)
    dual: bool = option(False, "train a dual-pixel network")
    shared_kernels: bool = option(True, "whether the dilations of a block share their kernel")
    scale_attention: bool = option(True, "whether the network has scale attention (alpha)")
    shape_attention: bool = option(True, "whether the network has shape attention (beta)")

    steps: int = option(20_000, "steps with the mean absolute error, of all phases together", int)
    rate: float = option(5e-4, "learning rate", float)
    final_rate: float = option(0.02, "share of the rate that is left at the end (cosine)", float)
    warmup: int = option(100, "steps over which the rate rises", int)
    fine_steps: int = option(0, "steps of a second phase with the perceptual loss", int)
    fine_rate: float = option(5e-5, "learning rate of the second phase", float)
    perceptual: float = option(7e-4, "weight of the perceptual loss in the second phase", float)
    vgg: str = option("", "file with VGG-19 weights; by default from torch's hub cache")
    attention_rate: float = option(0.2, "rate of the attention modules, as a share", float)
    attention_loss: float = option(
        0.03, "weight of the loss that ties alpha to the radius of the blur, where it is known",
        float,
    )  # fmt: skip
    steering: float = option(
        0.3, "share of the crops whose alpha is changed as sliders would, and the target with it",
        float,
    )  # fmt: skip
    betas: tuple[float, float] = option((0.9, 0.99), "Adam's betas, as B1,B2", parse_numbers)
    clip: float = option(0.1, "largest norm of a gradient; 0: not clipped", float)
    ema: float = option(0.999, "decay of the averaged weights; 0: none", float)

    batch: int = option(2, "crops in a step, over all devices together", int)
    crop: int = option(256, "side of the crops in pixels", int)
    uniform: float = option(0.5, "synthetic: share of the crops with one radius all over", float)
    scenes: float = option(0.42, "synthetic: share of the crops of scenes with depth", float)
    focused: float = option(0.08, "synthetic: share of the crops in focus", float)
    paired: float = option(
        0.0, "synthetic: share of the crops from pairs; without such folders, the others get it",
        float,
    )  # fmt: skip
    radii: tuple[float, ...] = option(
        (), "synthetic: radii of the uniform crops, as R1,R2,..., none above largest; default: all",
        parse_numbers,
    )  # fmt: skip
    spread: float = option(
        0.36, "synthetic: each of the radii times a factor up to exp of this", float
    )
    largest: float = option(20.0, "synthetic: largest radius of the blur in pixels", float)
    shrink: float = option(0.5, "synthetic: photographs shrink by a factor from this to 1", float)
    noise: float = option(0.03, "noise on the blurred image: sigma at most, white being 1", float)
    noisy: float = option(0.5, "synthetic: share of the crops with such noise", float)
    fixed_batch: bool = option(False, "always the same crops: to see whether a network can learn")

    validate: int = option(500, "steps between validations", int)
    crops: int = option(24, "crops of a validation", int)
    save: int = option(100, "steps between saved states", int)
    phases: tuple[Mapping[str, Any], ...] = ()
    """Parts of the run with options of their own (``OF_A_PHASE``); in a preset: [[phases]]."""
    name: str = option("my-model", "name of the model that is made")
    seed: int = option(0, "the same seed makes the same run", int)
    device: str = option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")
    devices: int = option(
        0, "devices of a machine that work together; on a CPU, processes of one thread each;"
        " 0: on a CPU whatever is faster, else one",
        int,
    )  # fmt: skip
    nodes: int = option(1, "machines that work together (needs the extra train)", int)
    precision: TrainPrecision = option("float32", "float32, bfloat16 or float16 (mixed)")
    threads: int = option(0, "threads of a CPU; 0: as torch sees fit", int)

    def __post_init__(self) -> None:
        for name in ("root", "pairs"):
            given = getattr(self, name)
            given = (given,) if isinstance(given, str | Path) else given
            object.__setattr__(self, name, tuple(str(each) for each in given if str(each)))
        for name in ("betas", "radii"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not all(isinstance(phase, Mapping) for phase in self.phases):
            raise ConfigError(f"phases={self.phases!r:.80}: each must be a table of options")
        object.__setattr__(self, "phases", tuple(dict(phase) for phase in self.phases))
        self._one_of("kind", get_args(TrainKind))
        self._one_of("precision", get_args(TrainPrecision))
        self._one_of("network", get_args(Network))
        for name, allowed in CHOICES.items():
            self._one_of(name, allowed)
        for name, (low, high) in LIMITS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not low <= value <= high:
                raise ConfigError(f"{name}={value!r}: must lie in {low:g}..{high:g}")
        if len(self.betas) != 2 or not all(is_number(b) and 0 <= b < 1 for b in self.betas):
            raise ConfigError(f"betas={self.betas}: must be two numbers from 0 up to 1")
        if self.crop % 2**self.levels:
            raise ConfigError(
                f"crop={self.crop}: a network of {self.levels} levels needs multiples of"
                f" {2**self.levels}"
            )
        if self.batch % (max(1, self.devices) * self.nodes):
            raise ConfigError(
                f"batch={self.batch}: {self.devices * self.nodes} devices cannot share it evenly"
            )
        if self.steps + self.fine_steps < 1:
            raise ConfigError("at least one step is needed: set steps or fine_steps")
        if self.network == "residual" and (self.levels == 3 or self.dual or self.start):
            raise ConfigError(
                "network='residual': the baseline has 2 levels, takes one image and starts from"
                " scratch; set levels=2, dual=False and no start"
            )
        if self.sharp is not None and self.kind != "pairs":
            raise ConfigError(f"sharp goes with kind pairs, not {self.kind}")
        if self.dual and self.kind == "pairs":
            raise ConfigError("plain pairs have no dual-pixel views; use kind dpdd or synthetic")
        check_name(self.name)
        self._check_data()
        self._check_phases()

    def _check_data(self) -> None:
        """Raise unless shares and radii of synthetic data make sense."""
        if not all(is_number(radius) and radius > 0 for radius in self.radii):
            raise ConfigError(f"radii={self.radii}: must be numbers of pixels above 0")
        if self.kind != "synthetic":
            if self.pairs:
                raise ConfigError(
                    f"pairs={self.pairs}: folders of pairs are mixed into kind synthetic; for kind"
                    f" {self.kind} name them as root"
                )
            return
        shares = {name: getattr(self, name) for name in SHARES}
        if abs(sum(shares.values()) - 1) > 1e-6:
            given = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            raise ConfigError(
                f"the shares of the crops ({given}) sum to {sum(shares.values()):g}, not to 1"
            )
        if self.paired == 1 and not self.pairs:
            raise ConfigError(
                "paired=1: all crops come from pairs, but no folder of pairs is named"
            )

    def _check_phases(self) -> None:
        if not self.phases:
            return
        for number, phase in enumerate(self.phases, start=1):
            unknown = sorted(map(str, set(phase) - set(OF_A_PHASE)))
            if unknown:
                raise ConfigError(
                    f"phase {number} has no option {', '.join(unknown)}; a phase may set"
                    f" {', '.join(OF_A_PHASE)}"
                )
            part = phase.get("part")
            if part is None or not is_number(part) or not 0 < part <= 1:
                raise ConfigError(
                    f"phase {number}: part={part!r} must be a share of the steps, above 0 up to 1"
                )
        total = sum(phase["part"] for phase in self.phases)
        if abs(total - 1) > 1e-6:
            raise ConfigError(f"the parts of the phases sum to {total:g}, not to 1")
        for number in range(1, len(self.phases) + 1):
            try:
                self._phase(number - 1, 1)
            except ConfigError as error:
                raise ConfigError(f"phase {number}: {error}") from error

    def _phase(self, index: int, steps: int) -> TrainOptions:
        values = {k: v for k, v in self.phases[index].items() if k not in ("part", "label")}
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        plain |= {"phases": (), "fine_steps": 0, "perceptual": 0.0, "steps": steps}
        return type(self).from_dict({**plain, **values})

    def schedule(self) -> list[Phase]:
        """Return the phases of the run, in order; without phases, the run itself is the first."""
        ends, done, found = [0], 0.0, []
        for phase in self.phases or ({"part": 1.0},):
            done += phase["part"]
            ends.append(round(done * self.steps))
        for index, (begin, end) in enumerate(pairwise(ends)):
            if end > begin:
                alone = replace(self, fine_steps=0, perceptual=0.0)
                options = self._phase(index, end - begin) if self.phases else alone
                label = self.phases[index].get("label", "training") if self.phases else "training"
                found.append(Phase(str(label), begin, end, options))
        if self.fine_steps:
            options = replace(
                self, phases=(), steps=self.fine_steps, fine_steps=0, rate=self.fine_rate,
                final_rate=1.0, warmup=0,
            )  # fmt: skip
            found.append(Phase("fine-tuning", self.steps, self.total, options))
        return found

    def _one_of(self, name: str, allowed: tuple[Any, ...]) -> None:
        if getattr(self, name) not in allowed:
            choices = ", ".join(map(str, allowed))
            raise ConfigError(f"{name}={getattr(self, name)!r}: must be one of {choices}")

    @property
    def total(self) -> int:
        """Steps of both phases."""
        return self.steps + self.fine_steps

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON and TOML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainOptions:
        """Inverse of :meth:`to_dict`; an unknown option is an error."""
        kinds = {item.name: type(item.default) for item in fields(cls)}
        unknown = sorted(map(str, set(values) - set(kinds)))
        if unknown:
            raise ConfigError(f"training has no option {', '.join(unknown)}")
        for key, value in values.items():
            wanted = kinds[key]
            allowed = {int: (int,), float: (int, float), bool: (bool,), tuple: (tuple, list)}
            fits = isinstance(value, allowed.get(wanted, (str,))) or (
                value is None and wanted is type(None)
            )
            # Runs of before have one folder of data, as a text.
            fits = fits or (key == "root" and isinstance(value, str))
            if not fits or (isinstance(value, bool) and wanted is not bool):
                raise ConfigError(f"{key}={value!r}: not a value for this option of training")
        return cls(**values)


@dataclass(frozen=True)
class Phase:
    """A part of a run."""

    label: str
    begin: int
    """First step, counted from 0."""
    end: int
    """The step after the last one."""
    options: TrainOptions
    """Its own options: ``steps`` are those of this phase."""


SHARES = ("uniform", "scenes", "focused", "paired")
"""Shares of the crops; together they are 1."""

OF_A_PHASE = (
    "label", "part", *SHARES, "radii", "spread", "largest", "shrink", "noise", "noisy", "steering",
    "rate", "final_rate", "warmup", "batch", "crop", "clip", "attention_rate", "attention_loss",
)  # fmt: skip
"""What a phase may set: its name, its share of the steps, its data and how it learns."""

LIMITS: dict[str, tuple[float, float]] = {
    "held_out": (0, 0.9),
    "blocks": (1, 16),
    "channels": (1, 1024),
    "steps": (0, 10**9),
    "fine_steps": (0, 10**9),
    "rate": (1e-9, 1),
    "fine_rate": (1e-9, 1),
    "final_rate": (0, 1),
    "warmup": (0, 10**9),
    "perceptual": (0, 1e3),
    "attention_rate": (0, 100),
    "attention_loss": (0, 100),
    "clip": (0, 1e6),
    "ema": (0, 0.999999),
    "batch": (1, 4096),
    "crop": (16, 4096),
    "steering": (0, 1),
    "uniform": (0, 1),
    "scenes": (0, 1),
    "focused": (0, 1),
    "paired": (0, 1),
    "spread": (0, 3),
    "largest": (0, 100),
    "shrink": (0.1, 1),
    "noise": (0, 1),
    "noisy": (0, 1),
    "validate": (1, 10**9),
    "crops": (1, 10**5),
    "save": (1, 10**9),
    "seed": (0, 2**31 - 1),
    "devices": (0, 1024),
    "nodes": (1, 1024),
    "threads": (0, 1024),
}
"""Smallest and largest value of what is a number."""

CHOICES = {"levels": (2, 3), "bits": (8, 16)}
"""Numbers of which only a few make sense."""


def preset_values(name: str | Path) -> dict[str, Any]:
    """Read a preset: one of ours by name, or a TOML file of one's own."""
    text = str(name)
    if text in PRESETS:
        content = files("napari_kpac.training").joinpath(f"presets/{text}.toml").read_text("utf-8")
    else:
        path = Path(text)
        if path.suffix != ".toml":
            raise ConfigError(
                f"no preset is called {text!r}; there are {', '.join(PRESETS)}; or give a .toml"
            )
        try:
            content = read_text(path)
        except FileError as error:
            raise ConfigError(f"cannot read the preset {error}") from error
    try:
        values = tomllib.loads(content)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the preset {text} is not valid TOML: {error}") from error
    return values


def preset(name: str | Path, /, **changes: Any) -> TrainOptions:
    """Make options from a preset and what differs from it."""
    return TrainOptions.from_dict({**preset_values(name), **changes})


def rate_at(step: int, options: TrainOptions) -> float:
    """Return the rate of a step of a phase, counted from 0: a rise, then half a cosine.

    With ``final_rate`` 1 the rate stays as it is after its rise.
    """
    if step < options.warmup:
        return options.rate * (step + 1) / (options.warmup + 1)
    done = (step - options.warmup) / max(1, options.steps - options.warmup)
    left = options.final_rate + (1 - options.final_rate) * (1 + math.cos(math.pi * done)) / 2
    return options.rate * left
