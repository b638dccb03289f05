"""The network as one would first write it: plain eager calls, channels first, one piece.

The yardstick of ``napari-kpac bench``: it shares the weights with our network and nothing
else. Not for: use.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from napari_kpac.network import KPACConfig, KPACNet


class NaiveForward:
    """A plain forward pass with the weights of a network."""

    def __init__(self, net: KPACNet) -> None:
        self.config: KPACConfig = net.config
        self.w = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}

    @torch.no_grad()
    def __call__(self, image: Tensor) -> Tensor:
        """Deblur (1, 3, H, W) in [-1, 1]."""
        x, skips = image, []
        for level in range(self.config.levels + 1):
            if level:
                x = self._conv(F.pad(x, (0, 1, 0, 1)), f"encoder.levels.{level}.enter", stride=2)
            else:
                x = self._conv(x, "encoder.levels.0.enter", padding=2)
            x = self._conv(F.leaky_relu(x, 0.2), f"encoder.levels.{level}.refine", padding=1)
            x = F.leaky_relu(x, 0.2)
            skips.append(x)
        features = [skips.pop()]
        for block in range(self.config.blocks):
            features.append(self._block(f"blocks.{block}", features[-1]))
        x = F.leaky_relu(self._conv(torch.cat(features, 1), "decoder.gather", padding=1), 0.2)
        x = F.leaky_relu(self._conv(x, "decoder.refine", padding=1), 0.2)
        for level in range(self.config.levels):
            name, last = f"decoder.levels.{level}", level == self.config.levels - 1
            weight, bias = self.w[f"{name}.up.weight"], self.w[f"{name}.up.bias"]
            x = F.leaky_relu(F.conv_transpose2d(x, weight, bias, stride=2, padding=1), 0.2)
            merged = torch.cat((x, skips.pop()), 1)
            x = self._conv(merged, f"{name}.merge", padding=2 if last else 1)
            x = x if last else F.leaky_relu(x, 0.2)
        return image + x

    def _conv(self, x: Tensor, name: str, padding: int = 0, stride: int = 1) -> Tensor:
        weight, bias = self.w[f"{name}.weight"], self.w[f"{name}.bias"]
        return F.conv2d(x, weight, bias, padding=padding, stride=stride)

    def _block(self, name: str, x: Tensor) -> Tensor:
        a = x
        for layer in range(4):
            prefix = f"{name}.scale.hidden.{layer}"
            weight, bias = self.w[f"{prefix}.weight"], self.w[f"{prefix}.bias"]
            a = F.leaky_relu(F.conv2d(a, weight, bias, padding=4, dilation=2), 0.2)
        alpha = torch.sigmoid(self._conv(a, f"{name}.scale.head", padding=2))
        hidden = F.linear(
            x.mean((2, 3)),
            self.w[f"{name}.shape.squeeze.weight"],
            self.w[f"{name}.shape.squeeze.bias"],
        )
        beta = torch.sigmoid(
            F.linear(
                F.leaky_relu(hidden, 0.2),
                self.w[f"{name}.shape.expand.weight"],
                self.w[f"{name}.shape.expand.bias"],
            )
        )[:, :, None, None]
        kernel = self.w[f"{name}.atrous.0.weight"]
        weighted = []
        for i, d in enumerate(self.config.dilations):
            branch = F.leaky_relu(F.conv2d(x, kernel, padding=2 * d, dilation=d), 0.2)
            weighted.append(branch * alpha[:, i : i + 1] * beta)
        return F.leaky_relu(self._conv(torch.cat(weighted, 1), f"{name}.fusion", padding=1), 0.2)
