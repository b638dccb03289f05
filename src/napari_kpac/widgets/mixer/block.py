"""The page of one block: its strips and beta, folded where they change nothing.

Not for: one strip (strip.py), or what the strips are connected to (controls.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from qtpy.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from napari_kpac.widgets.form import Fold
from napari_kpac.widgets.mixer.strip import BetaPlot, Strip
from napari_kpac.widgets.mixer.words import BETA, StripFacts, is_quiet, quiet_sentence


class BlockPage(QWidget):
    """The strips of one block, counted from 0, one beside the other, and its beta below."""

    def __init__(self, block: int, facts: Sequence[StripFacts]) -> None:
        super().__init__()
        self.strips = [Strip(each) for each in facts]
        self.beta = BetaPlot()
        self.note = QLabel(quiet_sentence(block))
        self.note.setWordWrap(True)
        self.note.hide()
        self.fold = Fold("strips of this block", self._build_content(), is_open=True)
        self.fold.button.hide()
        self._is_chosen = False
        """Whether the user folded or unfolded it: then it stays so."""
        self.fold.button.clicked.connect(self._keep_choice)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.note)
        layout.addWidget(self.fold, 1)
        layout.addStretch(0)
        # Unfolded it takes all the height, folded none of it.
        self.fold.button.toggled.connect(partial(layout.setStretchFactor, self.fold))

    def _build_content(self) -> QWidget:
        row = QHBoxLayout()
        row.setSpacing(0)
        for strip in self.strips:
            row.addWidget(strip)
        title = QLabel("β, shape attention of each channel (0 to 1)")
        title.setToolTip(BETA)
        content = QWidget()
        layout = QVBoxLayout(content)
        layout.setContentsMargins(2, 2, 2, 2)
        layout.setSpacing(2)
        layout.addLayout(row, 1)
        layout.addWidget(title)
        layout.addWidget(self.beta)
        return content

    @property
    def is_quiet(self) -> bool:
        """Whether all strips are measured and none of them changes the image."""
        return is_quiet([strip.facts.effect for strip in self.strips])

    def show_effect(self, index: int, effect: float, *, is_used: bool) -> None:
        """Show what muting a strip changes.

        After the last strip the page is folded where none changes anything, unless one
        ``is_used`` or the user has unfolded it.
        """
        self.strips[index].show_effect(effect)
        if any(strip.facts.effect is None for strip in self.strips):
            return
        self.fold.button.setVisible(self.is_quiet)
        self.note.setVisible(self.is_quiet)
        if not self._is_chosen:
            self.fold.is_open = is_used or not self.is_quiet

    def _keep_choice(self) -> None:
        self._is_chosen = True
