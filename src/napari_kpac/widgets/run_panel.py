"""The panel that starts, follows and cancels long work: button, progress bar, message.

Every dock has one :class:`RunPanel` (or a bare :class:`Message`)::

    self._panel = RunPanel("Deblur", "Deblur the image; again to cancel.")
    self._panel.wanted.connect(self.run)            # the button, while nothing runs

    def run(self) -> None:
        with self._panel.message.showing_errors():  # a KpacError becomes the message
            options = ...
            self._panel.start(lambda: steps(options), "Loading ...", self._show_result)

While work runs the button says Cancel; progress goes to the bar, and as a text with the time left
to the message (``describe`` makes another text); errors go to the message and to napari's
notifications; for more there are the signals of ``task``. ``RunPanel("")`` has no button, for docks
with buttons of their own; these call ``start``, ``cancel`` and ``task.toggle_pause``.

Not for: the thread (task.py), results (layers.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from napari.utils.notifications import show_info
from qtpy.QtCore import Qt, Signal  # type: ignore[attr-defined]
from qtpy.QtWidgets import QLabel, QProgressBar, QScrollArea, QVBoxLayout, QWidget

from napari_kpac.core.errors import KpacError, for_people, split_place
from napari_kpac.core.progress import Progress, Steps
from napari_kpac.widgets.form import button
from napari_kpac.widgets.help import LINK, show_help
from napari_kpac.widgets.task import Task, later


class Message(QLabel):
    """A text for the person at the window, which can be selected and copied.

    Where it names a place of the documentation, as errors do, that is a link.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.setWordWrap(True)
        flags = Qt.TextInteractionFlag
        self.setTextInteractionFlags(flags.TextSelectableByMouse | flags.LinksAccessibleByMouse)
        self.linkActivated.connect(self._show_help)
        self.setText(text)

    def setText(self, text: str | None) -> None:  # noqa: N802 - Qt's name
        """Show a text, with a link to the place of the documentation at its end."""
        self._text = text or ""
        said, place = split_place(self._text)
        if place:
            said = escape(said, quote=False).replace("\n", "<br>")
            said += f' <a href="{place}" style="color: {LINK}">Help</a>'
        self.setTextFormat(Qt.TextFormat.RichText if place else Qt.TextFormat.PlainText)
        super().setText(said)

    def _show_help(self, place: str) -> None:
        show_help(self, place)

    def text(self) -> str:
        """Return the text as it was given."""
        return self._text

    def show_error(self, text: str) -> None:
        """Show what went wrong, here and as a notification."""
        self.setText(f"⚠ {text}")
        show_info(split_place(text)[0])

    @contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Show a KpacError that is raised inside, instead of letting it pass."""
        try:
            yield
        except KpacError as error:
            self.show_error(for_people(error))


class RunPanel(QWidget):
    """Runs one generator of progress at a time in a thread, and shows how far it is.

    Parameters
    ----------
    text
        What the button says while nothing runs; empty for no button.
    tooltip
        Of the button.
    cancelled
        The message when the work has been cancelled.
    describe
        Makes the message of a Progress; by default the step and the time left.
    """

    wanted = Signal()
    """The button was pressed while nothing ran."""

    def __init__(
        self,
        text: str,
        tooltip: str = "",
        *,
        cancelled: str = "Cancelled.",
        describe: Callable[[Progress], str] | None = None,
    ) -> None:
        super().__init__()
        self._text = text
        self._describe = describe or self._describe_step
        self._cancelled = cancelled
        self._started = 0.0
        self.note = ""
        """The last note of the work, for example that memory ran short."""
        self.task = Task(self)
        self._scroll_soon = later(self, 0, self._scroll_into_view)
        self.button = button("", tooltip, self._toggle)
        self.button.setVisible(bool(text))
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.message = Message()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (self.button, self.bar, self.message):
            layout.addWidget(part)
        self.task.progressed.connect(self._show_progress)
        self.task.failed.connect(self.message.show_error)
        self.task.cancelled.connect(self._show_cancelled)
        self.task.ended.connect(self._show_idle)
        self._show_idle()

    @property
    def seconds(self) -> float:
        """Seconds since the work was started."""
        return time.monotonic() - self._started

    def start(
        self,
        make: Callable[[], Steps[Any]],
        text: str,
        then: Callable[[Any], None] | None = None,
    ) -> None:
        """Run the steps that ``make`` returns, in a thread.

        ``text`` is shown until the first step; ``then`` gets the result, in the window's thread.
        """
        self._started, self.note = time.monotonic(), ""
        self.button.setText("Cancel")
        self.bar.setRange(0, 0)
        self.message.setText(text)
        self._scroll_soon.start()  # once the new text has its place
        self.task.start(make, then)

    def cancel(self) -> None:
        """Ask the work to stop after its present step."""
        self.message.setText("Stopping after this step ...")
        self.task.cancel()

    def _scroll_into_view(self) -> None:
        """Show the whole panel where it lies in a dock that scrolls."""
        area = self.parentWidget()
        while area is not None and not isinstance(area, QScrollArea):
            area = area.parentWidget()
        if area is not None:
            area.ensureWidgetVisible(self)

    def _toggle(self) -> None:
        if self.task.is_running:
            self.cancel()
        else:
            self.wanted.emit()

    def _show_progress(self, progress: Progress) -> None:
        self.bar.setRange(0, progress.total)
        self.bar.setValue(progress.done)
        self.note = progress.note or self.note
        self.message.setText(self._describe(progress))

    def _describe_step(self, progress: Progress) -> str:
        done, total = progress.done, progress.total
        note = progress.note
        if done and not note:
            note = f"about {duration(self.seconds / done * (total - done))} left"
        step = f"Step {done} of {total} ({progress.stage})"
        return f"{step}, {note}" if note else step

    def _show_cancelled(self) -> None:
        self.message.setText(self._cancelled)

    def _show_idle(self) -> None:
        self.button.setText(self._text)
        self.bar.setRange(0, 1)
        self.bar.setValue(0)


def duration(seconds: float) -> str:
    """Return a text such as 40 s, 12 min or 2.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.1f} h"
