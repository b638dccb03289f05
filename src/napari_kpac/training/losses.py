"""What training makes small: the error of the picture, and attention that says nothing of blur.

Not for: the perceptual loss (perceptual), or scores (validation).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d, binary_cross_entropy

ONSET = 1.0
"""Radius in pixels from which on the smallest dilation should be at work."""
SPAN = 6.0
"""The same for the largest dilation; those between follow in equal steps of their ratio."""
SOFTNESS = 0.3
"""Width of the change from idle to at work, as a share of the radius where it happens."""


def mean_absolute_error(output: Tensor, sharp: Tensor) -> Tensor:
    """Give the mean absolute error, white and black being 1 apart."""
    return (output - sharp).abs().mean() / 2


def alpha_targets(radius: Tensor, dilations: int) -> Tensor:
    """Give what every alpha (B, dilations, h, w) should be for radii (B, 1, h, w) in pixels.

    Each dilation is at work where the blur is larger than a radius of its own: the first from
    about 1 px on, the last from about 6 px on. So alpha_1 tells blurred from sharp, and the
    larger dilations are left to the larger blur.
    """
    share = torch.linspace(0, 1, dilations, device=radius.device).view(1, -1, 1, 1)
    onset = ONSET * (SPAN / ONSET) ** share
    return torch.sigmoid((radius - onset) / (SOFTNESS * onset))


def attention_loss(alphas: Sequence[Tensor], radius: Tensor) -> Tensor:
    """Give the cross entropy between the alphas of all blocks and what they should be."""
    losses = []
    for alpha in alphas:
        size = (alpha.shape[-2], alpha.shape[-1])
        wanted = alpha_targets(adaptive_avg_pool2d(radius[:, None], size), alpha.shape[1])
        losses.append(binary_cross_entropy(alpha.float(), wanted))
    return torch.stack(losses).mean()
