"""One image, rendered again and again; a change restarts only what depends on it.

    image -> encode -> block 1 -> block 2 -> decode -> residual -> times strength -> pixels

Not for: stacks and files (deblurring.py), windows (widgets).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.core.errors import CancelledError, ConfigError, ImageError
from napari_kpac.core.options import DeblurOptions
from napari_kpac.core.progress import Progress, Steps, finish
from napari_kpac.engine.allocator import give_back, keeping_memory
from napari_kpac.engine.bottleneck import BlockCache, CachedBottleneck, cropped, cut
from napari_kpac.engine.job import Job, model_name
from napari_kpac.engine.memory import explaining_shortage, shortage, within_memory
from napari_kpac.engine.model import Model
from napari_kpac.engine.modulation import BlockModulation, Modulation, block_modulations
from napari_kpac.engine.pixels import Rect, restore_into
from napari_kpac.engine.plan import Plan
from napari_kpac.engine.recipe import Result
from napari_kpac.engine.stages import Stages, stores
from napari_kpac.network import KPACConfig

T = TypeVar("T")
Region = tuple[int, int, int, int]
"""(top, bottom, left, right) in pixels, ends excluded."""


@dataclass(frozen=True)
class _Rendered:
    """The last render of the whole image, at strength 1."""

    mods: Sequence[BlockModulation]
    residual: Tensor
    caches: Sequence[BlockCache]
    """Only with the attention in them."""

    def is_of(self, mods: Sequence[BlockModulation]) -> bool:
        """Tell whether it was made with these modulations."""
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
    model, device, tile, memory, views, **options
        As in :func:`napari_kpac.deblur`.

    Notes
    -----
    Thread-safe: one render runs at a time, and a newer request makes an older one stop
    between stages with a ``CancelledError``. Where memory runs short, it goes on in smaller
    tiles and says so in ``note``.
    """

    def __init__(
        self,
        image: Any,
        model: Model = "default",
        device: str = "auto",
        *,
        views: tuple[Any, Any] | None = None,
        tile: Any = "auto",
        memory: Any = None,
        **options: Any,
    ) -> None:
        chosen = DeblurOptions(
            model=model_name(model), device=device, tile=tile, memory=memory, **options
        )
        if chosen.method != "kpac":
            raise ConfigError(f"a Session runs the network; method {chosen.method!r} has none")
        with explaining_shortage():
            self._job = Job.prepare(image, chosen, views=views, model=model)
        if self._job.layout.leading:
            raise ImageError(
                f"a Session takes one image, this image has shape {self._job.layout.shape}; "
                "choose a slice, or use deblur() for all of them"
            )
        self._lock = threading.RLock()
        self._latest = 0
        self._ticket = threading.Lock()
        self._resources = ExitStack()
        self._closed = False
        self._kept: CachedBottleneck | None = None
        self._rendering = 0
        self._last: _Rendered | None = None
        self._half: Session | None = None
        self.note = ""
        """Something worth telling, for example that memory ran short; empty where all is well."""
        (self._plane,) = self._job.layout.planes()
        with explaining_shortage():
            self._reader = self._job.reader(self._plane)
        self._plan = self._job.plan()
        self._run = self._make_run()

    def _make_run(self) -> Stages:
        home = torch.device("cpu") if self._plan.scratch else self._job.device
        make = self._resources.enter_context(stores(self._plan, home, self._reader.dtype))
        return Stages(
            self._job.net, self._reader, self._plan, self._job.device, make,
            mixed=self._job.options.precision == "mixed",
        )  # fmt: skip

    def _forget(self) -> None:
        """Let go of all that is kept."""
        self._kept = None
        self._last = None
        self._run.halves = {}
        if self._half is not None:
            self._half.close()
            self._half = None
        self._resources.close()

    def _adopt(self, plan: Plan) -> None:
        """Begin anew with a plan."""
        self._forget()
        self._plan = plan
        self._run = self._make_run()

    def _within_memory(self, work: Callable[[], Steps[T]]) -> Steps[T]:
        """Do work; where memory runs short, begin anew with a plan that needs less."""

        def attempt(plan: Plan) -> Steps[T]:
            if plan is not self._plan:
                self._adopt(plan)
                self.note = shortage(plan)
            return work()

        result, _ = yield from within_memory(
            self.config, self._job.device, self._plan, attempt, lambda: self._adopt(self._plan)
        )
        return result

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the image."""
        return self._job.layout.size

    @property
    def _whole(self) -> Rect:
        return Rect(0, self.size[0], 0, self.size[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the image's values."""
        return self._job.layout.dtype

    @property
    def config(self) -> KPACConfig:
        """Configuration of the network."""
        return self._job.net.config

    def close(self) -> None:
        """Give up all that is kept; the session cannot be used afterwards."""
        self.cancel()
        with self._lock:
            self._closed = True
            self._forget()
        give_back()

    def cancel(self) -> None:
        """Make a render that is under way stop at the next stage."""
        with self._ticket:
            self._latest += 1
        half = self._half  # another thread may let go of it
        if half is not None:
            half.cancel()

    def encode(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Run the first stage now instead of with the first render."""
        for done, tiles in self.encode_steps():
            if progress is not None:
                progress(done, tiles)

    def encode_steps(self) -> Iterator[tuple[int, int]]:
        """Do the same tile by tile: yields (tiles done, tiles in all); may be left at any."""
        with self._lock, keeping_memory(trim=False):
            ticket = self._take_ticket()
            for step in self._within_memory(lambda: self._encode(ticket)):
                if not step.note:
                    yield step.done, step.total

    def render(
        self,
        modulation: Modulation | None = None,
        region: Region | None = None,
        *,
        draft: bool = False,
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
            A quick look: the network runs at half resolution. Labelled as a draft.
        progress
            Called with (tiles done, tiles in all).
        """
        modulation = modulation or Modulation()
        modulation.check(self._job.net.config, self.size)
        rect = self._check_region(region)
        ticket = self._take_ticket()

        def work() -> Steps[Result]:
            self._check(ticket)
            if draft:
                part = yield from self._draft(modulation, rect)
            else:
                part = yield from self._part(modulation, rect, ticket, progress)
            return replace(self._result(modulation, rect, part), draft=draft)

        with self._lock, keeping_memory(trim=False):
            return finish(self._within_memory(work))

    def _part(
        self,
        modulation: Modulation,
        rect: Rect,
        ticket: int,
        progress: Callable[[int, int], None] | None = None,
    ) -> Steps[_Part]:
        yield from self._encode(ticket)
        return self._render(modulation, rect, ticket, progress)

    def _take_ticket(self) -> int:
        with self._ticket:
            self._latest += 1
            return self._latest

    def _check(self, ticket: int) -> None:
        if ticket != self._latest:
            raise CancelledError("a newer request made this render pointless")

    def _encode(self, ticket: int) -> Steps[None]:
        if self._closed:
            raise CancelledError("the session is closed")
        if self._kept is not None:
            return
        for count, _ in enumerate(self._run.encode(self._plan.kept_skips), start=1):
            yield Progress(count, self._plan.tile_count, "encode")
            self._check(ticket)
        self._kept = CachedBottleneck(self._run, self._check_render)

    def _check_render(self) -> None:
        self._check(self._rendering)

    @property
    def _bottleneck(self) -> CachedBottleneck:
        if self._kept is None:
            raise CancelledError("the session is closed")
        return self._kept

    def _render(
        self,
        modulation: Modulation,
        rect: Rect,
        ticket: int,
        progress: Callable[[int, int], None] | None,
    ) -> _Part:
        mods = block_modulations(modulation, self.config, self._reader.padded)
        outer = self._aligned(rect)
        if self._last is not None and self._last.is_of(mods):
            residual, caches = cut(self._last.residual, rect), self._last.caches
        else:
            local = None if rect == self._whole else self._cells_needed(outer)
            self._rendering = ticket
            entered, place = self._bottleneck.render(mods, local)
            residual = self._decode(entered, place, outer, ticket, progress)
            residual = cut(residual, rect.inside(outer))
            caches = self._bottleneck.present()
            if rect == self._whole:
                light = [BlockCache(cache.alpha, cache.beta) for cache in caches]
                self._last = _Rendered(mods, residual, light)
        cells = outer.divided(self._run.cell).grown(1, *self._run.cells)
        used = [
            cropped(mod, cells).apply(
                cut(cache.alpha, cells if cache.place is None else cells.inside(cache.place))
            )
            for mod, cache in zip(mods, caches, strict=True)
        ]
        corner = (cells.top * self._run.cell, cells.left * self._run.cell)
        beta = torch.cat([cache.beta for cache in caches])
        return _Part(residual, torch.cat(used), beta, corner, self._run.cell)

    @torch.no_grad()
    def _decode(
        self,
        entered: Tensor,
        place: Rect,
        outer: Rect,
        ticket: int,
        progress: Callable[[int, int], None] | None,
    ) -> Tensor:
        """Decode a rectangle whose edges are multiples of a cell, tile by tile."""
        tiles = list(self._tiles(outer))
        residual = torch.empty((1, 3, outer.height, outer.width), dtype=self._reader.dtype)
        for count, tile in enumerate(tiles, start=1):
            self._check(ticket)
            part = self._run.decode(entered, tile, place)
            if len(tiles) == 1:
                residual = part
            else:
                rows, columns = tile.inside(outer).slices
                residual[:, :, rows, columns] = part
            if progress is not None:
                progress(count, len(tiles))
        return residual

    def _tiles(self, outer: Rect) -> list[Rect]:
        side = self._plan.tile
        return [
            Rect(top, min(top + side, outer.bottom), left, min(left + side, outer.right))
            for top in range(outer.top, outer.bottom, side)
            for left in range(outer.left, outer.right, side)
        ]

    def _aligned(self, rect: Rect) -> Rect:
        """Grow a rectangle to whole cells."""
        cell = self._run.cell
        return Rect(
            rect.top - rect.top % cell,
            rect.bottom + -rect.bottom % cell,
            rect.left - rect.left % cell,
            rect.right + -rect.right % cell,
        )

    def _cells_needed(self, outer: Rect) -> Rect:
        """Return the cells of the decoder's entry that a rectangle depends on."""
        return self._run.around(outer).divided(self._run.cell)

    def _check_region(self, region: Region | None) -> Rect:
        height, width = self.size
        if region is None:
            return Rect(0, height, 0, width)
        rect = Rect(*(int(edge) for edge in region))
        if not (0 <= rect.top < rect.bottom <= height and 0 <= rect.left < rect.right <= width):
            raise ConfigError(
                f"region={tuple(region)}: must be (top, bottom, left, right) within an image "
                f"of {height} x {width} pixels"
            )
        return rect

    def _draft(self, modulation: Modulation, rect: Rect) -> Steps[_Part]:
        """Render at half resolution and enlarge the residual."""
        if self._half is None:
            self._half = self._make_half()
        half = self._half
        coarse = replace(
            modulation,
            labels=None if modulation.labels is None else np.asarray(modulation.labels)[::2, ::2],
            override={
                key: np.asarray(value)[::2, ::2] if np.ndim(value) else value
                for key, value in modulation.override.items()
            },
        )
        # One pixel more on every side, for the enlargement looks at neighbours.
        needed = Rect(
            rect.top // 2, -(-rect.bottom // 2), rect.left // 2, -(-rect.right // 2)
        ).grown(1, *half.size)
        part = yield from half._part(coarse, needed, half._take_ticket())
        enlarged = F.interpolate(
            part.residual, scale_factor=2.0, mode="bilinear", align_corners=False
        )
        frame = Rect(2 * needed.top, 2 * needed.bottom, 2 * needed.left, 2 * needed.right)
        return replace(
            part,
            residual=cut(enlarged, rect.inside(frame)),
            corner=(2 * part.corner[0], 2 * part.corner[1]),
            scale=2 * part.scale,
        )

    def _make_half(self) -> Session:
        """Open a session on the image at half resolution, seen in the same range."""

        def shrink(array: Any) -> npt.NDArray[Any]:
            values = np.asarray(array)
            grey = self._plane.kind == "grey"
            image = (values[..., None] if grey else values[..., :3]).astype(np.float32)
            rows, columns = -image.shape[0] % 2, -image.shape[1] % 2
            even = np.pad(image, ((0, rows), (0, columns), (0, 0)), mode="edge")
            blocks = even.reshape(even.shape[0] // 2, 2, even.shape[1] // 2, 2, -1)
            small: npt.NDArray[Any] = blocks.mean(axis=(1, 3))
            return small[..., 0] if grey else small

        options = self._job.options
        views = self._job.views
        return Session(
            None if self._job.array is None else shrink(self._job.array),
            self._job.net,
            str(self._job.device),
            views=None if views is None else (shrink(views[0]), shrink(views[1])),
            tile=self._plan.tile if self.note else options.tile,
            memory=options.memory,
            range=(self._job.range.low, self._job.range.high),
            rgb=self._plane.kind != "grey",
            precision=options.precision,
        )

    def _result(self, modulation: Modulation, rect: Rect, part: _Part) -> Result:
        image = np.empty((rect.height, rect.width, *self._job.layout.shape[2:]), self.dtype)
        scaled = part.residual * modulation.strength
        restore_into(image, self._job.first, self._plane, rect, self._reader, scaled, rect)
        return Result(
            image=image,
            alpha=part.alpha.float().cpu().numpy(),
            beta=part.beta.float().cpu().numpy(),
            recipe=self._job.recipe(modulation, self._plan),
            size=(rect.height, rect.width),
            scale=part.scale,
            origin=(part.corner[0] - rect.top, part.corner[1] - rect.left),
            region=None if rect == self._whole else rect,
        )
