"""Deblur one picture: the shortest road from pixels to pixels.

Not for: windows and files.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from skimage.transform import resize

from napari_kpac.errors import ImageError
from napari_kpac.network import KPACNet
from napari_kpac.weights import load


@dataclass(frozen=True)
class Result:
    """A deblurred picture and what the network saw on the way."""

    image: npt.NDArray[Any]
    alpha: npt.NDArray[np.float32]
    """(blocks, dilations, h, w) at bottleneck resolution."""
    beta: npt.NDArray[np.float32]
    """(blocks, channels)."""

    def alpha_at_image(self) -> npt.NDArray[np.float32]:
        """Alpha at (blocks, dilations, H, W)."""
        height, width = self.image.shape[:2]
        shape = (*self.alpha.shape[:2], height, width)
        enlarged: npt.NDArray[np.float32] = resize(self.alpha, shape, order=1)
        return enlarged


def deblur(image: npt.NDArray[Any], model: str | os.PathLike[str] | KPACNet = "default") -> Result:
    """Deblur an 8-bit RGB picture."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ImageError(f"an 8-bit RGB picture is needed, got {image.dtype} {image.shape}")
    net = model if isinstance(model, KPACNet) else load(model)
    height, width = image.shape[:2]
    step = net.config.multiple
    padded = np.pad(image, ((0, -height % step), (0, -width % step), (0, 0)), "reflect")
    x = torch.from_numpy(padded.astype(np.float32) / 127.5 - 1).permute(2, 0, 1)[None]
    states = []
    with torch.inference_mode():
        encoded = net.encode(x)
        features = [encoded.features]
        for index in range(net.config.blocks):
            states.append(net.step(index, features[-1]))
            features.append(states[-1].fused)
        y = x + net.decode(features, encoded.skips)
    pixels = (y[0].permute(1, 2, 0).numpy()[:height, :width] + 1) * 127.5
    return Result(
        np.clip(np.rint(pixels), 0, 255).astype(np.uint8),
        torch.cat([state.alpha for state in states]).numpy(),
        torch.cat([state.beta for state in states]).numpy(),
    )


def blur_map(
    image: npt.NDArray[Any], model: str | os.PathLike[str] | KPACNet = "default"
) -> npt.NDArray[np.float32]:
    """Per-pixel blur in 0..1, larger = more blurred: alpha_1 of block 1."""
    alpha: npt.NDArray[np.float32] = deblur(image, model).alpha_at_image()[0, 0]
    return alpha
