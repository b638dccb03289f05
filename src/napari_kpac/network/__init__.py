"""The KPAC network and the baselines of the paper, in pure torch.

Not for: files (weights), images and devices (engine).
"""

from napari_kpac.network.baselines import DPDNet, ResidualNet
from napari_kpac.network.block import BlockState, KPACBlock
from napari_kpac.network.config import KPACConfig
from napari_kpac.network.cost import Cost, count_flops, count_parameters
from napari_kpac.network.net import Encoded, KPACNet, Modulate, Stage, build

__all__ = [
    "BlockState",
    "Cost",
    "DPDNet",
    "Encoded",
    "KPACBlock",
    "KPACConfig",
    "KPACNet",
    "Modulate",
    "ResidualNet",
    "Stage",
    "build",
    "count_flops",
    "count_parameters",
]
