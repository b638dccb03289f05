"""Reading and writing of image files: plain formats, TIFF, Zarr, RAW, and their metadata.

Not for: what the pixels mean (engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
