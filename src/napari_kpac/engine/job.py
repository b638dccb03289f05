"""An image, a network and options made ready: what every action on images begins with.

Not for: running the network over it (work.py, blur.py, session.py).
"""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import torch

from napari_kpac.core.errors import ImageError
from napari_kpac.core.options import DeblurOptions, ImageOptions, parse_memory
from napari_kpac.engine import device as devices
from napari_kpac.engine.allocator import is_active
from napari_kpac.engine.arrays import (
    Layout,
    Plane,
    as_array,
    layout_for,
    layout_of,
    read_plane,
)
from napari_kpac.engine.chunks import ChunkedPlane, is_read_by_chunk
from napari_kpac.engine.model import Model, card_of, prepare
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.pixels import (
    PixelRange,
    PlaneReader,
    check_views,
    enlarged,
    resolve_range,
)
from napari_kpac.engine.plan import Plan, make_plan
from napari_kpac.engine.recipe import Recipe
from napari_kpac.network import KPACNet

CHUNKED_SHARE = 0.05
"""Of the memory budget: an image that takes more is read chunk by chunk, if it can be."""


@dataclass(frozen=True, eq=False)
class Job:
    """An image, a network and options, made ready: what all actions on images begin with."""

    array: Any
    views: tuple[Any, Any] | None
    layout: Layout
    net: KPACNet
    device: torch.device
    range: PixelRange
    options: ImageOptions
    by_chunk: bool = False
    """Whether images stay where they are and are read in parts."""

    @classmethod
    def prepare(
        cls,
        image: Any,
        options: ImageOptions,
        *,
        views: tuple[Any, Any] | None = None,
        model: Model | None = None,
        pixel_range: PixelRange | None = None,
    ) -> Job:
        """Look at the image, load the network, choose device and range (unless it is known)."""
        device = devices.resolve(options.device)
        net = prepare(options.model if model is None else model, device)
        if views is not None:
            if not isinstance(views, tuple | list) or len(views) != 2:
                raise ImageError("views must be a pair: (left, right)")
            views = (as_array(views[0]), as_array(views[1]))
        if net.config.views == 2 and views is None:
            raise ImageError(
                "this model takes a dual-pixel pair: give both views (views=(left, right), in a"
                " terminal --left and --right), or choose a model for single images"
            )
        if net.config.views == 1 and views is not None:
            raise ImageError("this model takes one image and no views; choose a dual-pixel model")
        if image is None and views is None:
            raise ImageError("there is no image")
        array = None if image is None else as_array(image)
        layout = layout_for(views[0] if array is None and views is not None else array, options)
        for view in views or ():
            check_views(view, layout)
            layout_of(view, rgb=options.rgb)
        sources = views if array is None else (array,)
        if pixel_range is None:
            pixel_range = resolve_range(options.range, layout, sources or ())
        job = cls(array, views, layout, net, device, pixel_range, options)
        large = job.bytes_per_plane > CHUNKED_SHARE * job.budget
        everything = (*(sources or ()), *(views or ()))
        by_chunk = large and all(is_read_by_chunk(source, layout) for source in everything)
        return replace(job, by_chunk=by_chunk)

    @property
    def first(self) -> Any:
        """The image, or the left view where there is none."""
        return self.views[0] if self.array is None and self.views is not None else self.array

    def reader(self, plane: Plane, enlarge: int = 1) -> PlaneReader:
        """Load one image, enlarged by a whole factor; large ones are only opened."""

        def load(array: Any) -> Any:
            if self.by_chunk and enlarge == 1:
                return ChunkedPlane(array, plane, self.layout)
            return enlarged(read_plane(array, plane), enlarge)

        return PlaneReader(
            None if self.array is None else load(self.array),
            None if self.views is None else (load(self.views[0]), load(self.views[1])),
            self.range,
            self.net.config.multiple,
            next(self.net.parameters()).dtype,
        )

    def plan(self, size: tuple[int, int] | None = None, *, images: int = 2) -> Plan:
        """Plan for images of the image's size, or another.

        ``images`` are held in memory at a time: the one that is worked on, its result, and
        what a batch reads ahead or has still to write.
        """
        height, width = size or self.layout.size
        multiple = self.net.config.multiple
        return make_plan(
            (height + -height % multiple, width + -width % multiple),
            self.net.config,
            halo=self.net.halos.encode,
            tile=self.options.tile,
            budget=self.budget,
            item_size=next(self.net.parameters()).element_size(),
            held=images * self.bytes_per_plane if self.device.type == "cpu" else 0,
        )

    @property
    def budget(self) -> int:
        """Bytes that may be used."""
        return parse_memory(self.options.memory, devices.free_memory(self.device))

    @property
    def bytes_per_plane(self) -> int:
        """Bytes that the pixels of one image take."""
        height, width = self.layout.size
        channels = 1 if self.layout.colour == "grey" else len(self.layout.colour)
        return height * width * channels * self.layout.dtype.itemsize

    def recipe(self, modulation: Modulation, plan: Plan) -> Recipe:
        """Write down how a result was made, so that it can be made again anywhere."""
        card = card_of(self.net)
        names = [item.name for item in fields(DeblurOptions) if hasattr(self.options, item.name)]
        options = DeblurOptions(**{name: getattr(self.options, name) for name in names})
        environment = {
            "device": str(self.device),
            "threads": torch.get_num_threads(),
            "plan": plan.to_dict(),
            "range": asdict(self.range),
            "allocator": is_active(),
            "napari_kpac": _version(),
            "torch": torch.__version__,
            "machine": platform.machine(),
        }
        return Recipe(options, modulation, card.name, card.sha256, environment)


@lru_cache(maxsize=1)
def _version() -> str:
    return version("napari-kpac")


def model_name(model: Model) -> str:
    """Return what stands for a model in options: its name or path."""
    return card_of(model).name if isinstance(model, KPACNet) else str(model)
