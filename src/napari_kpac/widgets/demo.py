"""The demo in a window: image, deblurred image, attention maps.

Not for: the plugin's widgets.
"""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
import numpy.typing as npt


def fill(
    viewer: napari.viewer.ViewerModel,
    image: npt.NDArray[Any],
    deblurred: npt.NDArray[Any],
    alpha: npt.NDArray[np.float32],
    blur: npt.NDArray[np.float32],
) -> None:
    """Add the demo's layers: input, result, then the maps, hidden except the result."""
    viewer.add_image(image, name="input", rgb=True)
    for block, maps in enumerate(alpha, start=1):
        viewer.add_image(
            maps,
            name=f"alpha of block {block}",
            colormap="viridis",
            contrast_limits=(0, 1),
            visible=False,
            axis_labels=("dilation", "y", "x"),
        )
    viewer.add_image(blur, name="blur map", colormap="magma", contrast_limits=(0, 1), visible=False)
    viewer.add_image(deblurred, name="deblurred", rgb=True)


def show(
    image: npt.NDArray[Any],
    deblurred: npt.NDArray[Any],
    alpha: npt.NDArray[np.float32],
    blur: npt.NDArray[np.float32],
) -> None:
    """Open napari with the demo's layers and stay until its window is closed."""
    viewer = napari.Viewer(title="napari-kpac demo")
    fill(viewer, image, deblurred, alpha, blur)
    napari.run()
