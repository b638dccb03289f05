"""Images and stacks as files, one module per family of formats.

Not for: what the pixels mean (engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
