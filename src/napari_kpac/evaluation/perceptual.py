"""LPIPS, where its package and its weights are at hand; nothing is ever downloaded.

Not for: the measures that need no network (metrics).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from napari_kpac.evaluation.metrics import Picture

WEIGHTS = "alexnet-owt-7be5be79.pth"
"""File of AlexNet's weights in torch's hub cache."""

Measure = Callable[[Picture, Picture], float]


def why_no_lpips() -> str:
    """Say why LPIPS cannot be measured here; empty where it can."""
    if find_spec("lpips") is None:
        return "not measured: install napari-kpac[metrics]"
    if not weights_file().exists():
        return f"not measured: put AlexNet's weights at {weights_file()}"
    return ""


def weights_file() -> Path:
    """Where torch keeps the weights that LPIPS asks for."""
    from torch import hub

    return Path(hub.get_dir()) / "checkpoints" / WEIGHTS


def lpips_measure() -> Measure:
    """Make the measure: LPIPS on AlexNet, pictures clipped to 0..1 and given as -1..1."""
    import lpips  # type: ignore[import-not-found]
    import torch

    network = lpips.LPIPS(net="alex", verbose=False).eval()

    def tensor(picture: Picture) -> torch.Tensor:
        values = np.clip(np.asarray(picture, np.float32), 0, 1) * 2 - 1
        return torch.from_numpy(values).permute(2, 0, 1)[None].contiguous()

    def measure(result: Picture, truth: Picture) -> float:
        with torch.no_grad():
            return float(network(tensor(result), tensor(truth)))

    return measure
