"""What training makes small: the error of the image, and attention that says nothing of blur.

Not for: the perceptual loss (perceptual), or scores (validation).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, binary_cross_entropy

ONSET = 1.0
"""Radius in pixels from which on the smallest dilation should be at work."""
LAST_ONSET = 12.0
"""The same for the largest dilation; those between follow in equal steps of their ratio."""
SOFTNESS = 0.3
"""Width of the change from idle to at work, as a share of the radius where it happens."""


def mean_absolute_error(output: Tensor, sharp: Tensor) -> Tensor:
    """Return the mean absolute error, white and black being 1 apart."""
    return (output - sharp).abs().mean() / 2


def alpha_targets(radius: Tensor, dilations: int) -> Tensor:
    """Return the target of every alpha (B, dilations, h, w) for radii (B, 1, h, w) in pixels.

    Each dilation is at work where the blur is larger than a radius of its own: the first from
    about 1 px on, the last from about 12 px on. So alpha_1 tells blurred from sharp, and the
    larger dilations are left to the larger blur.
    """
    share = torch.linspace(0, 1, dilations, device=radius.device).view(1, -1, 1, 1)
    onset = ONSET * (LAST_ONSET / ONSET) ** share
    return torch.sigmoid((radius - onset) / (SOFTNESS * onset))


def attention_loss(alphas: Sequence[Tensor], radius: Tensor) -> Tensor:
    """Return the cross entropy between the alphas of all blocks and their targets.

    Crops of unknown radius (NaN) count as if their alphas were right.
    """
    known = ~radius.isnan().flatten(1).any(dim=1)
    losses = []
    for alpha in alphas:
        size = (alpha.shape[-2], alpha.shape[-1])
        pooled = adaptive_avg_pool2d(radius.nan_to_num(0.0)[:, None], size)
        wanted = alpha_targets(pooled, alpha.shape[1])
        entropy = binary_cross_entropy(alpha.float(), wanted, reduction="none").mean(dim=(1, 2, 3))
        losses.append((entropy * known).mean())
    return torch.stack(losses).mean()
