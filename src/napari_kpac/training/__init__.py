"""Training: options and presets, batches, the loop, run folders.

Loads nothing heavy before it is used; the names are in ``__init__.pyi``. Not for: data
(datasets), or scores for papers (evaluation).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
