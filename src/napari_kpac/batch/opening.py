"""Opens the files of an item and looks at them, for actions that go plane by plane.

Not for: what is done to the planes.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from napari_kpac.batch.actions import Frame
from napari_kpac.batch.inputs import Item
from napari_kpac.core.errors import ImageError
from napari_kpac.engine import DeblurOptions, Modulation
from napari_kpac.engine.deblurring import prepare_job
from napari_kpac.images import PLAIN, RAW, Metadata, open_image

STREAMED_FROM = 64_000_000
"""Bytes: the pixels of larger stacks are not collected in memory."""


class OpenedFiles:
    """A file or dual-pixel pair whose planes can be worked off."""

    def __init__(
        self,
        item: Item,
        options: DeblurOptions,
        modulation: Modulation,
        *,
        known: Any = None,
        recorded: Mapping[str, Any] | None = None,
        held: int = 2,
    ) -> None:
        self._open = ExitStack()
        try:
            image, views, metadata = open_arrays(item, self._open)
            self.job = prepare_job(
                image,
                options,
                modulation,
                views=views,
                pixel_range=known,
                recorded=recorded,
                held=held,
            )
        except ImageError as error:
            self.close()
            raise ImageError(f"{item.first}: {error}") from error
        except BaseException:
            self.close()
            raise
        layout = self.job.layout
        self.planes = list(layout.planes())
        self.units = len(self.planes)
        self.known = self.job.range
        size = int(np.prod(layout.shape, dtype=np.int64)) * layout.dtype.itemsize
        self.weight = 0 if self.job.by_chunk else layout.plane_bytes
        streamed = self.job.by_chunk or (self.units > 1 and size > STREAMED_FROM)
        self.frame = Frame(layout.shape, layout.dtype, metadata, streamed)

    def close(self) -> None:
        """Close the files."""
        self._open.close()


def open_arrays(
    item: Item, stack: ExitStack, *, whole: bool = False
) -> tuple[Any, tuple[Any, Any] | None, Metadata]:
    """Open what an item names: the image or None, the views or None, and what the first says."""
    opened = [stack.enter_context(open_image(path, whole=whole)) for path in item.files]
    image = None if item.source is None else opened.pop(0)
    views = (opened[0].array, opened[1].array) if item.views is not None else None
    first = opened[0] if image is None else image
    return None if image is None else image.array, views, first.metadata


def is_single(item: Item) -> bool:
    """Tell by its name whether a file holds one image."""
    return item.first.suffix.lower() in PLAIN + RAW
