"""Sample data for napari's File > Open Sample menu, and the demo; all of it works offline.

Not for: making defocus (optics), the demo's results (cli).
"""

from __future__ import annotations

from typing import Any

import napari
import numpy as np
import numpy.typing as npt

from napari_kpac.widgets.layers import METADATA

LayerTuple = tuple[Any, dict[str, Any], str]

SEED = 4
SIDE_PX = 384


def coffee() -> list[LayerTuple]:
    """Return scikit-image's photograph of a cup of coffee: sharp in front, blurred behind."""
    from skimage import data

    return [(data.coffee(), {"name": "coffee", "rgb": True}, "image")]


def scene() -> list[LayerTuple]:
    """Return a photograph with synthetic defocus, its radius map and the sharp original."""
    from napari_kpac.optics import defocus, radius_map

    sharp = _photograph()
    made = defocus(sharp, radius_map(sharp.shape[:2], SEED, largest=7, kind="objects"), seed=SEED)
    radius = np.abs(made.radius).astype(np.float32)
    shown = {"colormap": "magma", "contrast_limits": (0, float(radius.max()))}
    # What is to be deblurred comes last: napari leaves that layer selected.
    return [
        (radius, _helper("radius in pixels") | shown, "image"),
        (sharp, _helper("truth") | {"rgb": True}, "image"),
        (made.image, {"name": "defocused scene", "rgb": True}, "image"),
    ]


def dual_pixel() -> list[LayerTuple]:
    """Return the left and right view of a dual-pixel camera and the image between them."""
    from napari_kpac.optics import defocus, radius_map

    sharp = _photograph()
    radius = radius_map(sharp.shape[:2], SEED, largest=6, kind="tilted")
    made = defocus(sharp, radius, seed=SEED, dual=True)
    return [
        (made.left, _helper("left view") | {"rgb": True}, "image"),
        (made.right, _helper("right view") | {"rgb": True}, "image"),
        (made.image, {"name": "centre image", "rgb": True}, "image"),
    ]


def focus_sweep() -> list[LayerTuple]:
    """Return a stack in which the focus moves through a photograph (grey, 16 bits)."""
    from skimage import data

    from napari_kpac.optics import defocus

    grey = data.camera()[64 : 64 + SIDE_PX, 100 : 100 + SIDE_PX].astype(np.uint16) * 257
    frames = [defocus(grey, abs(radius), seed=SEED).image for radius in np.linspace(-6, 6, 7)]
    layer = {
        "name": "focus sweep",
        "scale": (0.5, 0.1, 0.1),
        "units": ("s", "um", "um"),
        "axis_labels": ("t", "y", "x"),
    }
    return [(np.stack(frames), layer, "image")]


def _helper(name: str) -> dict[str, Any]:
    """Return the look of a hidden layer that goes with an image."""
    return {"name": name, "visible": False, "metadata": {METADATA: name}}


def _photograph() -> Any:
    from skimage import data

    return data.astronaut()[:SIDE_PX, 60 : 60 + SIDE_PX]


def fill_demo(
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
            metadata={METADATA: "alpha"},
        )
    viewer.add_image(
        blur, name="blur map", colormap="magma", contrast_limits=(0, 1), visible=False,
        metadata={METADATA: "blur map"},
    )  # fmt: skip
    viewer.add_image(deblurred, name="deblurred", rgb=True, metadata={METADATA: "deblurred"})


def show_demo(
    image: npt.NDArray[Any],
    deblurred: npt.NDArray[Any],
    alpha: npt.NDArray[np.float32],
    blur: npt.NDArray[np.float32],
) -> None:
    """Open napari with the demo's layers and stay until its window is closed."""
    viewer = napari.Viewer(title="napari-kpac demo")
    fill_demo(viewer, image, deblurred, alpha, blur)
    napari.run()
