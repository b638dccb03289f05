"""Datasets of blurred and sharp images: DPDD, CUHK, folders of pairs, synthetic pairs.

Loads nothing heavy before it is used; the names are in ``__init__.pyi``. Not for: the optics of
blur (optics), or training with the pairs (training).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
