"""One image, rendered again and again; a change restarts only what depends on it.

    image -> encode -> block 1 -> block 2 -> decode -> residual -> times strength -> pixels

Not for: stacks and files (deblurring.py), windows (widgets).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import CancelledError, ConfigError, ImageError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, StepCounter, Steps, finish, relay
from napari_kpac.engine.bottleneck import BlockCache, Bottleneck
from napari_kpac.engine.device import Model, card_of
from napari_kpac.engine.job import UNSET, Job, Views, as_numpy, options_of
from napari_kpac.engine.memory import explaining_shortage, give_back
from napari_kpac.engine.modulation import BlockModulation, Modulation, block_modulations
from napari_kpac.engine.pixels import PixelRange, Rect, restore_pixels
from napari_kpac.engine.recipe import Result
from napari_kpac.engine.sampling import SampledBottleneck
from napari_kpac.engine.stages import Stages, cut
from napari_kpac.network import KPACConfig
from napari_kpac.weights import ModelCard

T = TypeVar("T")
Check = Callable[[], None]
"""Raises where a newer request has come."""
Region = tuple[int, int, int, int]
"""(top, bottom, left, right) in pixels, ends excluded."""
PIXELS_AT_ONCE = 2_000_000
"""Of a result, so many are made of network values in a step."""
LEVELS = 255
"""Grey levels from black to white in which a change is told, whatever the image's type."""
SAMPLE_SIDE, SAMPLES = 192, 3
"""Effects are measured in so many parts along each side of an image, of at most that side."""


@dataclass(frozen=True)
class _Rendered:
    """The last render of the whole image, at strength 1."""

    mods: Sequence[BlockModulation]
    residual: Tensor
    caches: Sequence[BlockCache]
    """Only with the attention in them."""

    def is_of(self, mods: Sequence[BlockModulation]) -> bool:
        """Return True if it was made with these modulations."""
        return all(a.same_as(b) for a, b in zip(self.mods, mods, strict=True))


@dataclass(frozen=True)
class _Part:
    """A rectangle as the network sees it."""

    residual: Tensor
    """What is added to the image there (1, 3, h, w), at strength 1."""
    alpha: Tensor
    beta: Tensor
    corner: tuple[int, int]
    """First pixel of alpha's first cell, in the whole image."""
    scale: int
    """Pixels per cell of alpha."""


