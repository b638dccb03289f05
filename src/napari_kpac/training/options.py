"""Options of training, as every interface shows them, and the presets that ship with us.

Loads nothing heavy. Not for: the loop (loop), or what pairs are made of (datasets).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from importlib.resources import files
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from napari_kpac.core.errors import ConfigError, FileError
from napari_kpac.core.files import read_text
from napari_kpac.core.options import (
    check_name,
    is_number,
    number,
    option,
    parse_numbers,
    rename_aliases,
)
from napari_kpac.datasets.options import Augmentation, DefocusOptions, ReadOptions

TrainKind = Literal["synthetic", "dpdd", "pairs"]
Network = Literal["kpac", "residual", "dmenet"]
TrainPrecision = Literal["float32", "bfloat16", "float16"]
PRESETS = ("default", "paper", "finetune", "smoke")
MAX_STEPS = 10**9


@dataclass(frozen=True)
class DatasetOptions(ReadOptions):
    """What is learned from."""

    kind: TrainKind = option(
        "synthetic",
        "data: synthetic (a folder of sharp photographs), dpdd, or pairs (two folders)",
        choices=get_args(TrainKind),
    )
    root: tuple[str, ...] = option((), "folder of the data; may be given several times", many=True)
    pairs_root: tuple[str, ...] = option(
        (), "synthetic: folder of pairs that are mixed in (paired); may be given several times",
        many=True, aliases=("pairs",),
    )  # fmt: skip
    validation_share: float = number(
        0.1, "share kept for validation where the data does not say which part is", 0, 0.9,
        aliases=("held_out",),
    )  # fmt: skip


@dataclass(frozen=True)
class NetworkOptions:
    """The network that learns."""

    start: str = option("", "model to start from; by default from scratch")
    network: Network = option(
        "kpac", "kpac; residual: the paper's baseline of 2 levels, only to compare with; or dmenet,"
        " which estimates the radius of the blur",
        choices=get_args(Network),
    )  # fmt: skip
    width: int = number(64, "dmenet: channels of the first level, even; published: 64", 2, 512)
    levels: int = option(3, "levels of the network, 2 or 3", int, choices=(2, 3))
    blocks: int = number(2, "KPAC blocks", 1, 16)
    channels: int = number(48, "channels of the first level; the paper has 48", 1, 1024)
    shared_kernels: bool = option(True, "whether the dilations of a block share their kernel")
    scale_attention: bool = option(True, "whether the network has scale attention (alpha)")
    shape_attention: bool = option(True, "whether the network has shape attention (beta)")


@dataclass(frozen=True)
class OptimiserOptions:
    """Losses, learning rates and steps."""

    steps: int = number(
        20_000, "steps with the mean absolute error, of all phases together", 0, MAX_STEPS
    )
    batch_size: int = number(
        2, "crops in a step, over all devices together", 1, 4096, aliases=("batch",)
    )
    learning_rate: float = number(5e-4, "learning rate", 1e-9, 1, aliases=("rate",))
    final_learning_rate: float = number(
        0.02, "share of the learning rate that is left at the end (cosine)", 0, 1,
        aliases=("final_rate",),
    )  # fmt: skip
    warmup: int = number(100, "steps over which the learning rate rises", 0, MAX_STEPS)
    fine_steps: int = number(0, "steps of a second phase with the perceptual loss", 0, MAX_STEPS)
    fine_learning_rate: float = number(
        5e-5, "learning rate of the second phase", 1e-9, 1, aliases=("fine_rate",)
    )
    perceptual: float = number(7e-4, "weight of the perceptual loss in the second phase", 0, 1e3)
    vgg: str = option(
        "", "file with VGG-19 weights, for the perceptual loss (by default from torch's hub cache)"
        " or for dmenet's encoder (by default from scratch)",
    )  # fmt: skip
    attention_learning_rate: float = number(
        0.2, "learning rate of the attention modules, as a share", 0, 100,
        aliases=("attention_rate",),
    )  # fmt: skip
    attention_loss: float = number(
        0.03, "weight of the loss that ties alpha to the radius of the blur, where it is known",
        0, 100,
    )  # fmt: skip
    frequency_loss: float = number(
        0.0, "weight of the mean absolute error of the Fourier transforms", 0, 100
    )
    psnr_loss: float = number(
        0.0, "weight of the PSNR in dB, which lowers the loss: what is nearly right must stay so",
        0, 100,
    )  # fmt: skip
    focus_weight: float = number(
        1.0, "weight in the PSNR loss of what is in focus in a crop (below 1 px), each other range"
        " of radii having 1",
        1e-3, 1e3,
    )  # fmt: skip
    steering: float = number(
        0.3, "share of the crops whose alpha is changed as sliders would, and the target with it",
        0, 1,
    )  # fmt: skip
    betas: tuple[float, float] = option((0.9, 0.99), "Adam's betas, as B1,B2", parse_numbers)
    gradient_clip: float = number(
        0.1, "largest norm of a gradient; 0: not clipped", 0, 1e6, aliases=("clip",)
    )
    ema_decay: float = number(
        0.999, "decay of the averaged weights; 0: none", 0, 0.999999, aliases=("ema",)
    )


@dataclass(frozen=True)
class CropOptions(DefocusOptions):
    """Which crops are drawn, and how they are blurred."""

    crop_size: int = number(
        Augmentation.crop_size, "side of the crops in pixels", 16, 4096, aliases=("crop",)
    )
    uniform: float = number(0.5, "synthetic: share of the crops with one radius all over", 0, 1)
    scenes: float = number(0.42, "synthetic: share of the crops of scenes with depth", 0, 1)
    focused: float = number(0.08, "synthetic: share of the crops in focus", 0, 1)
    paired: float = number(
        0.0, "synthetic: share of the crops from pairs; without such folders, the others get it",
        0, 1,
    )  # fmt: skip
    fixed_batch: bool = option(False, "always the same crops: to see whether a network can learn")


@dataclass(frozen=True)
class RunOptions:
    """Name, devices, and how often a run validates and saves."""

    validate_every: int = number(
        500, "steps between validations", 1, MAX_STEPS, aliases=("validate",)
    )
    validation_crops: int = number(24, "crops of a validation", 1, 10**5, aliases=("crops",))
    save_every: int = number(100, "steps between saved states", 1, MAX_STEPS, aliases=("save",))
    name: str = option("my-model", "name of the model that is made")
    seed: int = number(0, "the same seed makes the same run", 0, 2**31 - 1)
    device: str = option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")
    devices: int = number(
        0, "devices of a machine that work together; on a CPU, processes of one thread each;"
        " 0: on a CPU whatever is faster, else one",
        0, 1024,
    )  # fmt: skip
    nodes: int = number(1, "machines that work together (needs the extra train)", 1, 1024)
    precision: TrainPrecision = option(
        "float32", "float32, bfloat16 or float16 (mixed)", choices=get_args(TrainPrecision)
    )
    threads: int = number(0, "threads of a CPU; 0: as torch sees fit", 0, 1024)


# The fields of the last base come first.
@dataclass(frozen=True)
class TrainOptions(RunOptions, CropOptions, OptimiserOptions, NetworkOptions, DatasetOptions):
    """What is trained, on what, and how."""

    phases: tuple[Mapping[str, Any], ...] = ()
    """Parts of the run with options of their own (``PHASE_OPTIONS``); in a preset: [[phases]]."""

    def __post_init__(self) -> None:
        for name in ("root", "pairs_root"):
            given = getattr(self, name)
            given = (given,) if isinstance(given, str | Path) else given
            object.__setattr__(self, name, tuple(str(each) for each in given if str(each)))
        for name in ("betas", "radii"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not all(isinstance(phase, Mapping) for phase in self.phases):
            raise ConfigError(f"phases={self.phases!r:.80}: each must be a table of options")
        phases = tuple(rename_aliases(type(self), phase) for phase in self.phases)
        object.__setattr__(self, "phases", phases)
        super().__post_init__()
        if len(self.betas) != 2 or not all(is_number(b) and 0 <= b < 1 for b in self.betas):
            raise ConfigError(f"betas={self.betas}: must be two numbers from 0 up to 1")
        if self.crop_size % 2**self.levels:
            raise ConfigError(
                f"crop_size={self.crop_size}: a network of {self.levels} levels needs multiples of"
                f" {2**self.levels}"
            )
        if self.batch_size % (max(1, self.devices) * self.nodes):
            raise ConfigError(
                f"batch_size={self.batch_size}: {self.devices * self.nodes} devices cannot share"
                " it evenly"
            )
        if self.steps + self.fine_steps < 1:
            raise ConfigError("at least one step is needed: set steps or fine_steps")
        if self.network == "residual" and (self.levels == 3 or self.dual or self.start):
            raise ConfigError(
                "network='residual': the baseline has 2 levels, takes one image and starts from"
                " scratch; set levels=2, dual=False and no start"
            )
        if self.network == "dmenet":
            self._check_dmenet()
        check_name(self.name)
        if not all(is_number(radius) and radius > 0 for radius in self.radii):
            raise ConfigError(f"radii={self.radii}: must be numbers of pixels above 0")
        if self.kind == "synthetic":
            self._check_shares()
        elif self.pairs_root:
            raise ConfigError(
                f"pairs_root={self.pairs_root}: folders of pairs are mixed into kind synthetic; for"
                f" kind {self.kind} name them as root"
            )
        self._check_phases()

    def _check_dmenet(self) -> None:
        if self.crop_size % 16 or self.crop_size < 32:
            raise ConfigError(
                f"crop_size={self.crop_size}: network 'dmenet' needs multiples of 16, from 32 on"
            )
        if self.width % 2:
            raise ConfigError(f"width={self.width}: must be even")
        if self.dual or self.fine_steps or self.pairs_root:
            raise ConfigError(
                "network='dmenet' learns the known radius of single images; set dual=False,"
                " fine_steps=0 and no pairs_root"
            )
        if self.vgg and self.width != 64:
            raise ConfigError(f"width={self.width}: VGG-19's weights fit a width of 64 alone")
        if self.vgg and self.start:
            raise ConfigError(
                "give a model to start from (start) or VGG-19's weights (vgg), not both"
            )

    def _check_shares(self) -> None:
        shares = {name: getattr(self, name) for name in SHARES}
        if abs(sum(shares.values()) - 1) > 1e-6:
            given = ", ".join(f"{name} {share:g}" for name, share in shares.items())
            raise ConfigError(
                f"the shares of the crops ({given}) sum to {sum(shares.values()):g}, not to 1"
            )
        if self.paired == 1 and not self.pairs_root:
            raise ConfigError(
                "paired=1: all crops come from pairs, but no folder of pairs is named (pairs_root)"
            )

    def _check_phases(self) -> None:
        for count, phase in enumerate(self.phases, start=1):
            unknown = sorted(map(str, set(phase) - set(PHASE_OPTIONS)))
            if unknown:
                raise ConfigError(
                    f"phase {count} has no option {', '.join(unknown)}; a phase may set"
                    f" {', '.join(PHASE_OPTIONS)}"
                )
            part: Any = phase.get("part")
            if not is_number(part) or not 0 < part <= 1:
                raise ConfigError(
                    f"phase {count}: part={part!r} must be a share of the steps, above 0 up to 1"
                )
            try:
                self._of_phase(phase, steps=1)
            except ConfigError as error:
                raise ConfigError(f"phase {count}: {error}") from error
        total = sum(phase["part"] for phase in self.phases)
        if self.phases and abs(total - 1) > 1e-6:
            raise ConfigError(f"the parts of the phases sum to {total:g}, not to 1")

    def _of_phase(self, phase: Mapping[str, Any], steps: int) -> TrainOptions:
        """Return the options of a phase: those of the run, but for what it sets."""
        plain = {item.name: getattr(self, item.name) for item in fields(self)}
        own = {name: value for name, value in phase.items() if name not in ("part", "label")}
        alone = {"phases": (), "fine_steps": 0, "perceptual": 0.0, "steps": steps}
        return type(self).from_dict({**plain, **alone, **own})

    def schedule(self) -> list[Phase]:
        """Return the phases of the run, in order; without phases, the run itself is the first."""
        phases = self.phases or ({"part": 1.0},)
        parts = accumulate((phase["part"] for phase in phases), initial=0.0)
        ends = [round(part * self.steps) for part in parts]
        found = [
            Phase(
                str(phase.get("label", "training")), begin, end, self._of_phase(phase, end - begin)
            )
            for phase, (begin, end) in zip(phases, pairwise(ends), strict=True)
            if end > begin
        ]
        if self.fine_steps:
            options = replace(
                self, phases=(), steps=self.fine_steps, fine_steps=0, warmup=0,
                learning_rate=self.fine_learning_rate, final_learning_rate=1.0,
            )  # fmt: skip
            found.append(Phase("fine-tuning", self.steps, self.total, options))
        return found

    @property
    def total(self) -> int:
        """Steps of both phases."""
        return self.steps + self.fine_steps

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON and TOML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TrainOptions:
        """Return options from plain values; earlier names are known, others are an error."""
        values = rename_aliases(cls, values)
        kinds = {item.name: type(item.default) for item in fields(cls)}
        unknown = sorted(map(str, set(values) - set(kinds)))
        if unknown:
            raise ConfigError(f"training has no option {', '.join(unknown)}")
        allowed = {int: (int,), float: (int, float), bool: (bool,), tuple: (tuple, list)}
        for key, value in values.items():
            wanted = kinds[key]
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

PHASE_OPTIONS = (
    "label", "part", *SHARES, *(item.name for item in fields(DefocusOptions)), "steering",
    "learning_rate", "final_learning_rate", "warmup", "batch_size", "crop_size", "gradient_clip",
    "attention_learning_rate", "attention_loss", "frequency_loss", "psnr_loss",
    "focus_weight",
)  # fmt: skip
"""What a phase may set: its name, its share of the steps, its data and how it learns."""

LIMITS: dict[str, tuple[float, float]] = {
    item.name: item.metadata["limits"]
    for item in fields(TrainOptions)
    if item.metadata.get("limits")
}
CHOICES: dict[str, tuple[Any, ...]] = {
    item.name: item.metadata["choices"]
    for item in fields(TrainOptions)
    if item.metadata.get("choices")
}


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
        return rename_aliases(TrainOptions, tomllib.loads(content))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the preset {text} is not valid TOML: {error}") from error


def preset(name: str | Path, /, **changes: Any) -> TrainOptions:
    """Return the options of a preset and what differs from it."""
    changes = rename_aliases(TrainOptions, changes)
    return TrainOptions.from_dict({**preset_values(name), **changes})
