"""Dialogs that ask for the name of a file to write.

Not for: writing it.
"""

from __future__ import annotations

import re
from pathlib import Path

from qtpy.QtWidgets import QFileDialog, QMessageBox, QWidget

_ENDING = re.compile(r"\*(\.[\w.]+)")


def ask_save_name(
    parent: QWidget | None, title: str, suggested: str, files: str
) -> tuple[Path, str] | None:
    """Ask for a file to write; returns its name and the kind of file that was chosen.

    A name with an ending of another kind is taken at its word; one without an ending gets that of
    the kind. If that is the name of a file that is there, which the dialog could not know, the user
    is asked once more.

    Parameters
    ----------
    parent
        The widget that asks.
    title
        Of the dialog.
    suggested
        The name to begin with.
    files
        Kinds of files as Qt has them: ``TIFF (*.tif *.tiff);;PNG (*.png)``.
    """
    text, kind = QFileDialog.getSaveFileName(parent, title, suggested, files)
    if not text:
        return None
    kinds = files.split(";;")
    chosen = kind if kind in kinds else kinds[0]
    named = [each for each in (chosen, *kinds) if with_ending(Path(text), each) == Path(text)]
    kind = next(iter(named), chosen)
    path = with_ending(Path(text), kind)
    if path != Path(text) and path.exists():
        question = f"{path.name} is there already. Do you want to replace it?"
        if QMessageBox.question(parent, title, question) != QMessageBox.StandardButton.Yes:
            return None
    return path, kind


def with_ending(path: Path, kind: str) -> Path:
    """Return the path with an ending of a kind of file, the first one where it has none."""
    endings = _ENDING.findall(kind)
    if not endings or path.name.lower().endswith(tuple(endings)):
        return path
    return path.with_name(path.name + endings[0])
