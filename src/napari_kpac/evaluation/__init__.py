"""Evaluation: metrics, comparison of models and methods, reports, speed.

Every name is imported on first use. Not for: training, or images themselves (engine).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
