"""A list of files and folders to work on.

Not for: finding the images in them (napari_kpac.batch.inputs).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFileDialog,
    QHBoxLayout,
    QListWidget,
    QVBoxLayout,
    QWidget,
)

from napari_kpac.widgets.form import button

LIST_ROWS = 3


class InputList(QWidget):
    """A list of files and folders: chosen in dialogs, or dropped here."""

    label = "images"
    tooltip = "Images, and folders with all that is in them. Drop them here."

    def __init__(self) -> None:
        super().__init__()
        self.native = self
        """With this, ``label`` and ``tooltip`` it can stand in a Form."""
        self.paths: list[Path] = []
        self._list = QListWidget()
        self._list.setToolTip(self.tooltip)
        self._list.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self._list.setFixedHeight((self.fontMetrics().height() + 6) * LIST_ROWS)
        self._list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self._list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        buttons = QHBoxLayout()
        for text, tooltip, action in (
            ("Files ...", "Add image files.", self._ask_files),
            ("Folder ...", "Add a folder with all images in it.", self._ask_folder),
            ("Clear", "Take everything out of the list.", self.clear),
        ):
            buttons.addWidget(button(text, tooltip, action))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._list)
        layout.addLayout(buttons)
        self.setAcceptDrops(True)

    def add(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Add files and folders that are not in the list yet."""
        for path in map(Path, paths):
            if path not in self.paths:
                self.paths.append(path)
                text = f"{path.name}{os.sep}" if path.is_dir() else path.name
                self._list.addItem(text)
                item = self._list.item(self._list.count() - 1)
                if item is not None:
                    item.setToolTip(str(path))

    def clear(self) -> None:
        """Empty the list."""
        self.paths.clear()
        self._list.clear()

    def dragEnterEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Take what comes with files."""
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Add the files that were dropped."""
        self.add(url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile())
        event.acceptProposedAction()

    def _ask_files(self) -> None:
        self.add(QFileDialog.getOpenFileNames(self, "Images to deblur")[0])

    def _ask_folder(self) -> None:
        folder = QFileDialog.getExistingDirectory(self, "Folder of images to deblur")
        self.add([folder] if folder else [])
