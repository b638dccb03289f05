"""The paper's tables and figures, made again beside what it prints.

Loads nothing heavy before it is used. Not for: scores of models (evaluation), or training itself.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
