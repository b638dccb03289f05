"""Batch processing of image files, on this machine or on a cluster.

Loads nothing heavy before it is used. Not for: formats (images), or what is done to an image
(engine, detection).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
