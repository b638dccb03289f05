"""Small text files from anywhere: read whole, but never more than such a file can need.

Not for: files that are large by nature (pictures, weights).
"""

from __future__ import annotations

from pathlib import Path

from napari_kpac.errors import FileError

MOST_BYTES = 1_000_000


def read_text(path: Path, most: int = MOST_BYTES) -> str:
    """Read a text file of at most so many bytes; pipes and devices are not waited for.

    Raises
    ------
    FileError
        If there is no such file, it cannot be read, is too large, or is no text.
    """
    try:
        if not path.is_file():
            there = "this is not a file" if path.exists() else "there is no such file"
            raise FileError(f"{path}: cannot be read ({there})")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileError:
        raise
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from error
    if len(content) > most:
        raise FileError(f"{path}: too large, such a file has no more than {most:,} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{path}: this is not text in UTF-8 ({error})") from error
