"""Training: options and presets, batches, the loop, run folders.

Every name is imported on first use. Not for: data (datasets), or scores for papers (evaluation).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