class Session:
    """An image that has been encoded once and can be rendered with any modulation.

    Parameters
    ----------
    image
        One image: grey (H, W), RGB or RGBA. Of a stack, take a slice.
    model, device, tile, memory, views, options, **fields
        As in :func:`napari_kpac.deblur`.
    pixel_range
        What the range rule gave, where that is known: for example for the whole stack.

    Notes
    -----
    Thread-safe: one render runs at a time, and a newer request makes an older one stop
    at its next step (a band of a tile or of a stage) with a ``CancelledError``. Where memory runs
    short, it goes on in smaller tiles and says so in ``note``.
    """

    def __init__(
        self,
        image: Any,
        model: Model | None = None,
        device: str | None = None,
        *,
        views: Views = None,
        tile: Any = UNSET,
        memory: Any = UNSET,
        options: DeblurOptions | None = None,
        pixel_range: PixelRange | None = None,
        **fields: Any,
    ) -> None:
        options = options_of(
            DeblurOptions, options, model=model, device=device, tile=tile, memory=memory, **fields
        )
        if options.method != "kpac":
            raise ConfigError(f"a Session runs the network; method {options.method!r} has none")
        with explaining_shortage():
            self._job = Job(image, options, views=views, model=model, pixel_range=pixel_range)
            if self._job.layout.leading:
                raise ImageError(
                    f"a Session takes one image, this image has shape {self._job.layout.shape}; "
                    "choose a slice, or use deblur() for all of them"
                )
            (self._plane,) = self._job.layout.planes()
            self._reader = self._job.load(self._plane)
        self._stages = self._job.stages(self._reader)
        self._bottleneck: Bottleneck | None = None
        self._last: _Rendered | None = None
        self._coarse: dict[int, Session] = {}
        """Sessions on the image at a fraction of its resolution, by that fraction."""
        self._sampled: SampledBottleneck | None = None
        self._plain: dict[Rect, Tensor] = {}
        """Residuals of the sampled parts, as the network has them."""
        self._closed = False
        self._lock = threading.RLock()
        self._latest = 0
        self._latest_lock = threading.Lock()
        self.note = ""
        """Something worth telling, for example that memory ran short; empty where all is well."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self._job.layout.size

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the image's values."""
        return self._job.layout.dtype

    @property
    def config(self) -> KPACConfig:
        """Configuration of the network."""
        return self._job.net.config

    @property
    def card(self) -> ModelCard:
        """Card of the model."""
        return card_of(self._job.net)

    def close(self) -> None:
        """Free all that is kept; the session cannot be used afterwards."""
        self.cancel()
        with self._lock:
            self._closed = True
            self._forget()
            self._job.spare.clear()
        give_back()

    def cancel(self) -> None:
        """Make a render that is under way stop at the next stage."""
        self._begin()

    def encode(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Run the first stage now instead of with the first render."""
        for done, tiles in self.encode_steps():
            if progress is not None:
                progress(done, tiles)

    def encode_steps(self) -> Iterator[tuple[int, int]]:
        """Do the same step by step: yields (tiles done, tiles in all); may be left at any."""
        with self._lock:
            for step in self._checked(self._begin(), lambda: self._encode(self._tile_count)):
                if not step.note:
                    yield step.done, step.total

    def render(
        self,
        modulation: Modulation | None = None,
        region: Region | None = None,
        *,
        draft: bool | int = False,
        sampled: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> Result:
        """Render the image, or exactly the same pixels of a part of it.

        Parameters
        ----------
        modulation
            None: as the network has it.
        region
            (top, bottom, left, right) in pixels: compute only what this part needs; the
            result's ``image`` has the size of the region.
        draft
            A quick look: the network runs at half resolution, or at a fraction (4: a quarter).
            Labelled as a draft.
        sampled
            Encode only around the region and a sample of the image: beta, which depends on the
            whole image, is estimated. Much quicker in a large image and nearly the same; ignored
            where it would save little or everything is encoded already. The result tells.
        progress
            Called with (steps done, steps in all).
        """

        def tell(step: Progress) -> Progress:
            if progress is not None and not step.note:
                progress(step.done, step.total)
            return step

        steps = self.render_steps(modulation, region, draft=draft, sampled=sampled)
        return finish(relay(steps, tell))

    def render_steps(
        self,
        modulation: Modulation | None = None,
        region: Region | None = None,
        *,
        draft: bool | int = False,
        sampled: bool = False,
    ) -> Steps[Result]:
        """Do the same step by step; may be left at any."""
        modulation = modulation or Modulation()
        modulation.check(self.config, self.size)
        rect = self._check_region(region)
        check = self._begin()

        def work() -> Steps[Result]:
            estimate = sampled and not draft and self._sampling_helps(rect)
            if draft:
                part = yield from self._draft(modulation, rect, max(2, int(draft)))
            elif estimate:
                part = yield from self._render_sampled(modulation, rect)
            else:
                part = yield from self._render(modulation, rect)
            result = yield from self._result(modulation, rect, part)
            return replace(result, draft=bool(draft), sampled=estimate)

        with self._lock:
            return (yield from self._checked(check, work))

    def mute_effect(
        self, block: int, index: int, wanted: Callable[[], bool] | None = None
    ) -> float:
        """Return what muting one dilation changes: the mean over the image, in levels of 255.

        Everything else is as the network has it. Along a side of more than 576 pixels three parts
        of 192 pixels are looked at, evenly spread.

        Parameters
        ----------
        block, index
            Which alpha, counted from 1 as in the paper.
        wanted
            Asked between stages; where it returns False, a ``CancelledError`` is raised, as
            when a newer request has come.
        """
        config = self.config
        if not (1 <= block <= config.blocks and 1 <= index <= len(config.dilations)):
            raise ConfigError(
                f"block {block}, alpha {index}: blocks are 1..{config.blocks}, alphas "
                f"1..{len(config.dilations)}"
            )
        gains = np.ones((config.blocks, len(config.dilations)))
        gains[block - 1, index - 1] = 0
        is_newest = self._begin()

        def check() -> None:
            is_newest()
            if wanted is not None and not wanted():
                raise CancelledError("the effect is not wanted any more")

        with self._lock:
            kept = self._last
            try:
                return finish(self._checked(check, lambda: self._measure(gains)))
            finally:
                # An image in one part would put the muted one in its place.
                self._last = kept if self._bottleneck is not None else None

    def _measure(self, gains: npt.NDArray[np.float64]) -> Steps[float]:
        total = pixels = 0.0
        rects = [
            Rect(*rows, *columns)
            for rows in _spans(self.size[0])
            for columns in _spans(self.size[1])
        ]
        for rect in rects:
            if rect not in self._plain:
                part = yield from self._render(Modulation(), rect)
                self._plain[rect] = part.residual
        muted = Modulation(gains=gains)
        for rect in rects:
            part = yield from self._render(muted, rect)
            change = part.residual - self._plain[rect]
            if self._plane.kind == "grey":
                change = change.mean(dim=1, keepdim=True)
            total += float(change.abs().sum())
            pixels += change.numel()
        return total / pixels * LEVELS / 2

    def _begin(self) -> Check:
        """Make older requests stop; returns a check that raises once there is a newer one."""
        with self._latest_lock:
            self._latest += 1
            return partial(self._check, self._latest)

    def _check(self, ticket: int) -> None:
        if self._closed:
            raise CancelledError("the session is closed")
        if ticket != self._latest:
            raise CancelledError("a newer request made this render pointless")

    def _checked(self, check: Check, work: Callable[[], Steps[T]]) -> Steps[T]:
        """Do work within memory; before it and after every step, see whether it is still wanted."""
        check()
        with closing(self._within_memory(work)) as steps:
            while True:
                try:
                    step = next(steps)
                except StopIteration as stop:
                    return cast("T", stop.value)
                yield step
                check()

    def _within_memory(self, work: Callable[[], Steps[T]]) -> Steps[T]:
        """Do work; where memory runs short, begin anew with a plan that needs less."""

        def attempt() -> Steps[T]:
            if self._job.plan is not self._stages.plan:
                self._stages = self._job.stages(self._reader)
                self.note = self._job.plan.shortage_note
            return work()

        return self._job.within_memory(attempt, self._forget)

    def _forget(self) -> None:
        """Free all that is kept; the next render encodes again."""
        self._bottleneck = None
        self._last = None
        self._sampled = None
        self._plain = {}
        self._stages.close()
        for coarse in self._coarse.values():
            coarse.close()
        self._coarse = {}

    @property
    def _tile_count(self) -> int:
        """Number of tiles that are still to be encoded."""
        return 0 if self._bottleneck is not None else self._stages.plan.tile_count

    def _encode(self, total: int) -> Steps[None]:
        if self._bottleneck is not None:
            return
        yield from relay(self._stages.encode(), partial(StepCounter(total).report, "encode"))
        self._bottleneck = Bottleneck(self._stages)

    def _render(self, modulation: Modulation, rect: Rect) -> Steps[_Part]:
        """Render a rectangle at strength 1."""
        stages = self._stages
        outer = rect.aligned(stages.cell)
        encoding, bands = self._tile_count, Bottleneck(stages).render_steps
        decoding = sum(1 for _ in stages.plan.tiles(outer))
        total = encoding + bands + decoding
        yield from self._encode(total)
        assert self._bottleneck is not None  # noqa: S101 - made by encoding
        mods = block_modulations(modulation, self.config, self._reader.padded)
        if self._last is not None and self._last.is_of(mods):
            residual, caches = cut(self._last.residual, rect), self._last.caches
        else:
            whole = rect == self._whole
            local = None if whole else stages.around(outer).divided(stages.cell)
            entered, place = yield from relay(
                self._bottleneck.render(mods, local),
                partial(StepCounter(total, encoding).report, "blocks"),
            )
            residual = yield from self._decode(stages, entered, place, outer, total)
            residual = cut(residual, rect.inside(outer))
            caches = self._bottleneck.present()
            if whole:
                light = [BlockCache(cache.alpha, cache.beta) for cache in caches]
                self._last = _Rendered(mods, residual, light)
        return self._part(residual, outer, mods, caches)

    def _sampling_helps(self, rect: Rect) -> bool:
        """Return True if a render with a sampled beta would come much sooner than an exact one."""
        if self._bottleneck is not None:
            return False
        if self._sampled is None:
            # Halves of skips are never kept here: the decoder makes those that it needs.
            self._sampled = SampledBottleneck(self._job.stages(self._reader))
        stages = self._sampled.stages
        local = stages.around(rect.aligned(stages.cell)).divided(stages.cell)
        return self._sampled.saves_time(local)

    def _render_sampled(self, modulation: Modulation, rect: Rect) -> Steps[_Part]:
        """Render a rectangle at strength 1, with beta from a sample of the image."""
        assert self._sampled is not None  # noqa: S101 - made when it was asked whether it helps
        stages = self._sampled.stages
        mods = block_modulations(modulation, self.config, self._reader.padded)
        outer = rect.aligned(stages.cell)
        local = stages.around(outer).divided(stages.cell)
        total = self._sampled.steps(local) + sum(1 for _ in stages.plan.tiles(outer))
        found = yield from relay(
            self._sampled.render(mods, local), partial(StepCounter(total).report, "sample")
        )
        residual = yield from self._decode(stages, found.entered, found.place, outer, total)
        return self._part(cut(residual, rect.inside(outer)), outer, mods, found.caches)

    def _part(
        self,
        residual: Tensor,
        outer: Rect,
        mods: Sequence[BlockModulation],
        caches: Sequence[BlockCache],
    ) -> _Part:
        """Put together what was made of a rectangle; ``outer`` is made of whole cells."""
        stages = self._stages
        cells = outer.divided(stages.cell).grown(1, *stages.cells)
        used = [
            mod.cropped(cells).apply(
                cut(cache.alpha, cells if cache.place is None else cells.inside(cache.place))
            )
            for mod, cache in zip(mods, caches, strict=True)
        ]
        beta = torch.cat([cache.beta for cache in caches])
        corner = (cells.top * stages.cell, cells.left * stages.cell)
        alpha, beta = (
            self._job.backend.download(maps, torch.float32) for maps in (torch.cat(used), beta)
        )
        return _Part(residual, alpha, beta, corner, stages.cell)

    def _decode(
        self, stages: Stages, entered: Tensor, place: Rect, outer: Rect, total: int
    ) -> Steps[Tensor]:
        """Decode a rectangle whose edges are multiples of a cell: the last of ``total`` steps."""
        before = total - sum(1 for _ in stages.plan.tiles(outer))
        return relay(
            stages.decode_all(entered, outer, place),
            partial(StepCounter(total, before).report, "decode"),
        )

    def _draft(self, modulation: Modulation, rect: Rect, factor: int) -> Steps[_Part]:
        """Render at a fraction of the resolution and enlarge the residual."""
        if factor not in self._coarse:
            self._coarse[factor] = self._make_coarse(factor)
        session, every = self._coarse[factor], slice(None, None, factor)
        coarse = replace(
            modulation,
            labels=None
            if modulation.labels is None
            else np.asarray(modulation.labels)[every, every],
            override={
                key: np.asarray(value)[every, every] if np.ndim(value) else value
                for key, value in modulation.override.items()
            },
        )
        # One pixel more on every side, for the enlargement looks at neighbours.
        needed = rect.aligned(factor).divided(factor).grown(1, *session.size)
        part = yield from session._render(coarse, needed)
        enlarged = F.interpolate(
            part.residual, scale_factor=float(factor), mode="bilinear", align_corners=False
        )
        return replace(
            part,
            residual=cut(enlarged, rect.inside(needed.times(factor))),
            corner=(factor * part.corner[0], factor * part.corner[1]),
            scale=factor * part.scale,
        )

    def _make_coarse(self, factor: int) -> Session:
        """Open a session on the image at a fraction of its resolution, seen in the same range."""
        job, grey = self._job, self._plane.kind == "grey"

        def shrink(array: Any) -> npt.NDArray[Any]:
            values = np.asarray(array)
            image = (values[..., None] if grey else values[..., :3]).astype(np.float32)
            rows, columns = -image.shape[0] % factor, -image.shape[1] % factor
            whole = np.pad(image, ((0, rows), (0, columns), (0, 0)), mode="edge")
            height, width = whole.shape[0] // factor, whole.shape[1] // factor
            blocks = whole.reshape(height, factor, width, factor, -1)
            small: npt.NDArray[Any] = blocks.mean(axis=(1, 3))
            return small[..., 0] if grey else small

        options = replace(
            cast("DeblurOptions", job.options),
            device=str(job.device),
            tile=job.plan.tile if self.note else job.options.tile,
            rgb=not grey,
        )
        image = None if job.array is None else shrink(job.array)
        views = None if job.views is None else (shrink(job.views[0]), shrink(job.views[1]))
        return Session(image, job.net, views=views, options=options, pixel_range=job.range)

    @property
    def _whole(self) -> Rect:
        return Rect(0, self.size[0], 0, self.size[1])

    def _check_region(self, region: Region | None) -> Rect:
        if region is None:
            return self._whole
        height, width = self.size
        rect = Rect(*(int(edge) for edge in region))
        if not (0 <= rect.top < rect.bottom <= height and 0 <= rect.left < rect.right <= width):
            raise ConfigError(
                f"region={tuple(region)}: must be (top, bottom, left, right) within an image "
                f"of {height} x {width} pixels"
            )
        return rect

    def _result(self, modulation: Modulation, rect: Rect, part: _Part) -> Steps[Result]:
        size = (rect.height, rect.width, *self._job.layout.plane_shape[2:])
        image = np.empty(size, self.dtype)
        count = max(1, PIXELS_AT_ONCE // rect.width)
        for top in range(rect.top, rect.bottom, count):
            if top > rect.top:
                yield Progress(top - rect.top, rect.height, "pixels")
            rows = rect._replace(top=top, bottom=min(top + count, rect.bottom))
            place = rows.inside(rect)
            image[place.slices] = restore_pixels(
                self._reader, self._job.first, self._plane, rows, cut(part.residual, place),
                self.dtype, modulation.strength_in(rows),
            )  # fmt: skip
        return Result(
            image=image,
            alpha=as_numpy(part.alpha),
            beta=as_numpy(part.beta),
            recipe=self._job.recipe(modulation),
            size=(rect.height, rect.width),
            scale=part.scale,
            origin=(part.corner[0] - rect.top, part.corner[1] - rect.left),
            region=None if rect == self._whole else rect,
        )


def _spans(length: int) -> list[tuple[int, int]]:
    """Return the parts of one side that are looked at: all of it, or an even sample."""
    side = min(SAMPLE_SIDE, length)
    count = min(SAMPLES, -(-length // SAMPLE_SIDE))
    if length <= SAMPLES * SAMPLE_SIDE:
        edges = np.linspace(0, length, count + 1).astype(int).tolist()
        return list(pairwise(edges))
    starts = np.linspace(0, length - side, count).astype(int).tolist()
    return [(start, start + side) for start in starts]
