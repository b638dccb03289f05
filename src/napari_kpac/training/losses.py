"""The losses of training and their targets: of images, of attention, and of features of VGG-19.

VGG-19's weights are not ours to ship: they come from a file that the user names, or from torch's
hub cache. Not for: scores (validation), or LPIPS, which is a measure (evaluation).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import adaptive_avg_pool2d, binary_cross_entropy, mse_loss, one_hot

from napari_kpac.core.errors import WeightsError
from napari_kpac.core.units import MIN_BIN_SHARE, RADIUS_BINS

FIRST_ONSET_PX = 1.0
"""Radius from which on the smallest dilation should be at work."""
LAST_ONSET_PX = 12.0
"""The same for the largest dilation; those between follow in equal steps of their ratio."""
SOFTNESS = 0.3
"""Width of the change from idle to at work, as a share of the radius where it happens."""
MAX_PSNR_DB = 60.0
"""Of pixels without any error, in the loss of the PSNR."""
VGG_FILE = "vgg19-dcbb9e9d.pth"
"""Name of torchvision's file; its end is the beginning of its SHA-256."""
VGG_MEAN, VGG_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""What torchvision's weights expect of RGB values in 0..1."""
VGG_WIDTHS = (64, 64, "pool", 128, 128, "pool", 256, 256, 256, 256, "pool", 512, 512, 512, 512)
"""Channels of the convolutions up to conv4_4."""


def mean_absolute_error(output: Tensor, sharp: Tensor) -> Tensor:
    """Return the mean absolute error, white and black being 1 apart."""
    return (output - sharp).abs().mean() / 2


def frequency_error(output: Tensor, sharp: Tensor) -> Tensor:
    """Return the mean absolute error of the Fourier transforms, in the units of the images'.

    An error that is spread over an image and one that is at a single place count alike, so fine
    detail, of which a blurred image has little, counts for more.
    """
    difference: Tensor = torch.fft.rfft2((output - sharp) / 2, norm="ortho").abs().mean()
    return difference


def mean_psnr(output: Tensor, sharp: Tensor, radius: Tensor, focus_weight: float = 1.0) -> Tensor:
    """Return the mean PSNR of images (B, C, H, W) in dB, which ends at :data:`MAX_PSNR_DB`.

    A small error where an image is nearly right counts as much as a large one where it is far
    from it, as it does where gains in dB are averaged. As in the benchmark, the pixels of each
    range of radii (B, H, W) in an image have a PSNR of their own; ranges count alike within an
    image, but for the smallest radii, which have ``focus_weight``, and so do images. An image of
    unknown radius (NaN) has one PSNR.
    """
    error, counts = means_by_range((output - sharp).square().mean(dim=1) / 4, radius)
    psnr = -10 * (error + 10 ** (-MAX_PSNR_DB / 10)).log10()
    weights = torch.cat([focus_weight * counts[:, :1], counts[:, 1:]], dim=1)
    return ((psnr * weights).sum(dim=1) / weights.sum(dim=1)).mean()


