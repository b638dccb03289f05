"""Names of models: what may stand in the catalogue, and as the name of a file.

Loads nothing heavy. Not for: the models (weights).
"""

from __future__ import annotations

import re

from napari_kpac.errors import WeightsError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(name: object) -> str:
    """Return the name if it can stand in the catalogue (and as a file name), else raise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise WeightsError(
            f"model name {str(name)[:80]!r}: use 1 to 64 letters, digits, dots, dashes and "
            "underscores, beginning with a letter or digit"
        )
    return name
