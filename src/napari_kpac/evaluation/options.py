"""Options of an evaluation, as every interface shows them.

Loads nothing heavy. Not for: where reports go.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from napari_kpac.errors import ConfigError
from napari_kpac.options import option, parse_numbers

Dataset = Literal["dpdd", "pairs", "cuhk", "synthetic"]
DATASETS: tuple[Dataset, ...] = get_args(Dataset)
SSIM_PRESETS = ("default", "paper")


@dataclass(frozen=True)
class EvaluateOptions:
    """What is compared, on what, and how it is measured."""

    dataset: Dataset = option("synthetic", f"kind of data: {', '.join(DATASETS)}")
    root: str = option("", "folder of the data; of synthetic: of sharp photographs")
    split: str = option("val", "which part of the data: train, val or test")
    model: tuple[str, ...] = option(("default",), "a model to compare; may be repeated", many=True)
    noise: tuple[float, ...] = option(
        (0.0,), "sigmas of added Gaussian noise in percent of the range, as S1,S2", parse_numbers
    )
    ssim: str = option("default", "scale of SSIM: default, or paper (not comparable)")
    limit: int | None = option(None, "use only the first pictures or photographs", int)
    seed: int = option(0, "of noise and synthetic data; another seed is another benchmark", int)
    device: str = option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")

    def __post_init__(self) -> None:
        if self.dataset not in DATASETS:
            raise ConfigError(f"no dataset is called {self.dataset!r}; use {', '.join(DATASETS)}")
        if not self.root:
            raise ConfigError("no data: give the folder as root")
        if not self.noise or not all(0 <= sigma <= 100 for sigma in self.noise):
            raise ConfigError(f"noise={self.noise}: must be percentages from 0 to 100")
        if self.ssim not in SSIM_PRESETS:
            raise ConfigError(f"ssim={self.ssim!r}: must be {' or '.join(SSIM_PRESETS)}")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit={self.limit}: must be 1 or more")
        if self.seed < 0:
            raise ConfigError(f"a seed is 0 or more, not {self.seed}")
        for name in ("model", "noise"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
