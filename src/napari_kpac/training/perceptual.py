"""The perceptual loss: distance between features of VGG-19, after the ReLU of conv4_4.

The weights are not ours to ship: they come from a file that the user names, or from torch's
hub cache. Not for: LPIPS, which is a measure (evaluation).
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import conv2d, max_pool2d, mse_loss, relu

from napari_kpac.core.errors import WeightsError

FILE = "vgg19-dcbb9e9d.pth"
"""Name of torchvision's file; its end is the beginning of its SHA-256."""
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""What torchvision's weights expect of RGB values in 0..1."""
WIDTHS = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool", 512, 512, 512, 512)
"""Channels of the convolutions up to conv4_4."""


class PerceptualLoss(nn.Module):
    """Mean squared distance between the features of two images."""

    mean: Tensor
    std: Tensor

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        self._layers = []
        for name, _, _ in layout():
            for kind in ("weight", "bias"):
                self.register_buffer(_key(name, kind), weights[f"{name}.{kind}"].float())
            self._layers.append(name)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))

    def features(self, image: Tensor) -> Tensor:
        """Give the features of images (B, 3, H, W) in [-1, 1]."""
        x = (((image + 1) / 2).clamp(0, 1) - self.mean) / self.std
        names = iter(self._layers)
        for width in WIDTHS:
            if width == "pool":
                x = max_pool2d(x, 2)
            else:
                name = next(names)
                weight, bias = (self.get_buffer(_key(name, kind)) for kind in ("weight", "bias"))
                x = relu(conv2d(x, weight, bias, padding=1))
        return x

    def forward(self, output: Tensor, sharp: Tensor) -> Tensor:
        """Give the distance between the network's images and the sharp ones."""
        with torch.no_grad():
            wanted = self.features(sharp)
        return mse_loss(self.features(output), wanted)


def layout() -> list[tuple[str, int, int]]:
    """List the convolutions: name in torchvision's file, inputs, outputs."""
    found, inputs, index = [], 3, 0
    for width in WIDTHS:
        if isinstance(width, int):
            found.append((f"features.{index}", inputs, width))
            inputs, index = width, index + 2
        else:
            index += 1
    return found


def read_vgg(given: str = "") -> dict[str, Tensor]:
    """Read the weights, after checking that the file is what it should be.

    Parameters
    ----------
    given
        A ``.safetensors`` file in torchvision's layout, or torchvision's own ``.pth`` file;
        by default the latter, in torch's hub cache. A ``.pth`` file is opened only if it has
        torchvision's SHA-256.
    """
    path = Path(given) if given else Path(torch.hub.get_dir()) / "checkpoints" / FILE
    if not path.is_file():
        raise WeightsError(
            f"the perceptual loss needs VGG-19 weights, and there is no file {path}; put"
            f" torchvision's {FILE} there or name a file with the option vgg, or train without"
            " a second phase (fine_steps=0)"
        )
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            _check_hash(path)
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise WeightsError(f"{path}: cannot be read as VGG-19 weights ({error})") from error
    for name, inputs, outputs in layout():
        for kind, shape in (("weight", (outputs, inputs, 3, 3)), ("bias", (outputs,))):
            tensor = weights.get(f"{name}.{kind}")
            if tensor is None or tuple(tensor.shape) != shape:
                raise WeightsError(f"{path}: no VGG-19 weights ({name}.{kind} is missing or odd)")
    return weights


def _check_hash(path: Path) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(FILE.split("-")[1].removesuffix(".pth")):
        raise WeightsError(
            f"{path}: its SHA-256 is not that of torchvision's VGG-19; get it again, or give the"
            " weights as .safetensors"
        )


def _key(name: str, kind: str) -> str:
    return f"{name}.{kind}".replace(".", "_")
