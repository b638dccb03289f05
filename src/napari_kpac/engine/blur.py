"""The blur map: alpha_1 of block 1 as a measure of defocus, at image resolution.

Only the encoder and the first block's attention are run. Not for: thresholds and scores
(detection).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.options import BlurMapOptions
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine.allocator import keeping_memory
from napari_kpac.engine.bottleneck import Bottleneck
from napari_kpac.engine.job import Job, model_name
from napari_kpac.engine.memory import explaining_shortage, within_memory
from napari_kpac.engine.model import Model
from napari_kpac.engine.pixels import PlaneReader
from napari_kpac.engine.plan import Plan
from napari_kpac.engine.recipe import upsample
from napari_kpac.engine.stages import Stages, stores

FULL_FACTOR = 4
FULL_FACTOR_UP_TO = 1_000_000


@dataclass(frozen=True, eq=False)
class BlurMap:
    """A blur map and how it was made."""

    values: npt.NDArray[np.float32]
    """(H, W) in 0..1, larger = more blurred; leading axes of a stack come first."""
    alpha: npt.NDArray[np.float32]
    """All alphas of block 1, (dilations, H, W), leading axes first."""
    upsampling: int
    """By how much the image was enlarged first."""
    options: BlurMapOptions


def blur_map(
    image: Any,
    model: Model = "default",
    device: str = "auto",
    upsampling: int | Literal["auto", "paper"] = "auto",
    **options: Any,
) -> npt.NDArray[np.float32]:
    """Measure how blurred each pixel is: 0..1, larger = more blurred.

    This is alpha_1 of block 1, the attention of the smallest dilation, which the paper found
    to be active wherever there is blur of any size. As in the paper, the image is enlarged
    first: by 4 up to 1 megapixel, by less above, always by 4 with ``upsampling="paper"``.
    """
    chosen = BlurMapOptions(
        model=model_name(model), device=device, upsampling=upsampling, **options
    )
    return finish(blur_map_steps(image, chosen, model=model)).values


def blur_map_steps(
    image: Any,
    options: BlurMapOptions | None = None,
    *,
    views: tuple[Any, Any] | None = None,
    model: Model | None = None,
) -> Steps[BlurMap]:
    """Do the same step by step: yields progress after every tile, returns the map."""
    with explaining_shortage():
        return (yield from _blur_map(image, options or BlurMapOptions(), views, model))


def _blur_map(
    image: Any, options: BlurMapOptions, views: tuple[Any, Any] | None, model: Model | None
) -> Steps[BlurMap]:
    job = Job.prepare(image, options, views=views, model=model)
    height, width = job.layout.size
    factor = upsampling_factor(options.upsampling, height * width)
    plan = job.plan((height * factor, width * factor))
    planes = list(job.layout.planes())
    found = []
    with keeping_memory():
        for number, plane in enumerate(planes):
            reader = job.reader(plane, enlarge=factor)

            def attempt(
                plan: Plan, number: int = number, reader: PlaneReader = reader
            ) -> Steps[npt.NDArray[np.float32]]:
                each = plan.tile_count + 1
                return _attend(
                    job, reader, plan, Progress(number * each, len(planes) * each, "encode")
                )

            alpha, plan = yield from within_memory(job.net.config, job.device, plan, attempt)
            enlarged = upsample(alpha, job.net.config.multiple, (height * factor, width * factor))
            found.append(_shrunk(enlarged, factor))
            each = plan.tile_count + 1
            yield Progress((number + 1) * each, len(planes) * each, "attention")
    leading = job.layout.leading if job.layout.rgb_channels is None else (len(planes),)
    alphas = np.stack(found).reshape(*leading, *found[0].shape)
    return BlurMap(np.ascontiguousarray(alphas[..., 0, :, :]), alphas, factor, options)


def upsampling_factor(wanted: int | str, pixels: int) -> int:
    """Return the factor by which an image of that many pixels is enlarged."""
    if wanted == "paper":
        return FULL_FACTOR
    if isinstance(wanted, int):
        return wanted
    if pixels <= FULL_FACTOR_UP_TO:
        return FULL_FACTOR
    return 2 if pixels <= 4 * FULL_FACTOR_UP_TO else 1


def _attend(
    job: Job, reader: PlaneReader, plan: Plan, start: Progress
) -> Steps[npt.NDArray[np.float32]]:
    """Encode an image and run block 1's attention; returns alpha (dilations, h, w)."""
    home = torch.device("cpu") if plan.scratch else job.device
    with stores(plan, home, reader.dtype) as make:
        run = Stages(
            job.net, reader, plan, job.device, make, mixed=job.options.precision == "mixed"
        )
        for count, _ in enumerate(run.encode(levels=()), start=start.done + 1):
            yield replace(start, done=count)
        return Bottleneck(run).attention(0, run.take_features())[0].float().cpu().numpy()


def _shrunk(maps: npt.NDArray[np.float32], factor: int) -> npt.NDArray[np.float32]:
    """Average maps (n, H, W) over squares of that side."""
    pooled: Tensor = F.avg_pool2d(torch.from_numpy(maps)[None], factor)
    return pooled[0].numpy()
