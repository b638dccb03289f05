"""Interactive defocus deblurring with KPAC: the public API.

Every name is imported on first use: importing this module loads neither torch nor napari.
"""

from importlib.metadata import version

import lazy_loader

__version__ = version("napari-kpac")
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
