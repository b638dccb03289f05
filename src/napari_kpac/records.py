"""Small records as JSON files: written whole or not at all, read with an error that helps.

Not for: results that grow row by row (evaluation.ledger), or recipes (engine).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from napari_kpac.errors import FileError
from napari_kpac.files import replacing
from napari_kpac.texts import read_text

MOST_BYTES = 10_000_000


def write_record(path: Path, content: Any) -> Path:
    """Write plain values."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return path


def read_record(path: Path) -> dict[str, Any]:
    """Read a table of plain values that was written into a folder of ours."""
    try:
        content = json.loads(read_text(path, MOST_BYTES))
    except (FileError, ValueError, RecursionError) as error:
        raise FileError(f"cannot read {path}: {error}; choose another folder") from error
    if not isinstance(content, dict):
        raise FileError(f"{path} is not the record that it should be; choose another folder")
    return content
