"""The tables and figures of the paper, reproduced beside the published numbers.

Every name is imported on first use. Not for: scores of models (evaluation), or training itself.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
