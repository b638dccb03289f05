"""Datasets of blurred and sharp images: DPDD, CUHK, folders of pairs, synthetic pairs.

Every name is imported on first use. Not for: the optics of blur (optics), or training with the
pairs (training).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
