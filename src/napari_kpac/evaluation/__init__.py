"""How good and how fast: models and methods compared.

Loads nothing heavy before it is used. Not for: training, or images themselves (engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