def means_by_range(values: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Return the means of values (B, H, W) over each range of radii, and which ranges count.

    Both are (B, ranges); a range counts, 1 and not 0, if enough of the image's pixels are in it.
    Pixels of unknown radius (NaN) belong to the smallest radii.
    """
    edges = torch.tensor([where.high for where in RADIUS_BINS], device=radius.device)
    found = torch.bucketize(radius.nan_to_num(0.0), edges, right=True)
    inside = one_hot(found, len(edges) + 1).to(values.dtype)
    share = inside.mean(dim=(1, 2))
    means = (values[..., None] * inside).mean(dim=(1, 2)) / share.clamp(min=MIN_BIN_SHARE)
    return means, (share >= MIN_BIN_SHARE).to(values.dtype)


def alpha_targets(radius: Tensor, dilations: int) -> Tensor:
    """Return the target of every alpha (B, dilations, h, w) for radii (B, 1, h, w) in pixels.

    Each dilation is at work where the blur is larger than a radius of its own: the first from
    about 1 px on, the last from about 12 px on. So alpha_1 tells blurred from sharp, and the
    larger dilations are left to the larger blur.
    """
    share = torch.linspace(0, 1, dilations, device=radius.device).view(1, -1, 1, 1)
    onset = FIRST_ONSET_PX * (LAST_ONSET_PX / FIRST_ONSET_PX) ** share
    return torch.sigmoid((radius - onset) / (SOFTNESS * onset))


def attention_loss(alphas: Sequence[Tensor], radius: Tensor) -> Tensor:
    """Return the cross entropy between the alphas of all blocks and their targets.

    Ranges of radii count alike within a crop, so that a small place in focus is not lost among
    what is blurred. Crops of unknown radius (NaN) count as if their alphas were right.
    """
    known = ~radius.isnan().flatten(1).any(dim=1)
    losses = []
    for alpha in alphas:
        size = (alpha.shape[-2], alpha.shape[-1])
        pooled = adaptive_avg_pool2d(radius.nan_to_num(0.0)[:, None], size)
        wanted = alpha_targets(pooled, alpha.shape[1])
        entropy = binary_cross_entropy(alpha.float(), wanted, reduction="none").mean(dim=1)
        means, counts = means_by_range(entropy, pooled[:, 0])
        losses.append(((means * counts).sum(dim=1) / counts.sum(dim=1) * known).mean())
    return torch.stack(losses).mean()


def strength(gains: Tensor, mask: Tensor, radius: Tensor) -> Tensor:
    """Return how much of the correction gains leave at each pixel, (B, 1, H, W) in 0..1.

    Every dilation carries a share of the correction: its alpha target at the true radius over
    the sum of all. Where the radius is NaN the gains are all alike, and the strength is theirs.
    Gains are (B, blocks, dilations), masks and radii in pixels (B, H, W).
    """
    alike = gains.mean(dim=1)[:, :, None, None]
    wanted = alpha_targets(radius.nan_to_num(1.0)[:, None], gains.shape[2])
    shares = wanted / wanted.sum(dim=1, keepdim=True)
    left = (shares * alike).sum(dim=1, keepdim=True)
    left = torch.where(radius.isnan()[:, None], alike.mean(dim=1, keepdim=True), left)
    return left * mask[:, None]


def steered_target(blurred: Tensor, sharp: Tensor, left: Tensor) -> Tensor:
    """Return the target of images (B, 3, H, W) for a strength (B, 1, H, W)."""
    return blurred + left * (sharp - blurred)


class PerceptualLoss(nn.Module):
    """Mean squared distance between features of VGG-19, after the ReLU of conv4_4.

    Parameters
    ----------
    file
        VGG-19's weights: a ``.safetensors`` file in torchvision's layout, or torchvision's own
        ``.pth`` file; by default the latter, in torch's hub cache. A ``.pth`` file is opened only
        if it has torchvision's SHA-256.

    Raises
    ------
    WeightsError
        If there is no such file, or it holds something else.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, file: str = "") -> None:
        super().__init__()
        with torch.device("meta"):  # without memory, until the weights are there
            self.features = vgg_features()
        weights = read_vgg(file, self.features.state_dict())
        self.features.load_state_dict(weights, assign=True)
        self.features.float().requires_grad_(False)
        self.register_buffer("mean", torch.tensor(VGG_MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(VGG_STD).view(1, 3, 1, 1))

    def forward(self, output: Tensor, sharp: Tensor) -> Tensor:
        """Return the distance between the network's images and the sharp ones, in [-1, 1]."""
        with torch.no_grad():
            wanted = self.features(self._normalised(sharp))
        return mse_loss(self.features(self._normalised(output)), wanted)

    def _normalised(self, image: Tensor) -> Tensor:
        return (((image + 1) / 2).clamp(0, 1) - self.mean) / self.std


def vgg_features() -> nn.Sequential:
    """Return the layers of VGG-19 up to conv4_4 and its ReLU, numbered as torchvision does."""
    layers: list[nn.Module] = []
    inputs = 3
    for width in VGG_WIDTHS:
        if isinstance(width, int):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.ReLU()]
            inputs = width
        else:
            layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


def read_vgg(file: str, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """Read the weights of VGG-19's features, after checking that the file is what it should be.

    ``expected`` has tensors of the wanted shapes, by torchvision's numbers: ``0.weight`` and so on.
    """
    path = Path(file) if file else Path(torch.hub.get_dir()) / "checkpoints" / VGG_FILE
    if not path.is_file():
        raise WeightsError(
            f"this training needs VGG-19 weights, and there is no file {path}; put torchvision's"
            f" {VGG_FILE} there or name a file with the option vgg, or train without: KPAC without"
            " a second phase (fine_steps=0), DMENet from scratch"
        )
    try:
        if path.suffix == ".safetensors":
            weights = load_file(path)
        else:
            with path.open("rb") as opened:
                found = hashlib.file_digest(opened, "sha256").hexdigest()
            if not found.startswith(Path(VGG_FILE).stem.split("-")[1]):
                raise WeightsError(
                    f"{path}: its SHA-256 is not that of torchvision's VGG-19; get it again, or"
                    " give the weights as .safetensors"
                )
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except (SafetensorError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise WeightsError(f"{path}: cannot be read as VGG-19 weights ({error})") from error
    for name, wanted in expected.items():
        tensor = weights.get(f"features.{name}")
        if tensor is None or tensor.shape != wanted.shape:
            raise WeightsError(f"{path}: no VGG-19 weights (features.{name} is missing or odd)")
    return {name: weights[f"features.{name}"] for name in expected}
