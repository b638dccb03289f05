"""Sample data for napari's File > Open Sample menu; all of it works offline.

Not for: making such data (optics).
"""

from __future__ import annotations

from typing import Any

LayerTuple = tuple[Any, dict[str, Any], str]


def coffee() -> list[LayerTuple]:
    """Return scikit-image's photograph of a cup of coffee: sharp in front, blurred behind."""
    from skimage import data

    return [(data.coffee(), {"name": "coffee", "rgb": True}, "image")]
