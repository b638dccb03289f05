"""Model files and the model catalogue: safetensors, the authors' .npz, model cards.

Every name is imported on first use. Not for: what the networks compute (network), or images
(engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
