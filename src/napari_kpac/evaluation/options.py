"""Options of an evaluation, as every interface shows them.

Loads nothing heavy. Not for: where reports go.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from napari_kpac.core.errors import ConfigError
from napari_kpac.core.estimators import ESTIMATORS
from napari_kpac.core.options import DECONVOLUTION_HELP, Deconvolution, option, parse_numbers
from napari_kpac.datasets.options import DataOptions

MethodName = str
METHODS: tuple[MethodName, ...] = (
    *(each.name for each in ESTIMATORS if not each.needs_model),
    *("wiener", "richardson-lucy", "unsharp"),
)
"""Methods without a network: deconvolution with the map of an estimator, and others."""
Blur = Literal["scenes", "uniform"]
"""What the crops of the synthetic benchmark are blurred by."""
SSIMPreset = Literal["default", "paper"]
"""How SSIM is scaled, see :func:`napari_kpac.evaluation.metrics.ssim`."""
SSIM_PRESETS: tuple[SSIMPreset, ...] = get_args(SSIMPreset)


def check_method(name: Any) -> MethodName:
    """Return the name of a method, or raise."""
    if name not in METHODS:
        raise ConfigError(f"method={name!r}: must be one of {', '.join(METHODS)}")
    return str(name)


@dataclass(frozen=True)
class EvaluateOptions(DataOptions):
    """What is compared, on what, and how it is measured."""

    split: str = option("val", "train, val or test, where the dataset has such parts")
    model: tuple[str, ...] = option(
        ("default",), "a model: a name or a file; once for each", many=True
    )
    method: tuple[MethodName, ...] = option(
        (), f"a method without a network: {', '.join(METHODS)}; once for each", check_method,
        many=True,
    )  # fmt: skip
    deconvolution: Deconvolution = option(
        "default", DECONVOLUTION_HELP, choices=get_args(Deconvolution)
    )
    radius: float | None = option(
        None,
        "radius in pixels of the disc that wiener and richardson-lucy take as the blur; by "
        "default they estimate a Gaussian for each image",
        float,
    )
    noise: tuple[float, ...] = option(
        (0.0,), "sigmas of added Gaussian noise in percent of the range, as S1,S2", parse_numbers
    )
    fit_exposure: bool = option(
        False,
        "fit gain and offset of each channel to the sharp image before scores are computed, "
        "since images of real pairs differ in exposure",
    )
    blur: Blur = option(
        "scenes",
        "synthetic: scenes with depth, or uniform, a disc of one radius all over each crop",
        choices=get_args(Blur),
    )
    sliders: bool = option(
        False, "measure what the sliders of each model do as well, where the radius is known"
    )
    ssim: SSIMPreset = option("default", "scale of SSIM: default, or paper (not comparable)")
    lpips: bool = option(True, "measure LPIPS too, where its package and weights are there")
    limit: int | None = option(None, "use only the first images or photographs", int)
    seed: int = option(0, "of noise and synthetic data; another seed is another benchmark", int)
    device: str = option("auto", "auto, cpu, or one of the devices here (cuda:0, mps, xpu:0)")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("model", "method", "noise"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        for name in self.method:
            check_method(name)
        for given in (self.model, self.method, self.noise):
            if len(set(given)) < len(given):
                raise ConfigError(f"{', '.join(map(str, given))}: name each one once")
        if self.radius is not None and not 0 < self.radius <= 100:
            raise ConfigError(f"radius={self.radius}: must be above 0, and 100 pixels at most")
        if not self.noise or not all(0 <= sigma <= 100 for sigma in self.noise):
            raise ConfigError(f"noise={self.noise}: must be percentages from 0 to 100")
        if self.ssim not in SSIM_PRESETS:
            raise ConfigError(f"ssim={self.ssim!r}: must be {' or '.join(SSIM_PRESETS)}")
        if self.fit_exposure and self.kind == "cuhk":
            raise ConfigError("fit_exposure goes with pairs of images, not cuhk")
        if self.blur != "scenes" and self.kind != "synthetic":
            raise ConfigError(f"blur={self.blur!r} goes with kind synthetic, not {self.kind}")
        if self.limit is not None and self.limit < 1:
            raise ConfigError(f"limit={self.limit}: must be 1 or more")
        if self.seed < 0:
            raise ConfigError(f"a seed is 0 or more, not {self.seed}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}
