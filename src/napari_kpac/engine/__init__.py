"""Deblurring of arrays: pixel values and axes, device, tiling, the interactive Session, recipes.

Not for: windows (widgets), terminals (cli), or the network's arithmetic (network).
"""

from napari_kpac.core.options import BlurMapOptions, DeblurOptions
from napari_kpac.engine.blur import BlurMap, blur_map, blur_map_steps
from napari_kpac.engine.deblurring import deblur, deblur_steps, replay, replay_steps
from napari_kpac.engine.device import Device, devices
from napari_kpac.engine.modulation import Modulation
from napari_kpac.engine.recipe import Recipe, Result, load_recipe
from napari_kpac.engine.session import Session

__all__ = [
    "BlurMap",
    "BlurMapOptions",
    "DeblurOptions",
    "Device",
    "Modulation",
    "Recipe",
    "Result",
    "Session",
    "blur_map",
    "blur_map_steps",
    "deblur",
    "deblur_steps",
    "devices",
    "load_recipe",
    "replay",
    "replay_steps",
]
