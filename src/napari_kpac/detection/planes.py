"""The pictures of an array one by one, in values of 0..1 as the engine sees them.

Not for: the network's own input (engine).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_kpac.core.options import ImageOptions
from napari_kpac.engine.arrays import Layout, as_array, layout_for, read_plane
from napari_kpac.engine.pixels import PixelRange, PlaneReader, Rect, resolve_range

Picture = npt.NDArray[np.float32]
"""(H, W, channels), 1 or 3 channels; black is 0 and white 1."""


@dataclass(frozen=True, eq=False)
class Planes:
    """An array whose axes and range were understood."""

    array: Any
    layout: Layout
    range: PixelRange

    @classmethod
    def of(cls, image: Any, options: ImageOptions) -> Planes:
        """Look at an image; nothing but a sample for the range is loaded."""
        array = as_array(image)
        layout = layout_for(array, options)
        return cls(array, layout, resolve_range(options.range, layout, (array,)))

    @property
    def leading(self) -> tuple[int, ...]:
        """Leading axes of maps of these pictures, one map each."""
        if self.layout.rgb_channels is None:
            return self.layout.leading
        return (len(self),)

    def __len__(self) -> int:
        return sum(1 for _ in self.layout.planes())

    def __iter__(self) -> Iterator[Picture]:
        whole = Rect(0, self.layout.size[0], 0, self.layout.size[1])
        for plane in self.layout.planes():
            reader = PlaneReader(read_plane(self.array, plane), None, self.range, multiple=1)
            values = reader.read(whole)[0, : reader.channels]
            yield ((values + 1) / 2).permute(1, 2, 0).numpy()
