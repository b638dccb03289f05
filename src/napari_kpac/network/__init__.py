"""The KPAC network and the baselines of the paper, in pure torch.

Every name is imported on first use. Not for: files (weights), images and devices (engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
