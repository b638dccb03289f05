"""Image in, image out: pixels and axes, device, tiling, the interactive Session, recipes.

Not for: windows (widgets), terminals (cli), or the network's arithmetic (network).
"""

from napari_kpac.engine.deblur import Result, blur_map, deblur

__all__ = ["Result", "blur_map", "deblur"]
